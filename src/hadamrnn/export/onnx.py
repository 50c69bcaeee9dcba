"""ONNX of a run: the weight-quantized float network and the integer network, each by step and by sequence.

    NAME_step.onnx               x (batch, ...), h -> logits, h_next
    NAME_sequence.onnx           x (batch, time, ...) -> logits, h_last
    NAME_integer_step.onnx       the same in int64, equal to the reference engine bit for bit
    NAME_integer_sequence.onnx

This file alone of the export may import torch, and does so for the float network only.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.export.folder import MARKER, check_name, fresh_folder

if importlib.util.find_spec("onnx") is None:
    raise InputError("ONNX needs the package onnx. Install it: pip install 'hadamrnn[onnx]'")

from onnx import TensorProto

from hadamrnn.export.onnx_graph import Builder, IntegerRecipe, Recipe, sequence_model, step_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.version import package_version

if TYPE_CHECKING:
    from hadamrnn.nn.model import SequenceModel


class FloatRecipe(Recipe):
    """A `SequenceModel` with one Hadamard layer, in float32 with its quantized weights."""

    dtype = np.float32
    element = TensorProto.FLOAT

    def __init__(self, model: SequenceModel) -> None:
        from hadamrnn.nn.cell import HadamCell
        from hadamrnn.nn.rnn import HadamRNN

        recurrent = model.recurrent
        if not isinstance(recurrent, HadamRNN):
            kind = model.network.model if model.network is not None else type(recurrent).__name__
            raise InputError(
                f"An export takes a network of kind hadamrnn, this one is {kind}. "
                "Train with --model hadamrnn."
            )
        if len(recurrent.cells) != 1:
            raise InputError(
                "ONNX holds one Hadamard layer in one direction, this model has "
                f"{len(recurrent.cells)} of them. Train with num_layers=1, bidirectional=False."
            )
        model.check_paper_form()
        cell = recurrent.cells[0]
        assert isinstance(cell, HadamCell)
        self.cell_module, self.model = cell, model
        self.input_element = TensorProto.INT64 if model.takes_ids else TensorProto.FLOAT
        self.input_shape = () if model.takes_ids else (recurrent.input_size,)
        self.hidden_size, self.block_size = cell.hidden_size, cell.block_size
        self.output_size, self.every_output = model.readout.out_features, model.every_output

    def cell(self, build: Builder, x: str, h: str) -> str:
        cell = self.cell_module
        signs = cell.signs() / cell.block_size**0.5
        column_signs = cell.column_signs()
        if column_signs is not None:
            h = build.op("Mul", h, self._weights(build, column_signs))
        state = build.op("Mul", self.transform(build, h), self._weights(build, signs))
        state = build.op("Add", state, self._drive(build, x))
        if cell.input_bias is not None:
            state = build.op("Add", state, self._weights(build, cell.input_bias))
        return build.op("Relu", state) if cell.recurrence == "relu" else state

    def readout(self, build: Builder, h: str) -> str:
        readout = self.model.readout
        sigma = h if self.cell_module.recurrence == "relu" else build.op("Relu", h)
        logits = build.op("MatMul", sigma, self._weights(build, readout.quantized_weight().T))
        return logits if readout.bias is None else build.op("Add", logits, self._weights(build, readout.bias))

    def _drive(self, build: Builder, x: str) -> str:
        from hadamrnn.nn.straight_through import quantize

        weight = self._weights(build, quantize(self.cell_module.input_weight, self.cell_module.weight_bits).T)
        if self.model.one_hot:
            return build.op("Gather", weight, x)
        if self.model.embedding is not None:
            x = build.op("Gather", self._weights(build, self.model.embedding.weight), x)
        return build.op("MatMul", x, weight)

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
        kind = "x, h -> logits, h_next" if file.endswith("_step.onnx") else "x -> logits, h_last"
        numbers = "int64 codes, the device's bits" if "_integer_" in file else "float32, quantized weights"
        lines.append(f"- `{file}`: {kind}; {numbers}; any batch size and length")
    return "\n".join([*lines, ""])
