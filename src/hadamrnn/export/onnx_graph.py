"""Recurrent networks as ONNX graphs: one step, and a whole sequence by `Scan`. No torch.

A `Recipe` says how one network computes a step and a read-out, in float32 or in int64 throughout; the two
graphs are the same recipe. ONNX shifts unsigned integers only, so a rounded right shift is a floored
division: floor(v / 2^s) = (v - (v mod 2^s)) / 2^s, exact on int64. Start reading at `step_model`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper

from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.hadamard.orders import hadamard_matrix, split_order

OPSET = 17
IR_VERSION = 8  # what runtimes of 2022 and later read


class Builder:
    """Nodes of a graph under construction; constants become initializers, seen by inner graphs too."""

    def __init__(self, outer: Builder | None = None) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: dict[str, onnx.TensorProto] = outer.constants if outer else {}
        self._prefix = "inner" if outer else "outer"

    def op(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node; return the name of its output."""
        name = output or f"{self._prefix}{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def constant(self, array: Any, dtype: Any) -> str:
        values = np.ascontiguousarray(array, dtype)
        name = f"c{len(self.constants)}"
        self.constants[name] = numpy_helper.from_array(values, name)
        return name


class Recipe(ABC):
    """One network. Names are values of the graph: x is `(batch, ...)`, h is `(batch, hidden_size)`."""

    dtype: Any
    element: int  # TensorProto code of states and logits
    input_element: int
    input_shape: tuple[int, ...]  # of one step of one row
    hidden_size: int
    block_size: int
    output_size: int
    every_output: bool

    @abstractmethod
    def cell(self, build: Builder, x: str, h: str) -> str:
        """Return the next state."""

    @abstractmethod
    def readout(self, build: Builder, h: str) -> str:
        """Return the logits."""

    def transform(self, build: Builder, h: str) -> str:
        """Return (I kron H) h by two small products: H = H_1 kron H_2, so H vec(X) = vec(H_1 X H_2')."""
        left, right = (hadamard_matrix(order) for order in split_order(self.block_size))
        blocks = [-1, self.hidden_size // self.block_size, len(left), len(right)]
        x = build.op("Reshape", h, build.constant(blocks, np.int64))
        x = build.op("MatMul", x, build.constant(right.T, self.dtype))
        x = build.op("MatMul", build.constant(left, self.dtype), x)
        return build.op("Reshape", x, build.constant([-1, self.hidden_size], np.int64))


class IntegerRecipe(Recipe):
    """An `IntegerModel` in int64, equal to the reference engine bit for bit."""

    dtype = np.int64
    element = input_element = TensorProto.INT64

    def __init__(self, model: IntegerModel) -> None:
        self.model = model
        self.input_shape = (model.input_size,) if model.input_kind == "dense" else ()
        self.hidden_size, self.block_size = model.hidden_size, model.block_size
        self.output_size, self.every_output = model.output_size, model.every_output

    def cell(self, build: Builder, x: str, h: str) -> str:
        """Return the next state; as in C an id outside the vocabulary leaves it as it is."""
        if self.model.input_kind == "dense":
            return self._next(build, self._within(build, x, *signed_range(self.model.input_bits)), h)
        known = self._within(build, x, 0, self.model.vocabulary_size - 1)
        rows = build.op("Unsqueeze", build.op("Equal", x, known), build.constant([-1], np.int64))
        return build.op("Where", rows, self._next(build, known, h), h)

    def _next(self, build: Builder, x: str, h: str) -> str:
        model = self.model
        if model.only_layer.column_signs is not None:
            h = build.op("Mul", h, build.constant(model.only_layer.column_signs, np.int64))
        factors = model.only_layer.signs.astype(np.int64) << model.only_layer.state_shift
        acc = build.op("Mul", self.transform(build, h), build.constant(factors, np.int64))
        acc = build.op("Add", acc, self._drive(build, x))
        if model.only_layer.input_bias_int is not None:
            acc = build.op(
                "Add",
                acc,
                self._number(build, model.only_layer.input_bias_int, model.only_layer.input_bias_shift),
            )
        acc = build.op("Mul", acc, build.constant(model.only_layer.round_multiplier, np.int64))
        low, high = signed_range(model.activation_bits)
        low = max(low, 0) if model.recurrence == "relu" else low
        return self._within(build, self._round_shift(build, acc, model.only_layer.round_shift), low, high)

    def readout(self, build: Builder, h: str) -> str:
        model = self.model
        positive = build.op("Max", h, build.constant(0, np.int64))
        logits = build.op("MatMul", positive, build.constant(model.output_weight_int.T, np.int64))
        bias = self._number(build, model.output_bias_int, model.output_bias_shift)
        return build.op("Add", logits, bias)

    def _drive(self, build: Builder, x: str) -> str:
        """Return shift(U x, input_shift)."""
        model = self.model
        weight = build.constant(model.only_layer.input_weight_int.T, np.int64)
        if model.input_kind == "one_hot":
            product = build.op("Gather", weight, x)
        else:
            if model.embedding_int is not None:
                x = build.op("Gather", build.constant(model.embedding_int, np.int64), x)
            product = build.op("MatMul", x, weight)
        if model.only_layer.input_shift >= 0:
            return build.op("Mul", product, build.constant(1 << model.only_layer.input_shift, np.int64))
        return self._round_shift(build, product, -model.only_layer.input_shift)

    @staticmethod
    def _within(build: Builder, value: str, low: int, high: int) -> str:
        return build.op("Clip", value, *(build.constant(bound, np.int64) for bound in (low, high)))

    @staticmethod
    def _number(build: Builder, codes: NDArray[Any], shift: int) -> str:
        return build.constant(codes.astype(np.int64) << shift, np.int64)

    @staticmethod
    def _round_shift(build: Builder, value: str, shift: int) -> str:
        """Return (value + 2^(shift-1)) >> shift."""
        if shift == 0:
            return value
        unit = build.constant(1 << shift, np.int64)
        value = build.op("Add", value, build.constant(1 << shift - 1, np.int64))
        return build.op("Div", build.op("Sub", value, build.op("Mod", value, unit)), unit)


def step_model(recipe: Recipe, name: str) -> onnx.ModelProto:
    """Return `x, h -> logits, h_next` for a batch of any size."""
    build = Builder()
    state = recipe.cell(build, "x", "h")
    build.op("Identity", recipe.readout(build, state), output="logits")
    build.op("Identity", state, output="h_next")
    inputs = [_input(recipe, "x", "batch"), _state(recipe, "h")]
    return _model(build, name, inputs, [_logits(recipe, "batch"), _state(recipe, "h_next")])


def sequence_model(recipe: Recipe, name: str) -> onnx.ModelProto:
    """Return `x -> logits` for sequences `(batch, time, ...)` of any batch size and length."""
    build = Builder()
    batch = build.op("Gather", build.op("Shape", "x"), build.constant([0], np.int64))
    shape = build.op("Concat", batch, build.constant([recipe.hidden_size], np.int64), axis=0)
    zero = numpy_helper.from_array(np.zeros(1, recipe.dtype))
    start = build.op("ConstantOfShape", shape, value=zero)
    inner = Builder(build)
    state = recipe.cell(inner, "x_t", "h_t")
    inner.op("Identity", state, output="h_new")
    inner_outputs = [_state(recipe, "h_new")]
    if recipe.every_output:
        inner.op("Identity", recipe.readout(inner, state), output="logits_t")
        inner_outputs.append(_tensor("logits_t", recipe.element, ("batch", recipe.output_size)))
    body = helper.make_graph(
        inner.nodes, "step", [_state(recipe, "h_t"), _input(recipe, "x_t", "batch")], inner_outputs
    )
    outputs = ["h_last", "logits"] if recipe.every_output else ["h_last"]
    axes: dict[str, Any] = {"scan_output_axes": [1]} if recipe.every_output else {}
    build.nodes.append(
        helper.make_node(
            "Scan", [start, "x"], outputs, body=body, num_scan_inputs=1, scan_input_axes=[1], **axes
        )
    )
    if not recipe.every_output:
        build.op("Identity", recipe.readout(build, "h_last"), output="logits")
    dimensions = ("batch", "time") if recipe.every_output else ("batch",)
    return _model(
        build,
        name,
        [_input(recipe, "x", "batch", "time")],
        [_logits(recipe, *dimensions), _state(recipe, "h_last")],
    )


def _tensor(name: str, element: int, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def _input(recipe: Recipe, name: str, *dimensions: str) -> onnx.ValueInfoProto:
    return _tensor(name, recipe.input_element, (*dimensions, *recipe.input_shape))


def _state(recipe: Recipe, name: str) -> onnx.ValueInfoProto:
    return _tensor(name, recipe.element, ("batch", recipe.hidden_size))


def _logits(recipe: Recipe, *dimensions: str) -> onnx.ValueInfoProto:
    return _tensor("logits", recipe.element, (*dimensions, recipe.output_size))


def _model(
    build: Builder, name: str, inputs: list[onnx.ValueInfoProto], outputs: list[onnx.ValueInfoProto]
) -> onnx.ModelProto:
    graph = helper.make_graph(build.nodes, name, inputs, outputs, list(build.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="hadamrnn")
    model.ir_version = IR_VERSION
    onnx.checker.check_model(model, full_check=True)
    return model
