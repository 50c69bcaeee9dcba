"""Build ONNX graphs of recurrent networks: one step, and a whole sequence by `Scan`. No torch.

A `Recipe` defines how a network computes its layers and its read-out, entirely in float32 or entirely in
int64. The graphs of a step and of a sequence use the same recipe. `LayeredRecipe` adds the layers, strides
and pools of a `Network`. Start reading at `Recipe.step` and `step_model`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.architecture import Architecture
from hadamrnn.errors import missing_package
from hadamrnn.hadamard.orders import hadamard_matrix, split_order
from hadamrnn.network import COUNTED, Network

try:
    import onnx
    from onnx import TensorProto as TensorProto
    from onnx import helper, numpy_helper
except ModuleNotFoundError as error:
    raise missing_package("ONNX graphs", error.name, "onnx") from error

OPSET = 17
IR_VERSION = 8  # supported by runtimes since 2022


class Builder:
    """A graph under construction; constants become initializers, which inner graphs can also use."""

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


State = dict[str, str]  # the graph value (batch, width) of each part of the state, by name


class Recipe(ABC):
    """One network. Strings are names of graph values; x is `(batch, ...)`."""

    dtype: Any
    element: int  # TensorProto type code of states
    answer: int  # TensorProto type code of logits
    numbers: str  # a description of the number format
    properties: dict[str, Any]  # metadata of the graph
    network: Architecture

    @property
    @abstractmethod
    def parts(self) -> dict[str, int]:
        """The parts of the state and their widths."""

    @abstractmethod
    def step(self, build: Builder, x: str, state: State) -> State:
        """Return the state after one more input.

        x contains ids, or values in the units of the training data. These are float64, because float32 may
        not distinguish values far from 0.
        """

    @abstractmethod
    def readout(self, build: Builder, state: State) -> str:
        """Return the logits."""

    def element_of(self, part: str) -> int:
        return int(TensorProto.INT64) if part == "steps" else self.element


def transform(build: Builder, h: str, width: int, num_blocks: int, dtype: Any) -> str:
    """Return (I kron H) h by two small products, as H = H_1 kron H_2 and H vec(X) = vec(H_1 X H_2')."""
    left, right = (hadamard_matrix(order) for order in split_order(width // num_blocks))
    blocks = [-1, num_blocks, len(left), len(right)]
    x = build.op("Reshape", h, build.constant(blocks, np.int64))
    x = build.op("MatMul", x, build.constant(right.T, dtype))
    x = build.op("MatMul", build.constant(left, dtype), x)
    return build.op("Reshape", x, build.constant([-1, width], np.int64))


def step_model(recipe: Recipe, name: str) -> onnx.ModelProto:
    """Return `x, h -> logits, h_next` for a batch of any size, with every part of the state as h."""
    build = Builder()
    state = recipe.step(build, "x", {part: part for part in recipe.parts})
    build.op("Identity", recipe.readout(build, state), output="logits")
    for part, value in state.items():
        build.op("Identity", value, output=f"{part}_next")
    inputs = [_input(recipe, "x", "batch"), *_state(recipe)]
    return _model(build, recipe, name, inputs, [_logits(recipe, "batch"), *_state(recipe, "_next")])


def sequence_model(recipe: Recipe, name: str) -> onnx.ModelProto:
    """Return `x -> logits, h_last` for sequences `(batch, time, ...)` of any batch size and length."""
    build, every = Builder(), recipe.network.every_output
    batch = build.op("Gather", build.op("Shape", "x"), build.constant([0], np.int64))
    starts = [_zeros(build, batch, width, recipe.element_of(part)) for part, width in recipe.parts.items()]
    inner = Builder(build)
    state = recipe.step(inner, "x_t", {part: f"{part}_t" for part in recipe.parts})
    for part, value in state.items():
        inner.op("Identity", value, output=f"{part}_new")
    inner_outputs = _state(recipe, "_new")
    if every:
        inner.op("Identity", recipe.readout(inner, state), output="logits_t")
        inner_outputs.append(_tensor("logits_t", recipe.answer, ("batch", recipe.network.output_size)))
    body_inputs = [*_state(recipe, "_t"), _input(recipe, "x_t", "batch")]
    body = helper.make_graph(inner.nodes, "step", body_inputs, inner_outputs)
    last = {part: f"{part}_last" for part in recipe.parts}
    axes: dict[str, Any] = {"scan_output_axes": [1]} if every else {}
    outputs = [*last.values(), *(["logits"] if every else [])]
    scan = {"body": body, "num_scan_inputs": 1, "scan_input_axes": [1], **axes}
    build.nodes.append(helper.make_node("Scan", [*starts, "x"], outputs, **scan))
    if not every:
        build.op("Identity", recipe.readout(build, last), output="logits")
    dimensions = ("batch", "time") if every else ("batch",)
    read = [_logits(recipe, *dimensions), *_state(recipe, "_last")]
    return _model(build, recipe, name, [_input(recipe, "x", "batch", "time")], read)


def _zeros(build: Builder, batch: str, width: int, element: int) -> str:
    shape = build.op("Concat", batch, build.constant([width], np.int64), axis=0)
    zero = np.zeros(1, helper.tensor_dtype_to_np_dtype(element))
    return build.op("ConstantOfShape", shape, value=numpy_helper.from_array(zero))


def _tensor(name: str, element: int, shape: tuple[int | str, ...]) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, element, shape)


def _input(recipe: Recipe, name: str, *dimensions: str) -> onnx.ValueInfoProto:
    if recipe.network.takes_ids:
        return _tensor(name, TensorProto.INT64, dimensions)
    return _tensor(name, TensorProto.DOUBLE, (*dimensions, recipe.network.input_size))


def _state(recipe: Recipe, suffix: str = "") -> list[onnx.ValueInfoProto]:
    parts = recipe.parts.items()
    return [_tensor(f"{part}{suffix}", recipe.element_of(part), ("batch", width)) for part, width in parts]


def _logits(recipe: Recipe, *dimensions: str) -> onnx.ValueInfoProto:
    return _tensor("logits", recipe.answer, (*dimensions, recipe.network.output_size))


def _model(
    build: Builder,
    recipe: Recipe,
    name: str,
    inputs: list[onnx.ValueInfoProto],
    outputs: list[onnx.ValueInfoProto],
) -> onnx.ModelProto:
    graph = helper.make_graph(build.nodes, name, inputs, outputs, list(build.constants.values()))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], producer_name="hadamrnn")
    model.ir_version = IR_VERSION
    helper.set_model_props(model, {key: json.dumps(value) for key, value in recipe.properties.items()})
    onnx.checker.check_model(model, full_check=True)
    return model


