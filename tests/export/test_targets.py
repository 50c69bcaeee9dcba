"""The exported C on this machine, and the figures that emulators print; test_edge.py runs the emulators."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.export.targets import classify_on_host, numbers
from hadamrnn.fixedpoint import Engine, IntegerModel, encode_raw
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.network import Network

needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")


def drawn(kind: str, **options: Any) -> IntegerModel:
    network = Network(2, 16, 3, input_kind=kind, activation_bits=12, **options)
    return draw_integers(network, np.random.default_rng(0))


@needs_cc
@pytest.mark.parametrize("kind", ["dense", "one_hot"])
def test_the_host_finds_the_classes_of_the_engine(kind: str) -> None:
    model, rng = drawn(kind), np.random.default_rng(1)
    raw = rng.integers(-300, 300, (20, 7, 2)) if kind == "dense" else rng.integers(0, 2, (20, 7))
    codes = encode_raw(model, raw)[0] if kind == "dense" else raw

    found = classify_on_host(model, raw)

    assert found.tolist() == Engine(model).run(codes).logits.argmax(axis=1).tolist()
    assert len(set(found.tolist())) > 1
    assert len(classify_on_host(model, raw[:0])) == 0


@pytest.mark.parametrize(
    ("kind", "inputs", "message"),
    [
        ("dense", np.zeros((2, 3, 2)), r"must hold integers .*, got float64"),
        ("dense", np.zeros((2, 3, 3), np.int64), r"must have shape \(batch, time, 2\), got \(2, 3, 3\)"),
        ("dense", np.zeros((2, 0, 2), np.int64), "steps must lie in 1..40, got 0"),
        ("dense", np.zeros((2, 41, 2), np.int64), "steps must lie in 1..40, got 41"),
        ("dense", np.full((2, 3, 2), 1 << 31), r"must lie in -2147483648\.\."),
        ("one_hot", np.zeros((2, 3, 2), np.int64), r"must have shape \(batch, time\)"),
        ("one_hot", np.full((2, 3), -1), r"must lie in 0\.\.1, got -1\.\.-1"),
    ],
)
def test_what_the_host_would_misread_is_refused(kind: str, inputs: Any, message: str) -> None:
    model = replace(drawn(kind, readouts=("mean",)), longest=40)

    with pytest.raises(InputError, match=message):
        classify_on_host(model, inputs)


@pytest.mark.parametrize("printed", ["0 12 3 4 \n", "boot\n\x1b[32m0 12 3 4 ..\x1b[0m\n", "1.5 2\n0 12 3 4"])
def test_the_figures_of_an_emulator_are_its_first_line_of_numbers(printed: str) -> None:
    assert numbers(printed) == [0, 12, 3, 4]


def test_an_emulator_that_prints_no_figures_is_an_error() -> None:
    with pytest.raises(InputError, match="printed no figures: 'Segmentation fault'"):
        numbers("Segmentation fault")
