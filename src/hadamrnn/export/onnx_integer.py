"""An integer network as an ONNX graph in int64, equal to the reference engine bit for bit.

ONNX shifts unsigned integers only, so a rounded right shift is a floored division: floor(v / 2^s) is
(v - (v mod 2^s)) / 2^s, exact on int64. The equations are those of `fixedpoint.layer` and `fixedpoint.model`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from onnx import TensorProto

from hadamrnn.export.onnx_graph import Builder, Recipe, State
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.readout import RATE_BITS
from hadamrnn.network import COUNTED


class IntegerRecipe(Recipe):
    """An `IntegerModel` in int64."""

    dtype = np.int64
    element = input_element = TensorProto.INT64

    def __init__(self, model: IntegerModel) -> None:
        self.model, self.network, self.thresholds = model, model.network, model.thresholds_int

    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        """Saturate codes; as in C an unknown id, or a step past the longest, leaves the state as it is."""
        model, moves = self.model, None
        if model.longest:
            moves = build.op("Less", state["steps"], build.constant(model.longest, np.int64))
        if model.input_kind == "dense":
            return self._within(build, x, *signed_range(model.input_bits)), moves
        known = self._within(build, x, 0, model.vocabulary_size - 1)
        rows = build.op("Unsqueeze", build.op("Equal", x, known), build.constant([-1], np.int64))
        if model.embedding_int is not None:
            known = build.op("Gather", build.constant(model.embedding_int, np.int64), known)
        return known, rows if moves is None else build.op("And", rows, moves)

    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        layer = self.model.layers[index]
        if layer.column_signs is not None:
            h = build.op("Mul", h, build.constant(layer.column_signs, np.int64))
        factors = layer.signs.astype(np.int64) << layer.state_shift
        acc = build.op("Mul", self.transform(build, h, layer.hidden_size), build.constant(factors, np.int64))
        if layer.network.block_leaks:
            lost = self._round_shift(build, acc, layer.unit_leaks)
            leaks = build.constant(layer.unit_leaks > 0, np.int64)
            acc = build.op("Sub", acc, build.op("Mul", lost, leaks))
        acc = build.op("Add", acc, self._drive(build, index, x))
        if layer.input_bias_int is not None:
            acc = build.op("Add", acc, self._number(build, layer.input_bias_int, layer.input_bias_shift))
        acc = build.op("Mul", acc, build.constant(layer.round_multiplier, np.int64))
        low, high = signed_range(layer.activation_bits)
        low = max(low, 0) if self.network.recurrence == "relu" else low
        return self._within(build, self._round_shift(build, acc, layer.round_shift), low, high)

    def output(self, build: Builder, index: int, x: str, h: str) -> str:
        layer, y = self.model.layers[index], h
        assert layer.output_bits is not None
        low, high = signed_range(layer.output_bits)
        if layer.gain_int is not None and layer.offset_int is not None:
            y = build.op("Mul", y, build.constant(layer.gain_int, np.int64))
            y = build.op("Add", y, self._number(build, layer.offset_int, layer.offset_shift))
            y = self._round_shift(build, y, layer.gain_shift)
        y = self._within(build, y, 0, high)
        if layer.skip_shift is None:
            return y
        return self._within(build, build.op("Add", y, self._shifted(build, x, layer.skip_shift)), low, high)

    def strided(self, build: Builder, total: str) -> str:
        return total

    def readout(self, build: Builder, state: State) -> str:
        model = self.model
        codes = build.op("Concat", *self._features(build, state), axis=1)
        if model.feature_shift is not None and model.feature_bits is not None:
            codes = self._round_shift(build, codes, model.feature_shift)
            codes = self._within(build, codes, *signed_range(model.feature_bits))
        logits = build.op("MatMul", codes, build.constant(model.output_weight_int.T, np.int64))
        return build.op("Add", logits, self._number(build, model.output_bias_int, model.output_bias_shift))

    def _features(self, build: Builder, state: State) -> list[str]:
        """Return the values of the read-outs, times their rates where features have scales."""
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

    def _drive(self, build: Builder, index: int, x: str) -> str:
        """Return shift(U x, input_shift)."""
        layer = self.model.layers[index]
        weight = build.constant(layer.input_weight_int.T, np.int64)
        hot = layer.input_kind == "one_hot"
        product = build.op("Gather", weight, x) if hot else build.op("MatMul", x, weight)
        return self._shifted(build, product, layer.input_shift)

    def _shifted(self, build: Builder, value: str, shift: int) -> str:
        if shift < 0:
            return self._round_shift(build, value, -shift)
        return build.op("Mul", value, build.constant(1 << shift, np.int64))

    @staticmethod
    def _within(build: Builder, value: str, low: int, high: int) -> str:
        return build.op("Clip", value, *(build.constant(bound, np.int64) for bound in (low, high)))

    @staticmethod
    def _number(build: Builder, codes: NDArray[Any], shift: int) -> str:
        return build.constant(codes.astype(np.int64) << shift, np.int64)

    @staticmethod
    def _round_shift(build: Builder, value: str, shift: ArrayLike) -> str:
        """Return (value + 2^(shift-1)) >> shift, with one shift for all or one a column; 0 leaves a value."""
        units = np.left_shift(np.int64(1), np.asarray(shift, np.int64))
        if np.all(units == 1):
            return value
        unit = build.constant(units, np.int64)
        value = build.op("Add", value, build.constant(units >> 1, np.int64))
        return build.op("Div", build.op("Sub", value, build.op("Mod", value, unit)), unit)