class LayeredRecipe(Recipe):
    """A `Network`: its layers, and the read-out of the last layer.

    The parts of its state, each `(batch, width)`, are h of every layer (h0, h1, ... in a stack) and, if the
    network has them, the sums of strides, the pools of the read-outs, and the number of steps.
    """

    network: Network
    thresholds: NDArray[Any] | None  # (rows, units) of the last layer

    @abstractmethod
    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        """Return the lowest layer's input, and which rows make a step `(batch, 1)`; None means all."""

    @abstractmethod
    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        """Return the next state of a layer."""

    @abstractmethod
    def output(self, build: Builder, index: int, x: str, h: str) -> str:
        """Return the layer output."""

    @abstractmethod
    def strided(self, build: Builder, total: str) -> str:
        """Return the input of the next layer, given the sum of a stride."""

    @property
    def counts(self) -> bool:
        """Whether the state counts its steps."""
        network = self.network
        return network.is_pooled or (network.stride > 1 and network.num_layers > 1)

    @property
    def parts(self) -> dict[str, int]:
        """The parts of the state and their widths."""
        network, widths = self.network, self.network.widths
        parts = {self.hidden(index): width for index, width in enumerate(widths)}
        if network.stride > 1:
            parts |= {f"sum{index}": width for index, width in enumerate(widths[:-1])}
        rows = 1 if self.thresholds is None else len(self.thresholds)
        for kind in network.readouts:
            if kind != "last":
                parts[kind] = widths[-1] * (rows if kind in COUNTED else 1)
        return parts | ({"steps": 1} if self.counts else {})

    def hidden(self, index: int) -> str:
        return "h" if self.network.num_layers == 1 else f"h{index}"

    def step(self, build: Builder, x: str, state: State) -> State:
        """Return the state after one more input."""
        network, new = self.network, dict(state)
        x, moves = self.admit(build, x, state)
        if self.counts:
            new["steps"] = build.op("Add", state["steps"], build.constant(1, np.int64))
        due = None  # which rows make a step in this layer; None means all
        for index in range(network.num_layers):
            name = self.hidden(index)
            h = self.layer(build, index, x, state[name])
            new[name] = _where(build, due, h, state[name])
            if index < network.num_layers - 1:
                y = self.output(build, index, x, h)
                x, due = (y, None) if network.stride == 1 else self._stride(build, index, y, due, new)
        self._pool(build, new[self.hidden(network.num_layers - 1)], due, new)
        return {name: _where(build, moves, value, state[name]) for name, value in new.items()}

    def _stride(self, build: Builder, index: int, y: str, due: str | None, new: State) -> tuple[str, str]:
        """Add y to a stride's sum; return the next layer's input and the rows in which it makes a step."""
        name = f"sum{index}"
        total = build.op("Add", new[name], y)
        zero = build.constant(0, np.int64)
        place = build.op("Mod", new["steps"], self._period(build, index + 1))
        complete = build.op("Equal", place, zero)
        rest = build.op("Where", complete, build.constant(0, self.dtype), total)
        new[name] = _where(build, due, rest, new[name])
        return self.strided(build, total), complete

    def _pool(self, build: Builder, h: str, due: str | None, new: State) -> None:
        """Add a state of the last layer to sums, counters and maxima."""
        above = h
        if self.thresholds is not None:
            tiled = build.op("Tile", h, build.constant([1, len(self.thresholds)], np.int64))
            above = build.op("Sub", tiled, build.constant(self.thresholds.reshape(-1), self.dtype))
        for kind in self.network.readouts:
            if kind == "mean":
                excess = build.op("Max", above, build.constant(0, self.dtype))
                pooled = build.op("Add", new[kind], excess)
            elif kind == "positive":
                is_above = build.op("Greater", above, build.constant(0, self.dtype))
                pooled = build.op("Add", new[kind], build.op("Cast", is_above, to=self.element))
            elif kind == "max":
                first = build.op("Equal", self.top_steps(build, new), build.constant(1, np.int64))
                pooled = build.op("Where", first, h, build.op("Max", new[kind], h))
            else:
                continue
            new[kind] = _where(build, due, pooled, new[kind])

    def top_steps(self, build: Builder, state: State) -> str:
        """Return the number of steps that the last layer has made, `(batch, 1)`."""
        return build.op("Div", state["steps"], self._period(build, self.network.num_layers - 1))

    def _period(self, build: Builder, index: int) -> str:
        """Return the number of inputs per step of a layer, limited to the largest int64."""
        return build.constant(min(self.network.stride**index, 1 << 62), np.int64)


def _where(build: Builder, condition: str | None, new: str, old: str) -> str:
    return new if condition is None else build.op("Where", condition, new, old)
