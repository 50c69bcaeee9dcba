"""A page has a drawing pad and test sequences if its network can read them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.export.page import (
    MAX_CODES_BYTES,
    MAX_SEQUENCES,
    Stored,
    drawing_pad,
    live_network,
    stored_rows,
)
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network
from hadamrnn.reservoir import Group
from tests.conftest import Command
from tests.reservoir_models import draw_reservoir

PIXELS = draw_model(Network(input_size=1, hidden_size=8, output_size=2, activation_bits=12))
WORDS = draw_model(
    Network(input_size=9, hidden_size=8, output_size=2, activation_bits=12, input_kind="one_hot")
)


@pytest.mark.parametrize("order", [None, np.array([3, 1, 0, 2])])
def test_a_pad_keeps_the_order_of_its_pixels_and_its_levels(order: NDArray[np.int64] | None) -> None:
    stored = Stored(np.zeros((1, 4, 1), np.int64), np.zeros(1, np.int64))
    pad = drawing_pad(2, np.array([-5, 0, 7]), box=1.5, radius=0.5, by_mass=True, order=order)

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


def saved(folder: Path, **given: Any) -> Path:
    """Return the file of a network of two classes, no and yes, two channels and at most eight steps."""
    rng = np.random.default_rng(0)
    groups = (Group(segments=3),)
    model = draw_reservoir(rng, groups=groups, input_size=2, seq_length=8, **{"output_size": 2, **given})
    model.save(folder / "net.safetensors")
    return folder / "net.safetensors"


def test_a_page_of_a_file_plays_its_examples_each_up_to_its_length(tmp_path: Path, command: Command) -> None:
    x = np.random.default_rng(1).normal(size=(6, 8, 2))
    y, lengths = np.array(["yes", "no"] * 3), np.array([8, 3, 8, 5, 1, 2])
    np.savez(tmp_path / "data.npz", x=x, y=y, lengths=lengths)
    out = tmp_path / "page"

    options = ("--to", "page", "--examples", tmp_path / "data.npz", "--name", "gait", "--out", out)
    assert command("export", saved(tmp_path), *options).status == 0

    data = re.search(r'type="application/json"[^>]*>(.*?)</script>', (out / "gait.html").read_text())
    assert data is not None
    stored = json.loads(data[1])["gait"]["stored"]
    assert stored["labels"] == [1, 0] * 3 and stored["lengths"] == lengths.tolist()


@pytest.mark.parametrize(
    ("given", "arrays", "message"),
    [
        ({}, {"y": ["yes", "maybe"]}, "classes of the run, 'no, yes', got 'maybe'"),
        ({}, {"y": [0.5, 1.5]}, "y must be 2 labels, got float64"),
        ({}, {}, "y must be 2 labels, and is missing"),
        ({}, {"y": ["no", "yes"], "x": np.zeros((2, 8, 3))}, r"2 channels last; .* shape \(2, 8, 3\)"),
        ({}, {"y": ["no", "yes"], "x": np.zeros((2, 9, 2))}, r"stored sequence must lie in 1..8, got 9"),
        ({"output_size": 3}, {"y": ["no", "yes"]}, "names their classes"),
    ],
)
def test_examples_that_do_not_fit_the_network_are_refused_in_one_line(
    given: dict[str, Any], arrays: dict[str, Any], message: str, tmp_path: Path, command: Command
) -> None:
    np.savez(tmp_path / "data.npz", **{"x": np.zeros((2, 8, 2)), **arrays})

    options = ("--to", "page", "--examples", tmp_path / "data.npz", "--out", tmp_path / "page")
    answer = command("export", saved(tmp_path, **given), *options)

    assert answer.status == 2 and answer.err.count("\n") == 1
    assert re.search(message, answer.err)
    assert not (tmp_path / "page").exists()


def test_only_pages_take_examples(tmp_path: Path, command: Command) -> None:
    answer = command("export", saved(tmp_path), "--out", tmp_path / "c", "--examples", "data.npz")

    assert answer.status == 2 and "--examples" in answer.err
