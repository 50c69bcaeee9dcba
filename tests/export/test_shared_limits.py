"""The C runtime opens a blob exactly if Python proves that its network stays within 32 bits."""

from __future__ import annotations

import copy
import struct
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.blob import ModelData
from hadamrnn.fixedpoint.model import IntegerModel
from tests.export.test_shared import answers_of_any, build
from tests.family_models import family_model

REFUSED = 19
NETWORKS = 12
NO_INPUTS = struct.pack("<5I", 0, 0, 0, 1, 0)
LAYER_NUMBERS = {
    "accumulator_frac_bits": (-8, 40),
    "input_bias_shift": (0, 31),
    "gain_shift": (0, 30),
    "offset_shift": (0, 30),
    "skip_shift": (-30, 30),
}
NUMBERS = {"output_bias_shift": (0, 31), "longest": (1, 0xFFFF)}


def unproven(owner: Any, **fields: Any) -> Any:
    """Return a copy of a frozen dataclass with other fields, unchecked."""
    other = copy.copy(owner)
    for name, value in fields.items():
        object.__setattr__(other, name, value)
    return other


def variants(model: IntegerModel) -> Iterator[tuple[IntegerModel, bool]]:
    """Yield networks in which one number differs, and whether Python accepts them."""
    for place, layer in enumerate(model.layers):
        for name, (low, high) in LAYER_NUMBERS.items():
            if getattr(layer, name) is None or (
                name.startswith(("gain", "offset")) and layer.gain_int is None
            ):
                continue
            for value in range(low, high + 1):
                layers = list(model.layers)
                changed = unproven(layer, **{name: value})
                layers[place] = changed
                if not (0 <= changed.state_shift <= 31 and -30 <= changed.input_shift <= 31):
                    continue
                yield unproven(model, layers=tuple(layers)), proven(layer, **{name: value})
    for name, (low, high) in NUMBERS.items():
        if getattr(model, name):
            for value in {low, high, *np.unique(np.geomspace(max(low, 1), high, 40).astype(int)).tolist()}:
                yield unproven(model, **{name: value}), proven(model, **{name: value})
    if model.feature_shift is not None:
        for shift in range(1, 63):
            array = np.full_like(model.feature_shift, shift)
            yield unproven(model, feature_shift=array), proven(model, feature_shift=array)


def proven(owner: Any, **fields: Any) -> bool:
    try:
        replace(owner, **fields)
    except InputError:
        return False
    return True


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("limits"), "gcc", ("-O1",))


@pytest.mark.parametrize("extreme", [False, True])
def test_a_blob_opens_exactly_if_python_proves_its_sums(extreme: bool, driver: Path) -> None:
    rng = np.random.default_rng(11)
    models = [family_model(rng, extreme=extreme) for _ in range(NETWORKS)]
    drawn = [pair for model in models for pair in variants(model)]
    blobs = [ModelData(model).blob for model, _ in drawn]
    cases = [struct.pack("<I", len(blob)) + blob + NO_INPUTS for blob in blobs]

    statuses = [status for status, _ in answers_of_any(driver, cases)]

    expected = [0 if takes else REFUSED for _, takes in drawn]
    assert statuses == expected
    assert 0.1 < np.mean(np.array(expected) == 0) < 0.9
