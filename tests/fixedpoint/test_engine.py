"""The reference engine against plain Python integers: the paper's network, then the whole family."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel
from tests.family_models import family_codes, family_model, leaky_model, noisy
from tests.plain_integers import run_plainly

Strategy = Callable[..., st.SearchStrategy[Any]]


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=2500, deadline=None)
def test_engine_is_the_unbounded_integers(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    codes = data.draw(code_batches(model))
    ends = [data.draw(st.integers(0, codes.shape[1])) for _ in codes]
    lengths = data.draw(st.sampled_from([None, np.array(ends, np.int64)]))

    result = Engine(model).run(codes, lengths, threads=1)

    ends = [codes.shape[1]] * len(codes) if lengths is None else ends
    plain = [run_plainly(model, row, end) for row, end in zip(codes, ends, strict=True)]
    assert result.logits.tolist() == [logits for logits, _ in plain]
    assert result.saturations == sum(stream.saturations for _, stream in plain)
    assert max((stream.largest for _, stream in plain), default=0) < 2**31


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_streaming_is_the_batch(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models(every_output=True))
    codes = data.draw(code_batches(model))
    engine = Engine(model)
    state = engine.init(len(codes))

    streamed = []
    for t in range(codes.shape[1]):
        engine.step(state, codes[:, t])
        streamed.append(engine.read(state))

    batch = engine.run(codes)
    assert [logits.tolist() for logits in streamed] == [
        batch.logits[:, t].tolist() for t in range(codes.shape[1])
    ]
    assert state.saturations == batch.saturations


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_padded_row_is_the_short_row(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models(every_output=False))
    codes = data.draw(code_batches(model, batch=3, time=6))
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=3, max_size=3))
    engine = Engine(model)

    padded = engine.run(codes, lengths)

    alone = [engine.run(row[None, :end]) for row, end in zip(codes, lengths, strict=True)]
    assert padded.logits.tolist() == [result.logits[0].tolist() for result in alone]
    assert padded.saturations == sum(result.saturations for result in alone)


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_chunks_and_threads_change_nothing(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    codes = data.draw(code_batches(model, batch=600, time=2))
    engine = Engine(model)

    whole = engine.run(codes, threads=2)

    parts = [engine.run(codes[start : start + 7], threads=1) for start in range(0, 600, 7)]
    assert np.array_equal(whole.logits, np.concatenate([part.logits for part in parts]))
    assert whole.saturations == sum(part.saturations for part in parts)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_codes_out_of_range_saturate_and_ids_are_refused(
    integer_models: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    engine = Engine(model)
    dense = model.input_kind == "dense"
    shape = (1, 1, model.input_size) if dense else (1, 1)

    if dense:
        top = 1 << model.input_bits - 1
        for far, edge in ((2**31, top - 1), (-(2**31), -top)):
            codes = np.full(shape, far, np.int64)
            assert np.array_equal(engine.run(codes).logits, engine.run(np.full(shape, edge)).logits)
    else:
        state = engine.init()
        for beyond in (-1, model.vocabulary_size):
            with pytest.raises(InputError, match="must lie in"):
                engine.run(np.full(shape, beyond))
            with pytest.raises(InputError, match="must lie in"):
                engine.step(state, beyond)
        assert state.steps == 0 and not state.h.any()
    with pytest.raises(InputError, match="must hold integers"):
        engine.run(np.zeros(shape))
    with pytest.raises(InputError, match="shape"):
        engine.run(np.zeros((1, *shape), np.int64))
    with pytest.raises(InputError, match="lengths"):
        engine.run(np.zeros(shape, np.int64), lengths=[2])


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_step_takes_one_input_a_stream_and_never_reshapes(
    integer_models: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    engine = Engine(model)
    channels = (model.input_size,) if model.input_kind == "dense" else ()

    engine.step(engine.init(), np.zeros(channels, np.int64))  # the axis of a single stream is optional
    engine.step(engine.init(4), np.zeros((4, *channels), np.int64))
    for shape in ((1, 4, *channels), (4 * (channels or (1,))[0] + 1,), (2, *channels), (4, *channels, 1)):
        with pytest.raises(InputError, match="One step of 4 streams must have shape"):
            engine.step(engine.init(4), np.zeros(shape, np.int64))


def check_engine(model: IntegerModel, rng: np.random.Generator) -> None:
    """Batches of different lengths, and streams, against one plain row after the other."""
    codes = family_codes(rng, model, batch=3, time=int(rng.integers(1, 12)))
    lengths = rng.integers(0, codes.shape[1] + 1, 3)
    lengths[0] = codes.shape[1]
    engine = Engine(model)
    plain = [run_plainly(model, row, int(end)) for row, end in zip(codes, lengths, strict=True)]

    for each in (engine, Engine(model, native=False)):
        result = each.run(codes, lengths, threads=1)
        assert result.logits.tolist() == [logits for logits, _ in plain]
        assert result.saturations == sum(stream.saturations for _, stream in plain)
    assert max(stream.largest for _, stream in plain) < 2**31
    state = engine.init(3)
    for t in range(codes.shape[1]):
        engine.step(state, codes[:, t])
    whole = engine.run(codes).logits
    assert np.array_equal(engine.read(state), whole[:, -1] if model.every_output else whole)


@pytest.mark.parametrize("seed", range(4))
def test_the_engine_is_plain_integers_over_the_whole_family(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for _ in range(50):
        check_engine(family_model(rng, extreme=bool(rng.random() < 0.2)), rng)


@pytest.mark.slow
def test_the_engine_is_plain_integers_on_a_thousand_networks() -> None:
    rng = np.random.default_rng(1000)
    for _ in range(1000):
        check_engine(family_model(rng, extreme=bool(rng.random() < 0.2)), rng)


def test_a_leaky_network_runs_for_ever_where_one_that_never_forgets_saturates() -> None:
    leaky = leaky_model()
    (layer,) = leaky.layers
    forgets_nothing = replace(
        leaky, network=replace(leaky.network, leak=()), layers=(replace(layer, leak=()),)
    )

    assert Engine(leaky).run(noisy(8_000)).saturations == 0
    assert Engine(forgets_nothing).run(noisy(8_000)).saturations > 1000


def test_sums_hold_their_longest_sequence_and_no_longer_one() -> None:
    model = family_model(
        np.random.default_rng(2), readouts=("mean",), activation_bits=16, input_kind="one_hot"
    )
    longest = model.longest
    engine, state = Engine(model), Engine(model).init()
    state.steps = longest - 1

    engine.step(state, 0)
    with pytest.raises(InputError, match=f"hold {longest} steps, got {longest + 1}"):
        engine.step(state, 0)
    with pytest.raises(InputError, match=f"hold {longest} steps"):
        engine.run(np.zeros((1, longest + 1), np.int64))
    engine.run(np.zeros((1, longest + 1), np.int64), lengths=[longest])
