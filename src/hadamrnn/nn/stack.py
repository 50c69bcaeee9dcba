"""Run stacked Hadamard layers, batch first.

    h_t = lambda W(u) h_(t-1) + U x_t + b_i        in every layer
    y_t = sigma(a norm(h_t) + c) [+ x_t]           the next layer's input, or with a stride means of y_t

`HadamRNN` gives this the interface of torch.nn.RNN; `SequenceModel` adds an embedding and a read-out. Start
at `_run`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import full_precision, widen
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.interface import (
    RecurrentLayer,
    Tokens,
    admit,
    batch_and_time,
    check_embedding,
    check_lengths,
    mean_steps,
    reverse_input,
    reverse_rows,
)
from hadamrnn.nn.normalization import UnitNorm
from hadamrnn.settings import check_shape

LayerTrace = list[tuple[Tensor, Tensor | None]]


class HadamStack(RecurrentLayer):
    """The cells of a network and the operations between them, without embedding and read-out.

    Args:
        network: sizes, blocks, leak and so on; embedding and read-out are not part of the stack.
        train_signs: whether the latent signs require a gradient.
        normalized_output: whether `network.normalize` includes the last layer.
        decay, train_decay: passed to every cell, see `HadamCell`.
    """

    def __init__(
        self,
        network: Network,
        *,
        train_signs: bool = True,
        normalized_output: bool = False,
        decay: tuple[float, ...] = (),
        train_decay: bool = False,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.input_size = network.input_size
        self.output_size = network.state_size
        self.needs_activation = network.recurrence == "linear"
        self.cells = nn.ModuleList(
            HadamCell(
                size_read,
                units,
                network,
                train_signs=train_signs,
                decay=decay,
                train_decay=train_decay,
                device=device,
                dtype=dtype,
            )
            for size_read, units in zip(network.cell_input_sizes, network.cell_sizes, strict=True)
        )
        normalized = network.widths[: None if normalized_output else -1] if network.normalize else ()
        self.norms = nn.ModuleList(
            UnitNorm(network.directions * width, device, dtype) for width in normalized
        )

    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        states, _ = self._run(x, None, lengths, every_output=True)
        assert states is not None
        return states

    def state_stretches(self, x: Tensor, lengths: Tensor | None, steps: int) -> Iterator[Tensor]:
        """Yield the states of a single forward layer, `steps` time steps at a time.

        Memory is needed only for one stretch, however long the sequences are.
        """
        assert self.network.cells == 1
        inputs, last = self._admit(x), None
        assert isinstance(inputs, Tensor)
        for start in range(0, x.shape[1], steps):
            part = inputs[:, start : start + steps]
            ends = None if lengths is None else (lengths - start).clamp(0, part.shape[1])
            with full_precision(self._weight):
                states, last = self.cell(0).run(part, h_0=last, lengths=ends, every_output=True)
            assert states is not None
            yield states

    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        _, h_n = self._run(x, None, lengths)
        top = h_n[-self.network.directions :, :, : self.network.hidden_size]
        return top.transpose(0, 1).flatten(1)

    def every_readout(
        self, x: Tensor | Tokens, weight: Tensor, bias: Tensor | None, lengths: Tensor | None = None
    ) -> Tensor:
        if self.network.cells > 1:
            return super().every_readout(x, weight, bias, lengths)
        weight = admit("The read-out's weight", weight, self._weight)
        bias = None if bias is None else admit("The read-out's bias", bias, self._weight)
        logits, _ = self._run(x, None, lengths, output_weight=weight, output_bias=bias)
        assert logits is not None
        return logits

    def pooled_state(
        self,
        x: Tensor | Tokens,
        lengths: Tensor | None,
        readouts: tuple[str, ...],
        thresholds: Tensor | None = None,
    ) -> Tensor:
        """Return read-outs of the last layer's states, `(batch, features)`, one direction after another.

        Args:
            readouts: some of last, mean, positive and max; see `hadamrnn.kernels.methods.run_pooled`.
            thresholds: `(count, output_size)` for mean and positive; None for one row of zeros.
        """
        thresholds = None if thresholds is None else widen(thresholds)
        features, _ = self._run(x, None, lengths, readouts=readouts, thresholds=thresholds)
        assert features is not None
        return features

    def layer_states(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> LayerTrace:
        """Return each layer's states and its output y_t (None for the last layer), lowest layer first."""
        trace: LayerTrace = []
        states, _ = self._run(x, None, lengths, trace, every_output=True)
        assert states is not None
        return [*trace, (states, None)]

    def top_lengths(self, lengths: Tensor | None) -> Tensor | None:
        """Return the number of steps that the last layer makes for rows of these lengths."""
        for _ in range(self.network.num_layers - 1):
            lengths = None if lengths is None else lengths // self.network.stride
        return lengths

    def step(self, x_t: Tensor | Tokens, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read one time step: return the output at t and the new state, for streaming.

        Args:
            x_t: `(batch, input_size)` or `(input_size,)`, or `Tokens` of ids `(batch,)` or `()`.
            h: the state that the last call returned; None starts a new sequence.
        """
        network, weight = self.network, self._weight
        widths = network.widths
        shape = (len(widths), *self._check_step(x_t), max(widths))
        value = admit("The input", x_t, weight) if isinstance(x_t, Tensor) else self._admit(x_t)
        previous = widen(weight.new_zeros(shape)) if h is None else admit("The state", h, weight)
        check_state("The state", previous, shape)
        states = []
        with full_precision(weight):
            for layer, (width, before) in enumerate(zip(widths, previous.unbind(0), strict=True)):
                state = self.cell(layer).step(value, before if width == shape[-1] else before[..., :width])
                states.append(self._padded(state))
                y = state.relu() if layer >= len(self.norms) else self.norm(layer).step(state).relu()
                value = y + value if isinstance(value, Tensor) and network.has_skip(layer) else y
        return y.to(weight.dtype), torch.stack(states).to(weight.dtype)

    def _run(
        self,
        x: Tensor | Tokens,
        h_0: Tensor | None = None,
        lengths: Tensor | None = None,
        trace: LayerTrace | None = None,
        **asked: Any,
    ) -> tuple[Tensor | None, Tensor]:
        """Return the requested outputs of the last layer (see `HadamCell.run`) and all layers' last states.

        States have the width of the widest layer. `trace` receives the states and y_t of the layers below.
        """
        batch, time = batch_and_time(x)
        check_state("h_0", h_0, (self.network.cells, batch, max(self.network.widths)))
        check_lengths(lengths, batch, time)
        x, h_0 = self._admit(x), (None if h_0 is None else admit("h_0", h_0, self._weight))
        network, dtype, ends = self.network, self._weight.dtype, []
        with full_precision(self._weight):
            for layer in range(network.num_layers):
                is_last = layer == network.num_layers - 1
                outputs = []
                for direction in range(network.directions):
                    index = layer * network.directions + direction
                    cell = self.cell(index)
                    output, end = cell.run(
                        reverse_input(x, lengths) if direction else x,
                        h_0=None if h_0 is None else h_0[index, :, : cell.hidden_size],
                        lengths=lengths,
                        **(self._share(asked, direction) if is_last else {"every_output": True}),
                    )
                    if output is not None:
                        of_steps = direction and not (is_last and "readouts" in asked)
                        outputs.append(reverse_rows(output, lengths) if of_steps else output)
                    if end is not None:
                        ends.append(self._padded(end))
                output = torch.cat(outputs, dim=-1) if len(outputs) > 1 else outputs[0] if outputs else None
                if not is_last:
                    assert output is not None
                    y = self._activated(layer, output, lengths, x)
                    if trace is not None:
                        trace.append((output, y))
                    y = nn.functional.dropout(y, network.dropout, self.training)
                    x, lengths = mean_steps(y, lengths, network.stride)
        h_n = torch.stack(ends) if ends else self._weight.new_zeros(0)
        return (None if output is None else output.to(dtype)), h_n.to(dtype)

    def _share(self, asked: dict[str, Any], direction: int) -> dict[str, Any]:
        """Return one direction's fields of the requested outputs, such as its own thresholds."""
        if asked.get("thresholds") is None:
            return asked
        shares = asked["thresholds"].chunk(self.network.directions, dim=1)
        return {**asked, "thresholds": shares[direction]}

    def _activated(
        self, layer: int, states: Tensor, lengths: Tensor | None, x: Tensor | Tokens | None = None
    ) -> Tensor:
        """Return y_t = sigma(a norm(h_t) + c) [+ x_t], or sigma(h_t) [+ x_t] without normalisation."""
        skip = x if isinstance(x, Tensor) and self.network.has_skip(layer) else None
        if layer < len(self.norms):
            y: Tensor = self.norm(layer)(states, lengths, skip)
            return y
        return states.relu() if skip is None else states.relu() + skip

    def _padded(self, state: Tensor) -> Tensor:
        """Pad a state to the width of the widest layer."""
        missing = max(self.network.widths) - state.shape[-1]
        return nn.functional.pad(state, (0, missing)) if missing else state

    def _admit(self, x: Tensor | Tokens) -> Tensor | Tokens:
        """Convert the input to the layers' computation dtype; refuse a dtype other than the weights'."""
        if isinstance(x, Tensor):
            return admit("The input", x, self._weight)
        if x.embedding is not None:
            check_embedding(x.embedding, self)
            admit("The embedding", x.embedding.weight, self._weight)
        return x

    @property
    def _weight(self) -> Tensor:
        """One of the weights, which all have the same dtype and device."""
        return self.cell(0).input_weight

    def cell(self, index: int) -> HadamCell:
        """Return one of the cells; the lowest layer's come first."""
        cell = self.cells._modules[str(index)]  # self.cells[index] takes as long as a small product
        assert isinstance(cell, HadamCell)
        return cell

    def recurrent_weight(self, layer: int = 0, direction: int = 0) -> Tensor:
        """Return the matrix lambda W(u) that multiplies h_(t-1) in a layer, `(units, units)`."""
        return self.cell(layer * self.network.directions + direction).recurrent_weight()

    def norm(self, layer: int) -> UnitNorm:
        """Return the operations after a layer of a normalised stack."""
        norm = self.norms[layer]
        assert isinstance(norm, UnitNorm)
        return norm

    def _check_step(self, x_t: Tensor | Tokens) -> tuple[int, ...]:
        """Return the batch shape of a single time step; refuse networks that cannot be streamed."""
        network = self.network
        if network.bidirectional or (network.stride > 1 and network.num_layers > 1):
            raise InputError(
                "step reads forwards and gives every layer every step, but this stack is bidirectional or "
                "has a stride. Build it with bidirectional=False and stride=1 to stream."
            )
        ids, size = isinstance(x_t, Tokens), self.input_size
        shape = x_t.ids.shape if isinstance(x_t, Tokens) else x_t.shape
        if len(shape) not in ((0, 1) if ids else (1, 2)) or (not ids and shape[-1] != size):
            expected = "ids of shape (batch,) or ()" if ids else f"(batch, {size}) or ({size},)"
            raise InputError(f"step expects {expected}, got {tuple(shape)}.")
        return tuple(shape if ids else shape[:-1])


def check_state(name: str, state: Tensor | None, shape: tuple[int, ...]) -> None:
    if state is not None:
        check_shape(name, state, *shape)
