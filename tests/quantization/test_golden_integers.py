"""Float networks lower to the same integers as when the figures were published."""

from __future__ import annotations

import dataclasses
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hadamrnn.network import Network
from hadamrnn.quantization.calibration import RawInputs, calibrate
from hadamrnn.quantization.lowering import lower
from tests.quantization.models import LEVELS, drawn_model

GOLDEN = Path(__file__).parents[1] / "golden/integers.json"
SHAPE: dict[str, Any] = {"input_size": 3, "hidden_size": 16, "output_size": 4}
STACK: dict[str, Any] = {"layer_sizes": (16, 24), "num_blocks": 2, "leak": (1, 2), "normalize": True}
NETWORKS: dict[str, dict[str, Any]] = {
    "plain": {},
    "ternary": {"weight_bits": "ternary", "recurrence": "relu", "num_blocks": 4},
    "one hot": {"input_kind": "one_hot", "every_output": True, "weight_bits": 8},
    "embedded": {"input_kind": "embedded", "vocabulary_size": 7, "padding_id": 0},
    "pooled": {"readouts": ("mean", "max", "last"), "weight_bits": 3},
    "thresholds": {"readouts": ("mean", "positive"), "thresholds": 3},
    "stack": STACK,
    "stride": {**STACK, "stride": 3, "readouts": ("mean", "max")},
    "skip": {**STACK, "layer_sizes": (16, 16, 16), "skip": True},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_a_float_network_becomes_the_integers_that_it_became(name: str) -> None:
    golden, found = json.loads(GOLDEN.read_text())[name], lowered(name)

    assert {place: found.get(place) for place in golden} == golden


def lowered(name: str) -> dict[str, Any]:
    """Return the numbers of a lowered network, real ones to nine digits."""
    model, x = drawn_model(Network(**{**SHAPE, **NETWORKS[name]}), seed=1)
    raw = RawInputs(levels=LEVELS) if not model.network.takes_ids else None
    integer = lower(model, calibrate(model, [(x, None)]), activation_bits=10, raw=raw)
    return dict(_numbers("", integer))


def _numbers(place: str, value: object) -> Iterator[tuple[str, Any]]:
    if dataclasses.is_dataclass(value):
        for each in dataclasses.fields(value):
            if each.name != "network":
                yield from _numbers(f"{place}.{each.name}", getattr(value, each.name))
    elif isinstance(value, tuple | list):
        for number, each in enumerate(value):
            yield from _numbers(f"{place}.{number}", each)
    elif isinstance(value, np.ndarray) and value.dtype.kind in "iub":
        yield place, [*value.shape, zlib.crc32(value.astype("<i8").tobytes())]
    elif isinstance(value, np.ndarray | float):
        yield place, [float(f"{each:.9g}") for each in np.ravel(value)]
    elif isinstance(value, int | str):
        yield place, value
