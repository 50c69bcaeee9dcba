"""The reference engine on the paper's network, against plain Python integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, SlidingWindow
from hadamrnn.fixedpoint.integers import rounding_factor
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
@settings(max_examples=100, deadline=None)
def test_a_sliding_window_sees_exactly_its_window(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models(every_output=False))
    hop = data.draw(st.integers(1, 3))
    window = hop * data.draw(st.integers(1, 3))
    codes = data.draw(code_batches(model, batch=1, time=14))[0]
    engine = Engine(model)
    sliding = SlidingWindow(engine, window, hop)

    pushed = [sliding.push(code) for code in codes]

    for end, logits in enumerate(pushed, start=1):
        if end < window or end % hop:
            assert logits is None
        else:
            assert logits is not None
            assert logits.tolist() == engine.run(codes[None, end - window : end]).logits[0].tolist()


@pytest.mark.parametrize("order", [2, 8, 12, 20, 28, 36, 40, 100, 128, 512, 2048])
def test_rounding_factor_is_one_over_the_root_to_sixteen_bits(order: int) -> None:
    multiplier, shift = rounding_factor(order)

    assert abs(multiplier / 2**shift * math.sqrt(order) - 1) <= 2**-16
    assert multiplier == 1 or 2**15 <= multiplier < 2**16


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
    with pytest.raises(InputError, match="integer codes"):
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

    engine.step(engine.init(), np.zeros(channels, np.int64))  # one stream may leave out its axis
    engine.step(engine.init(4), np.zeros((4, *channels), np.int64))
    for shape in ((1, 4, *channels), (4 * (channels or (1,))[0] + 1,), (2, *channels), (4, *channels, 1)):
        with pytest.raises(InputError, match="One step of 4 streams has shape"):
            engine.step(engine.init(4), np.zeros(shape, np.int64))
