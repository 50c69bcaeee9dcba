"""The step of a `Network` in ONNX: layers, strides and pools, in float32 or in int64 throughout. No torch.

Start reading at `LayeredRecipe.step`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.export.onnx_graph import Builder, Recipe, State
from hadamrnn.network import COUNTED, Network


class LayeredRecipe(Recipe):
    """A `Network`: its layers, and the read-out of the last one.

    Its state has parts, each `(batch, width)`: h of every layer (h0, h1, ... of a stack), the sums of a
    stride, the pools of the read-outs and the number of steps, if the network has them.
    """

    network: Network
    thresholds: NDArray[Any] | None  # (rows, units) of the last layer

    @abstractmethod
    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        """Return the input of the lowest layer, and the rows that make a step, `(batch, 1)`; None for all."""

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
        due = None  # rows in which the layer makes a step; None for all
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
        """Add y to the sum of a stride; return the next layer's input, and the rows where it makes a step."""
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
        """Return the steps that the last layer made, `(batch, 1)`."""
        return build.op("Div", state["steps"], self._period(build, self.network.num_layers - 1))

    def _period(self, build: Builder, index: int) -> str:
        """Return the number of inputs for one step of a layer, at most the largest int64."""
        return build.constant(min(self.network.stride**index, 1 << 62), np.int64)


def _where(build: Builder, condition: str | None, new: str, old: str) -> str:
    return new if condition is None else build.op("Where", condition, new, old)
