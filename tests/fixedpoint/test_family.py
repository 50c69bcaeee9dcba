"""The engine on networks that forget, count and stack, against plain Python integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel, SlidingWindow
from tests.family_models import family_codes, family_model, leaky_model, noisy
from tests.plain_integers import PlainIntegers, run_plainly


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


def plain_window(model: IntegerModel, codes: NDArray[np.int64], window: int) -> list[int]:
    """Return the logits of the last `window` inputs: pools of these alone; states that forget go on."""
    plain = PlainIntegers(model)
    start = len(codes) - window
    for code in codes[0 if model.network.forgets else start : start]:
        plain.step(code)
    plain.layers[-1].steps, plain.most = 0, None
    for row in (*plain.mean, *plain.positive):
        row[:] = [0] * len(row)
    for code in codes[start:]:
        plain.step(code)
    return plain.logits()


@pytest.mark.parametrize("leak", [(), (1, 0), (2, 1, 4)])
def test_a_sliding_window_counts_exactly_its_window_and_only_what_forgets_goes_on(
    leak: tuple[int, ...],
) -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        model = family_model(rng, every_output=False, leak=leak)
        hop = int(rng.integers(1, 4))
        window = hop * int(rng.integers(1, 4))
        codes = family_codes(rng, model, batch=1, time=2 * window + hop)[0]
        sliding = SlidingWindow(Engine(model), window, hop)

        for end, code in enumerate(codes, start=1):
            logits = sliding.push(code)
            if end < window or end % hop:
                assert logits is None
            else:
                assert logits is not None
                assert logits.tolist() == plain_window(model, codes[:end], window)


def test_a_leaky_network_runs_for_ever_where_one_that_never_forgets_saturates() -> None:
    leaky = leaky_model()
    (layer,) = leaky.layers
    forgets_nothing = replace(leaky, layers=(replace(layer, network=replace(layer.network, leak=())),))

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
    with pytest.raises(InputError, match=f"hold {longest} steps"):
        SlidingWindow(engine, longest + 1, longest + 1)
    engine.run(np.zeros((1, longest + 1), np.int64), lengths=[longest])
