"""Integer arithmetic in ONNX: rounded shifts, saturation, and the encoding of raw values, in int64.

ONNX shifts unsigned integers only, so in int64 a rounded right shift is a floored division: floor(v / 2^s) is
(v - (v mod 2^s)) / 2^s, exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.export.onnx_graph import Builder, TensorProto
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, value_scaling
from hadamrnn.fixedpoint.integers import signed_range


def integer_properties(model: IntegerBase) -> dict[str, Any]:
    """Return the metadata of an integer graph."""
    properties = {"classes": model.class_names, "logit_scale": model.logit_scale}
    if model.input_kind != "dense":
        return properties
    offset, scale = value_scaling(model)
    return properties | {"offset": offset, "scale": scale, "raw_unit": model.raw_unit}


def within(build: Builder, value: str, low: int, high: int) -> str:
    """Return `value` saturated to low..high.

    ONNX Runtime's own Clip, Min and Max of int64 err on x86-64 for numbers beyond 32 bits.
    """
    for relation, bound in (("Less", low), ("Greater", high)):
        limit = build.constant(bound, np.int64)
        value = build.op("Where", build.op(relation, value, limit), limit, value)
    return value


def round_shift(build: Builder, value: str, shift: ArrayLike) -> str:
    """Return (value + 2^(shift-1)) >> shift, with one shift for all or one per column; 0 does nothing."""
    units = np.left_shift(np.int64(1), np.asarray(shift, np.int64))
    if np.all(units == 1):
        return value
    unit = build.constant(units, np.int64)
    value = build.op("Add", value, build.constant(units >> 1, np.int64))
    return build.op("Div", build.op("Sub", value, build.op("Mod", value, unit)), unit)


def encoded(build: Builder, x: str, model: IntegerBase) -> str:
    """Return the codes of values: `encode_values`, bit for bit."""
    x = build.op("Div", x, build.constant(model.raw_unit, np.float64))
    x = build.op("Floor", build.op("Add", x, build.constant(0.5, np.float64)))
    x = build.op("Clip", x, *(build.constant(bound, np.float64) for bound in signed_range(32)))
    raw = build.op("Cast", x, to=TensorProto.INT64)
    if model.raw_offset is not None and model.raw_multiplier is not None and model.raw_shift is not None:
        if model.raw_knee is not None:
            raw = _compressed(build, raw, model.raw_knee)
        raw = build.op("Sub", raw, build.constant(model.raw_offset, np.int64))
        raw = build.op("Mul", raw, build.constant(model.raw_multiplier, np.int64))
        raw = round_shift(build, raw, model.raw_shift)
    return within(build, raw, *signed_range(model.input_bits))


def _compressed(build: Builder, raw: str, knee: NDArray[np.int32]) -> str:
    """Return `compressed_codes(raw, knee)`."""

    def number(value: ArrayLike) -> str:
        return build.constant(value, np.int64)

    above = build.op("Add", build.op("Abs", raw), number(np.left_shift(np.int64(1), knee.astype(np.int64))))
    powers = number(np.left_shift(np.int64(1), np.arange(1, 33)))
    reached = build.op("GreaterOrEqual", build.op("Unsqueeze", above, number([-1])), powers)
    octave = build.op("ReduceSum", build.op("Cast", reached, to=TensorProto.INT64), number([-1]), keepdims=0)
    power = build.op("Gather", number(np.left_shift(np.int64(1), np.arange(33))), octave)
    rest = build.op("Mul", build.op("Sub", above, power), number(1 << OCTAVE_BITS))
    whole = build.op("Mul", build.op("Sub", octave, number(knee)), number(1 << OCTAVE_BITS))
    octaves = build.op("Add", whole, build.op("Div", rest, power))
    octaves = build.op("Mul", build.op("Sign", raw), octaves)
    return build.op("Where", build.constant(knee > 0, np.bool_), octaves, raw)
