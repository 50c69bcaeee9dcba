"""The engine on networks that forget, count and stack, against plain Python integers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel, SlidingWindow
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.kernels.library import load_library
from hadamrnn.network import Network
from tests.family_models import family_codes, family_model
from tests.plain_integers import run_plainly


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


def test_a_sliding_window_sees_exactly_its_window_whatever_the_stride() -> None:
    rng = np.random.default_rng(5)
    for _ in range(20):
        model = family_model(rng, every_output=False)
        hop = int(rng.integers(1, 4))
        window = hop * int(rng.integers(1, 4))
        codes = family_codes(rng, model, batch=1, time=2 * window + hop)[0]
        engine = Engine(model)
        sliding = SlidingWindow(engine, window, hop)

        for end, code in enumerate(codes, start=1):
            logits = sliding.push(code)
            if end < window or end % hop:
                assert logits is None
            else:
                assert logits is not None
                assert np.array_equal(logits, engine.run(codes[None, end - window : end]).logits[0])


def noisy(steps: int) -> NDArray[np.int16]:
    return np.random.default_rng(0).integers(-180, 181, (1, steps, 2), dtype=np.int16)


def leaky_model() -> IntegerModel:
    network = Network(2, 32, 3, num_blocks=4, leak=(1, 2, 3), activation_bits=12, input_bias=False)
    return draw_model(network)


def test_a_leaky_network_runs_for_ever_where_one_that_never_forgets_saturates() -> None:
    leaky = leaky_model()
    (layer,) = leaky.layers
    forgets_nothing = replace(leaky, layers=(replace(layer, network=replace(layer.network, leak=())),))

    assert Engine(leaky).run(noisy(8_000)).saturations == 0
    assert Engine(forgets_nothing).run(noisy(8_000)).saturations > 1000


@pytest.mark.edge  # takes half a minute
@pytest.mark.skipif(load_library() is None, reason="ten million steps need the native library")
def test_ten_million_noisy_steps_do_not_saturate_a_leaky_network() -> None:
    assert Engine(leaky_model()).run(noisy(10_000_000)).saturations == 0


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
