"""ONNX of a run: the weight-quantized float network and the integer network, each by step and by sequence.

    NAME_step.onnx               x (batch, ...), h -> logits, h_next
    NAME_sequence.onnx           x (batch, time, ...) -> logits, h_last
    NAME_integer_step.onnx       the same in int64, equal to the reference engine bit for bit
    NAME_integer_sequence.onnx

A network that stacks or counts has more parts to its state than h: see `onnx_graph.Recipe`.
This file alone of the export may import torch, and does so for the float network only.
"""

from __future__ import annotations

import importlib.util
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.export.folder import MARKER, check_name, fresh_folder

if importlib.util.find_spec("onnx") is None:
    raise InputError("ONNX needs the package onnx. Install it: pip install 'hadamrnn[onnx]'")

from onnx import TensorProto

from hadamrnn.export.onnx_graph import Builder, Recipe, State, sequence_model, step_model
from hadamrnn.export.onnx_integer import IntegerRecipe
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.version import package_version

if TYPE_CHECKING:
    from hadamrnn.nn.model import SequenceModel


class FloatRecipe(Recipe):
    """A `SequenceModel` of Hadamard layers that read forwards, in float32 with its quantized weights."""

    dtype = np.float32
    element = TensorProto.FLOAT

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
        self.network = replace(
            recurrent.network,
            output_size=model.readout.out_features,
            readouts=model.readouts,
            thresholds=0 if model.thresholds is None else len(model.thresholds),
            every_output=model.every_output,
            input_kind="embedded" if model.embedding is not None else "one_hot" if model.one_hot else "dense",
            vocabulary_size=None if model.embedding is None else model.embedding.num_embeddings,
        )
        self.thresholds = None if model.thresholds is None else model.thresholds.detach().cpu().numpy()
        self.input_element = TensorProto.INT64 if model.takes_ids else TensorProto.FLOAT

    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        if self.model.embedding is not None:
            x = build.op("Gather", self._weights(build, self.model.embedding.weight), x)
        return x, None

    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        from hadamrnn.nn.cell import HadamCell

        cell = self.layers.cells[index]
        assert isinstance(cell, HadamCell)
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
        from hadamrnn.nn.normalization import UnitNorm

        if index < len(self.layers.norms):
            norm = self.layers.norms[index]
            assert isinstance(norm, UnitNorm)
            scale, bias = norm.folded()
            h = build.op("Add", build.op("Mul", h, self._weights(build, scale)), self._weights(build, bias))
        y = build.op("Relu", h)
        return build.op("Add", y, x) if self.network.has_skip(index) else y

    def strided(self, build: Builder, total: str) -> str:
        return build.op("Div", total, build.constant(self.network.stride, np.float32))

    def readout(self, build: Builder, state: State) -> str:
        features = build.op(
            "Concat", *(self._feature(build, state, kind) for kind in self.model.readouts), axis=1
        )
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
    for stem, recipe in recipes.items():
        files[f"{stem}_step.onnx"] = step_model(recipe, stem).SerializeToString()
        files[f"{stem}_sequence.onnx"] = sequence_model(recipe, stem).SerializeToString()
    files["README.md"] = _readme(name, sorted(files))
    return fresh_folder(Path(out), files, force=force)


def _readme(name: str, files: list[str]) -> str:
    lines = [f"# {name}", "", f"{MARKER} {package_version()}.", ""]
    for file in files:
        kind = "x, state -> logits, next state" if file.endswith("_step.onnx") else "x -> logits, last state"
        numbers = "int64 codes, the device's bits" if "_integer_" in file else "float32, quantized weights"
        lines.append(f"- `{file}`: {kind}; {numbers}; any batch size and length")
    return "\n".join([*lines, ""])
