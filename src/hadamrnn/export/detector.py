"""Write a network's detector stage, if it has one, as C and JavaScript."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.alarms import DISTANCE_BITS, Detection, detection_of
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.encoding import encode_raw, raw_from_inputs
from hadamrnn.fixedpoint.model import IntegerModel

RUNTIME = "hadamrnn_detector.h"
SEQUENCES, STEPS = 2, 24  # length of the self-test
Render = Callable[..., str]


def detector_sources(model: IntegerBase, shared: dict[str, Any], render: Render) -> dict[str, str]:
    """Return the detector's C files by name; `shared` has the variables of the network's templates."""
    detection, name = detection_of(model), shared["name"]
    if detection is None:
        return {}
    given = {**shared, "detection": detection, "frac_bits": 2 * DISTANCE_BITS}
    whitening = _rows(detection).astype("<i2").tobytes()
    return {
        f"{name}_detector.h": render("detector.h.j2", **given),
        f"{name}_detector.c": render("detector.c.j2", **given, whitening=whitening),
    }


def detector_selftest(model: IntegerBase, name: str, render: Render) -> dict[str, str]:
    """Return the C files of the detector's self-test by name."""
    detection = detection_of(model)
    if detection is None or not isinstance(model, IntegerModel):
        return {}
    raw, levels = _golden(model, detection)
    return {f"test_{name}_detector.c": render("test_detector.c.j2", name=name, raw=raw, levels=levels)}


def detector_js(model: IntegerBase, runtime_text: Callable[[str], str]) -> str:
    """Return the detector as JavaScript, to be appended to the network's."""
    detection = detection_of(model)
    if detection is None:
        return ""
    fields = {
        "multiplier": detection.multiplier,
        "shift": detection.shift,
        "whitening": [row[: i + 1].tolist() for i, row in enumerate(detection.whitening)],
        "whiteningShift": detection.whitening_shift.tolist(),
        "smoothing": detection.smoothing,
        "threshold": detection.threshold,
        "warmup": detection.warmup,
    }
    text = json.dumps(fields, separators=(",", ":"))
    return f"\n{runtime_text('detector.js')}\nexport const detector = new Detector(network, {text});\n"


def golden_levels(model: IntegerBase) -> dict[str, Any]:
    """Return the self-test's samples and their levels; none for a network without a detector."""
    detection = detection_of(model)
    if detection is None or not isinstance(model, IntegerModel):
        return {}
    raw, levels = _golden(model, detection)
    return {"detector": {"raw": raw.tolist(), "levels": levels.tolist()}}


def _golden(model: IntegerModel, detection: Detection) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return raw codes `(sequences, steps, channels)`, small ones and large ones, and their levels."""
    rng = np.random.default_rng(0)
    values = rng.normal(0, 0.3, (SEQUENCES, STEPS, model.input_size)).cumsum(1)
    values *= np.linspace(0.2, 2.0, SEQUENCES)[:, None, None]
    raw = raw_from_inputs(model, np.clip(values, -model.input_scale, model.input_scale))
    return raw, np.stack([detection.run(model, encode_raw(model, each)[0]) for each in raw])


def _rows(detection: Detection) -> NDArray[np.int16]:
    """Return the entries of the lower triangle, row by row."""
    return detection.whitening[np.tril_indices(len(detection.whitening))]
