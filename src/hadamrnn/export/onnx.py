"""ONNX of a run: the weight-quantized float network and the integer network, each by step and by sequence.

    NAME_step.onnx               x (batch, ...), h -> logits, h_next
    NAME_sequence.onnx           x (batch, time, ...) -> logits, h_last
    NAME_integer_step.onnx       the same in int64, equal to the reference engine bit for bit
    NAME_integer_sequence.onnx

A network that stacks or counts has more parts to its state than h: see `onnx_graph.Recipe`.
ONNX shifts unsigned integers only, so in int64 a rounded right shift is a floored division: floor(v / 2^s) is
(v - (v mod 2^s)) / 2^s, exact. The equations are those of `fixedpoint.layer` and `fixedpoint.model`.
This file alone of the export may import torch, and does so for the float network only.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from hadamrnn.errors import InputError
from hadamrnn.export.folder import MARKER, check_name, fresh_folder

if importlib.util.find_spec("onnx") is None:
    raise InputError("ONNX needs the package onnx. Install it: pip install 'hadamrnn[onnx]'")

from onnx import TensorProto

from hadamrnn.export.onnx_graph import Builder, Recipe, State, sequence_model, step_model
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.step import RATE_BITS
from hadamrnn.network import COUNTED
from hadamrnn.version import package_version

if TYPE_CHECKING:
    from hadamrnn.nn.model import SequenceModel


class FloatRecipe(Recipe):
    """A `SequenceModel` of Hadamard layers that read forwards, in float32 with its quantized weights."""

    dtype = np.float32
    element = TensorProto.FLOAT
    numbers = "float32, quantized weights"

    def __init__(self, model: SequenceModel) -> None:
        from hadamrnn.nn.rnn import HadamRNN

        recurrent = model.recurrent
        if not isinstance(recurrent, HadamRNN):
            kind = model.network.model if model.network is not None else type(recurrent).__name__
            raise InputError(
                f"An export takes a network of kind hadamrnn, this one is {kind}. "
                "Train with --model hadamrnn."
            )
        if recurrent.bidirectional:
            raise InputError(
                "ONNX holds Hadamard layers that read forwards, this network reads backwards too. "
                "Train with bidirectional=False."
            )
        self.model, self.layers = model, recurrent
        self.network = model.described()
        self.thresholds = None if model.thresholds is None else model.thresholds.detach().cpu().numpy()
        self.input_element = TensorProto.INT64 if model.takes_ids else TensorProto.FLOAT

    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        if self.model.embedding is not None:
            x = build.op("Gather", self._weights(build, self.model.embedding.weight), x)
        return x, None

    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        cell = self.layers.cell(index)
        signs = cell.signs() / cell.block_size**0.5
        signs = signs if cell.decay is None else signs * cell.decay
        column_signs = cell.column_signs()
        if column_signs is not None:
            h = build.op("Mul", h, self._weights(build, column_signs))
        state = build.op("Mul", self.transform(build, h, cell.hidden_size), self._weights(build, signs))
        weight = self._weights(build, cell.quantized_weight().T)
        hot = index == 0 and self.model.one_hot
        drive = build.op("Gather", weight, x) if hot else build.op("MatMul", x, weight)
        state = build.op("Add", state, drive)
        if cell.input_bias is not None:
            state = build.op("Add", state, self._weights(build, cell.input_bias))
        return build.op("Relu", state) if cell.recurrence == "relu" else state

    def output(self, build: Builder, index: int, x: str, h: str) -> str:
        if index < len(self.layers.norms):
            scale, bias = self.layers.norm(index).folded()
            h = build.op("Add", build.op("Mul", h, self._weights(build, scale)), self._weights(build, bias))
        y = build.op("Relu", h)
        return build.op("Add", y, x) if self.network.has_skip(index) else y

    def strided(self, build: Builder, total: str) -> str:
        return build.op("Div", total, build.constant(self.network.stride, np.float32))

    def readout(self, build: Builder, state: State) -> str:
        parts = [self._feature(build, state, kind) for kind in self.model.readouts]
        features = build.op("Concat", *parts, axis=1)
        scales, weight, bias = self.model.folded_readout()
        logits = build.op("MatMul", features, self._weights(build, (weight * scales).T))
        return build.op("Add", logits, self._weights(build, bias))

    def _feature(self, build: Builder, state: State, kind: str) -> str:
        if kind == "last":
            h = state[self.hidden(self.network.num_layers - 1)]
            return h if self.network.recurrence == "relu" else build.op("Relu", h)
        if kind == "max":
            return state[kind]
        steps = build.op("Max", self.top_steps(build, state), build.constant(1, np.int64))
        return build.op("Div", state[kind], build.op("Cast", steps, to=self.element))

    @staticmethod
    def _weights(build: Builder, tensor: Any) -> str:
        return build.constant(tensor.detach().cpu().numpy(), np.float32)


class IntegerRecipe(Recipe):
    """An `IntegerModel` in int64, equal to the reference engine bit for bit."""

    dtype = np.int64
    element = input_element = TensorProto.INT64
    numbers = "int64 codes, the device's bits"

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
        weight = build.constant(layer.input_weight_int.T, np.int64)
        hot = layer.input_kind == "one_hot"
        product = build.op("Gather", weight, x) if hot else build.op("MatMul", x, weight)
        acc = build.op("Add", acc, self._shifted(build, product, layer.input_shift))
        if layer.input_bias_int is not None:
            acc = build.op("Add", acc, build.constant(layer.input_bias, np.int64))
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
            offset = layer.offset_int.astype(np.int64) << layer.offset_shift
            y = build.op("Add", y, build.constant(offset, np.int64))
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
        return build.op("Add", logits, build.constant(model.output_bias, np.int64))

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

    def _shifted(self, build: Builder, value: str, shift: int) -> str:
        if shift < 0:
            return self._round_shift(build, value, -shift)
        return build.op("Mul", value, build.constant(1 << shift, np.int64))

    @staticmethod
    def _within(build: Builder, value: str, low: int, high: int) -> str:
        return build.op("Clip", value, *(build.constant(bound, np.int64) for bound in (low, high)))

    @staticmethod
    def _round_shift(build: Builder, value: str, shift: ArrayLike) -> str:
        """Return (value + 2^(shift-1)) >> shift, with one shift for all or one a column; 0 leaves a value."""
        units = np.left_shift(np.int64(1), np.asarray(shift, np.int64))
        if np.all(units == 1):
            return value
        unit = build.constant(units, np.int64)
        value = build.op("Add", value, build.constant(units >> 1, np.int64))
        return build.op("Div", build.op("Sub", value, build.op("Mod", value, unit)), unit)


def export_onnx(
    out: Path | str,
    name: str = "net",
    *,
    float_model: SequenceModel | None = None,
    integer_model: IntegerModel | None = None,
    force: bool = False,
) -> Path:
    """Write the graphs of the given networks to the new folder `out`; return it."""
    check_name(name)
    recipes: dict[str, Recipe] = {}
    if float_model is not None:
        recipes[name] = FloatRecipe(float_model)
    if integer_model is not None:
        recipes[f"{name}_integer"] = IntegerRecipe(integer_model)
    if not recipes:
        raise InputError("ONNX needs a trained or a quantized network, got neither. Train first.")
    files: dict[str, str | bytes] = {}
    lines = [f"# {name}", "", f"{MARKER} {package_version()}.", ""]
    for stem, recipe in recipes.items():
        files[f"{stem}_step.onnx"] = step_model(recipe, stem).SerializeToString()
        files[f"{stem}_sequence.onnx"] = sequence_model(recipe, stem).SerializeToString()
        lines += [
            f"- `{stem}_step.onnx`: x, state -> logits, next state; {recipe.numbers}; any batch size",
            f"- `{stem}_sequence.onnx`: x -> logits, last state; {recipe.numbers}; any batch size and length",
        ]
    files["README.md"] = "\n".join([*lines, ""])
    return fresh_folder(Path(out), files, force=force)
