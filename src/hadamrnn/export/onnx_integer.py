"""Build the integer network in ONNX, in int64 and equal to the reference engine bit for bit.

The equations are those of `fixedpoint.layer` and `fixedpoint.model`. ONNX can shift only unsigned integers,
so a rounded right shift becomes a floored division: floor(v / 2^s) = (v - (v mod 2^s)) / 2^s exactly.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.export.onnx_graph import Builder, LayeredRecipe, State, TensorProto, transform
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, value_scaling
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.step import RATE_BITS
from hadamrnn.network import COUNTED


class IntegerRecipe(LayeredRecipe):
    """An `IntegerModel` in int64, equal to the reference engine bit for bit."""

    dtype = np.int64
    element = answer = TensorProto.INT64
    numbers = "int64, the device's bits"

    def __init__(self, model: IntegerModel) -> None:
        self.model, self.network, self.thresholds = model, model.network, model.thresholds_int
        self.properties = integer_properties(model)

    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        """Encode values; as in C, an unknown id or a step beyond `longest` leaves the state unchanged."""
        model, moves = self.model, None
        if model.longest:
            moves = build.op("Less", state["steps"], build.constant(model.longest, np.int64))
        if model.input_kind == "dense":
            return encoded(build, x, self.model), moves
        known = within(build, x, 0, model.vocabulary_size - 1)
        rows = build.op("Unsqueeze", build.op("Equal", x, known), build.constant([-1], np.int64))
        if model.embedding_int is not None:
            known = build.op("Gather", build.constant(model.embedding_int, np.int64), known)
        return known, rows if moves is None else build.op("And", rows, moves)

    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        layer = self.model.layers[index]
        factors = layer.signs.astype(np.int64) << layer.state_shift
        mixed = transform(build, h, layer.hidden_size, self.network.num_blocks, np.int64)
        acc = build.op("Mul", mixed, build.constant(factors, np.int64))
        if layer.leak:
            lost = round_shift(build, acc, layer.unit_leaks)
            leaks = build.constant(layer.unit_leaks > 0, np.int64)
            acc = build.op("Sub", acc, build.op("Mul", lost, leaks))
        weight = build.constant(layer.input_weight_int.T, np.int64)
        hot = layer.input_kind == "one_hot"
        product = build.op("Gather", weight, x) if hot else build.op("MatMul", x, weight)
        acc = build.op("Add", acc, self._shifted(build, product, layer.input_shift))
        if layer.input_bias_int is not None:
            acc = build.op("Add", acc, build.constant(layer.input_bias, np.int64))
        acc = build.op("Mul", acc, build.constant(layer.round_multiplier, np.int64))
        low, high = signed_range(layer.activation_bits)
        low = max(low, 0) if self.network.recurrence == "relu" else low
        return within(build, round_shift(build, acc, layer.round_shift), low, high)

    def output(self, build: Builder, index: int, x: str, h: str) -> str:
        layer, y = self.model.layers[index], h
        assert layer.output_bits is not None
        low, high = signed_range(layer.output_bits)
        if layer.gain_int is not None and layer.offset_int is not None:
            y = build.op("Mul", y, build.constant(layer.gain_int, np.int64))
            offset = layer.offset_int.astype(np.int64) << layer.offset_shift
            y = build.op("Add", y, build.constant(offset, np.int64))
            y = round_shift(build, y, layer.gain_shift)
        y = within(build, y, 0, high)
        if layer.skip_shift is None:
            return y
        return within(build, build.op("Add", y, self._shifted(build, x, layer.skip_shift)), low, high)

    def strided(self, build: Builder, total: str) -> str:
        return total

    def readout(self, build: Builder, state: State) -> str:
        model = self.model
        codes = build.op("Concat", *self._features(build, state), axis=1)
        if model.feature_shift is not None and model.feature_bits is not None:
            codes = round_shift(build, codes, model.feature_shift)
            codes = within(build, codes, *signed_range(model.feature_bits))
        logits = build.op("MatMul", codes, build.constant(model.output_weight_int.T, np.int64))
        return build.op("Add", logits, build.constant(model.output_bias, np.int64))

    def _features(self, build: Builder, state: State) -> list[str]:
        """Return the values of the read-outs, multiplied by their rates if features have scales."""
        last = state[self.hidden(self.network.num_layers - 1)]
        values = [
            build.op("Max", last, build.constant(0, np.int64)) if kind == "last" else state[kind]
            for kind in self.network.readouts
        ]
        if self.model.feature_multiplier is None:
            return values
        scaled = []
        for kind, value, m in zip(self.network.readouts, values, self.model.feature_multiplier, strict=True):
            rate = build.constant(m << RATE_BITS, np.int64)
            if kind in COUNTED:
                steps = build.op("Max", self.top_steps(build, state), build.constant(1, np.int64))
                rate = build.op("Div", rate, steps)
            scaled.append(build.op("Mul", value, rate))
        return scaled

    def _shifted(self, build: Builder, value: str, shift: int) -> str:
        if shift < 0:
            return round_shift(build, value, -shift)
        return build.op("Mul", value, build.constant(1 << shift, np.int64))


def integer_properties(model: IntegerBase) -> dict[str, Any]:
    """Return the metadata of an integer graph."""
    properties = {"classes": model.class_names, "logit_scale": model.logit_scale}
    if model.input_kind != "dense":
        return properties
    offset, scale = value_scaling(model)
    return properties | {"offset": offset, "scale": scale, "raw_unit": model.raw_unit}


def within(build: Builder, value: str, low: int, high: int) -> str:
    """Return `value` saturated to low..high.

    ONNX Runtime's own Clip, Min and Max for int64 are wrong on x86-64 for numbers beyond 32 bits.
    """
    for relation, bound in (("Less", low), ("Greater", high)):
        limit = build.constant(bound, np.int64)
        value = build.op("Where", build.op(relation, value, limit), limit, value)
    return value


def round_shift(build: Builder, value: str, shift: ArrayLike) -> str:
    """Return (value + 2^(shift-1)) >> shift, for one shift or one per column; a shift of 0 does nothing."""
    units = np.left_shift(np.int64(1), np.asarray(shift, np.int64))
    if np.all(units == 1):
        return value
    unit = build.constant(units, np.int64)
    value = build.op("Add", value, build.constant(units >> 1, np.int64))
    return build.op("Div", build.op("Sub", value, build.op("Mod", value, unit)), unit)


def encoded(build: Builder, x: str, model: IntegerBase) -> str:
    """Return the codes of values, with the same bits as `encode_values`."""
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
    """Return the same bits as `compressed_codes(raw, knee)`."""

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
