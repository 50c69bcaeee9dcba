"""Front ends on devices: the same codes as numpy, and the estimated cost is that of the emulator."""

from __future__ import annotations

import numpy as np
import pytest

from hadamrnn.export.target_front_end import measure_front_end
from hadamrnn.front_end import FrontEnd, front_end_cost
from tests.edge_targets import installed
from tests.front_end.signals import mixed_signal, random_front_end

SPEECH = FrontEnd("mel", rate=16_000, frame=400, hop=160, bands=32)


@pytest.mark.edge
@pytest.mark.parametrize("seed", range(10))
def test_the_codes_of_every_kind_of_signal_on_a_cortex_m4_are_those_of_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    front_end = random_front_end(rng)
    found = measure_front_end(front_end, installed("cortex-m4"), signal=mixed_signal(front_end, rng))
    assert found.differences == 0
    assert 0.9 < found.hop / front_end_cost(front_end).instructions < 1.01


@pytest.mark.edge
def test_the_front_end_of_speech_takes_a_seventh_of_a_64_mhz_cortex_m4() -> None:
    found = measure_front_end(SPEECH, installed("cortex-m4"))
    assert found.hop * 100 <= 0.15 * 64_000_000
    assert found.flash <= front_end_cost(SPEECH).flash
    assert found.flash <= 2500 and found.stack <= 300
    assert found.ram == front_end_cost(SPEECH).ram + 4  # the floor of a front end without noise


def test_more_bands_and_longer_frames_cost_more() -> None:
    costs = [
        front_end_cost(FrontEnd(frame=frame, hop=64, bands=bands)) for frame, bands in ((128, 16), (400, 32))
    ]
    assert all(getattr(costs[0], name) < getattr(costs[1], name) for name in vars(costs[0]))
