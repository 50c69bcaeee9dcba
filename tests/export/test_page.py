"""A page holds the pad and the test sequences that its network can answer."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.export.page import MAX_CODES_BYTES, MAX_SEQUENCES, DrawingPad, Stored, live_network, stored_rows
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network

PIXELS = draw_model(Network(input_size=1, hidden_size=8, output_size=2, activation_bits=12))
WORDS = draw_model(
    Network(input_size=9, hidden_size=8, output_size=2, activation_bits=12, input_kind="one_hot")
)


@pytest.mark.parametrize("order", [None, np.array([3, 1, 0, 2])])
def test_a_pad_keeps_the_order_of_its_pixels_and_its_levels(order: NDArray[np.int64] | None) -> None:
    stored = Stored(np.zeros((1, 4, 1), np.int64), np.zeros(1, np.int64))
    pad = DrawingPad(2, np.array([-5, 0, 7]), box=1.5, radius=0.5, by_mass=True, order=order)

    data = live_network(PIXELS, "net", "", stored, pad=pad).data["pad"]

    assert data == {
        "side": 2, "top": 2, "codes": [-5, 0, 7], "box": 1.5, "radius": 0.5, "byMass": True,
        "order": None if order is None else [3, 1, 0, 2],
    }  # fmt: skip


@pytest.mark.parametrize(("model", "bits"), [(PIXELS, PIXELS.input_bits), (WORDS, 5)])
def test_a_page_holds_as_many_sequences_as_fit_evenly_spaced(model: IntegerModel, bits: int) -> None:
    time = 8 * MAX_CODES_BYTES // (10 * bits)  # ten sequences of so many steps fit

    assert stored_rows(model, 28, time).tolist() == [0, 3, 6, 9, 12, 15, 18, 21, 24, 27]
    assert len(stored_rows(model, 28, time + 1)) == 9
    assert stored_rows(model, 2, time).tolist() == [0, 1]
    assert stored_rows(model, 2, 100 * time).tolist() == [0]
    assert len(stored_rows(model, 10**6, 1)) == MAX_SEQUENCES
