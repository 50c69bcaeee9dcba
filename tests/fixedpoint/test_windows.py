"""Sliding windows: each answer depends on its window alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel, SlidingWindow
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.network import Network
from tests.family_models import family_codes, family_model
from tests.plain_integers import PlainIntegers

Strategy = Callable[..., st.SearchStrategy[Any]]


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


def plain_window(model: IntegerModel, codes: NDArray[np.int64], window: int) -> list[int]:
    """Return the logits of the last `window` inputs alone, one number at a time."""
    plain = PlainIntegers(model)
    for code in codes[len(codes) - window :]:
        plain.step(code)
    return plain.logits()


@pytest.mark.parametrize("leak", [(), (1, 0), (2, 1, 4)])
def test_a_sliding_window_of_leaky_and_pooled_networks_sees_exactly_its_window(
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


def test_only_entries_of_windows_count_as_saturated() -> None:
    network = Network(30, 8, 2, activation_bits=4, weight_bits=8)
    engine = Engine(draw_integers(network, np.random.default_rng(0)))
    codes = np.full((1, 8, 30), 255)
    sliding = SlidingWindow(engine, 4, 2)
    for code in codes[0, :6]:
        sliding.push(code)

    # Three windows have begun: two are complete, the last one has two inputs.
    clipped = [engine.run(codes[:, :length]).saturations for length in (4, 4, 2)]
    assert sliding.saturations == sum(clipped) > 0


@pytest.mark.parametrize(
    ("window", "hop", "message"),
    [
        (4, 3, "a multiple of hop, got 4 and 3"),
        (0, 1, "window must lie in 1"),
        (4, 0, "hop must lie in 1"),
        (4.0, 2.0, r"hop must be int, got 2.0"),
        ("4", 2, "window must be int, got"),
        (1001, 1001, "The sums of this network hold 1000 steps, got 1001"),
    ],
)
def test_a_window_that_cannot_be_is_refused(window: Any, hop: Any, message: str) -> None:
    network = Network(1, 8, 2, readouts=("mean",), activation_bits=12)

    with pytest.raises(InputError, match=message):
        SlidingWindow(Engine(draw_integers(network, np.random.default_rng(0))), window, hop)
