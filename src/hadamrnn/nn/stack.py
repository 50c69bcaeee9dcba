"""Stacked Hadamard layers, batch first: what each reads, and what is asked of the last.

    h_t = lambda W(u) h_(t-1) + U x_t + b_i        in every layer
    y_t = sigma(a norm(h_t) + c) [+ x_t]           which the next layer reads, or the mean of a few of them

`HadamRNN` gives this the interface of torch.nn.RNN. Start at `_run_layers`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor, nn

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import full_precision
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.inputs import (
    Tokens,
    admit,
    batch_and_time,
    check_embedding,
    check_lengths,
    mean_steps,
    reverse_input,
    reverse_rows,
    widen,
)
from hadamrnn.nn.interface import RecurrentLayer
from hadamrnn.nn.normalization import UnitNorm


class LayerRun(NamedTuple):
    """What one layer below the last has made of its input."""

    states: Tensor  # h_t, (batch, time, units)
    ends: list[Tensor]  # the last state of each direction
    outputs: Tensor  # y_t, (batch, time, units)
    above: Tensor  # what the next layer reads
    lengths: Tensor | None  # of the rows of `above`


class HadamStack(RecurrentLayer):
    """The cells of a network and what lies between them; without embedding and read-out.

    Args:
        network: sizes, blocks, leak and the rest; embedding and read-out are left to the caller.
        train_signs: whether the latent signs require a gradient.
        normalized_output: whether `network.normalize` includes the last layer.
        evaluator: how the recurrences are computed; see `hadamrnn.nn.recurrence`.
    """

    def __init__(
        self,
        network: Network,
        *,
        train_signs: bool,
        normalized_output: bool,
        evaluator: str,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.network = network
        self.input_size = network.input_size
        self.hidden_size = network.hidden_size
        self.num_layers = network.num_layers
        self.bias = network.input_bias
        self.dropout = network.dropout
        self.bidirectional = network.bidirectional
        self.num_blocks = network.num_blocks
        self.weight_bits = network.weight_bits
        self.recurrence = network.recurrence
        self.switches = network.switches
        self.num_directions = network.directions
        self.output_size = network.state_size
        self.state_width = max(network.widths)
        self.needs_activation = network.recurrence == "linear"
        self.cells = nn.ModuleList(
            HadamCell(
                seen,
                units,
                network,
                train_signs=train_signs,
                evaluator=evaluator,
                device=device,
                dtype=dtype,
            )
            for seen, units in zip(network.cell_input_sizes, network.cell_sizes, strict=True)
        )
        normalized = network.widths[: None if normalized_output else -1] if network.normalize else ()
        self.norms = nn.ModuleList(
            UnitNorm(self.num_directions * width, device, dtype) for width in normalized
        )

    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        output, _ = self._run(x, None, lengths, every_output=True)
        assert output is not None
        return output

    def layer_states(
        self, x: Tensor | Tokens, lengths: Tensor | None = None
    ) -> list[tuple[Tensor, Tensor | None]]:
        """Return the states of every layer, the lowest first, with its y_t (of the last layer: None)."""
        x = self._admit(x)
        found: list[tuple[Tensor, Tensor | None]] = []
        with full_precision(self._weight):
            for run in self._ascend(x, None, lengths):
                found.append((run.states, run.outputs))
                x, lengths = run.above, run.lengths
            states, _ = self._run_layer(self.num_layers - 1, x, None, lengths, True)
        assert states is not None
        return [*found, (states, None)]

    def state_stretches(self, x: Tensor, lengths: Tensor | None, steps: int) -> Iterator[Tensor]:
        """Yield the states of a single forward layer, `steps` time steps at a time.

        The memory is that of one stretch, however long the sequences are.
        """
        assert self.num_layers == 1 and not self.bidirectional
        inputs, last = self._admit(x), None
        assert isinstance(inputs, Tensor)
        for start in range(0, x.shape[1], steps):
            part = inputs[:, start : start + steps]
            ends = None if lengths is None else (lengths - start).clamp(0, part.shape[1])
            with full_precision(self._weight):
                states, last = self.cell(0).run(part, last, ends, True)
            assert states is not None
            yield states

    def every_readout(
        self, x: Tensor | Tokens, weight: Tensor, bias: Tensor | None, lengths: Tensor | None = None
    ) -> Tensor:
        if self.num_layers > 1 or self.bidirectional:
            return super().every_readout(x, weight, bias, lengths)
        check_lengths(lengths, *batch_and_time(x))
        x, weight = self._admit(x), admit("The read-out's weight", weight, self._weight)
        bias = None if bias is None else admit("The read-out's bias", bias, self._weight)
        with full_precision(self._weight):
            logits = self.cell(0).run_readout(x, weight, bias, lengths, sigma=self.needs_activation)
        return logits.to(self._weight.dtype)

    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        _, h_n = self._run(x, None, lengths, every_output=False)
        return h_n[-self.num_directions :, :, : self.hidden_size].transpose(0, 1).flatten(1)

    def pooled_state(
        self,
        x: Tensor | Tokens,
        lengths: Tensor | None,
        kinds: tuple[str, ...],
        thresholds: Tensor | None = None,
    ) -> Tensor:
        """Return read-outs of the last layer's states, `(batch, features)`, direction after direction.

        Args:
            kinds: some of last, mean, positive and max; see `hadamrnn.kernels.pooling`.
            thresholds: `(count, output_size)` for mean and positive; None for one row of zeros.
        """
        check_lengths(lengths, *batch_and_time(x))
        x, thresholds = self._admit(x), None if thresholds is None else widen(thresholds)
        with full_precision(self._weight):
            top, _, lengths = self._climb(x, None, lengths)
            features = []
            for direction, rows in enumerate(self._directed(top, lengths)):
                units = slice(direction * self.hidden_size, (direction + 1) * self.hidden_size)
                rows_of_thresholds = None if thresholds is None else thresholds[:, units]
                cell = self.cell((self.num_layers - 1) * self.num_directions + direction)
                features.append(cell.run_pooled(rows, lengths, kinds, rows_of_thresholds))
        return torch.cat(features, dim=-1).to(self._weight.dtype)

    def top_lengths(self, lengths: Tensor | None) -> Tensor | None:
        """Return how many steps of rows of these lengths reach the last layer."""
        for _ in range(self.num_layers - 1):
            lengths = None if lengths is None else lengths // self.network.stride
        return lengths

    def _run_activated(
        self, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None
    ) -> tuple[Tensor, Tensor]:
        """Return y_t of all steps and the last states."""
        states, h_n = self._run(x, h_0, lengths, every_output=True)
        assert states is not None
        with full_precision(self._weight):
            y = self._activated(self.num_layers - 1, widen(states), lengths)
        return y.to(states.dtype), h_n

    def _run(
        self, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None, *, every_output: bool
    ) -> tuple[Tensor | None, Tensor]:
        """Run all layers on batch-first input; the last layer keeps its states only if asked to."""
        batch, time = batch_and_time(x)
        self._check_state(h_0, batch)
        check_lengths(lengths, batch, time)
        x, h_0 = self._admit(x), (None if h_0 is None else admit("h_0", h_0, self._weight))
        with full_precision(self._weight):
            output, h_n = self._run_layers(x, h_0, lengths, every_output)
        dtype = self._weight.dtype
        return (None if output is None else output.to(dtype)), h_n.to(dtype)

    def _run_layers(
        self, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None, every_output: bool
    ) -> tuple[Tensor | None, Tensor]:
        top, ends, lengths = self._climb(x, h_0, lengths)
        output, last = self._run_layer(self.num_layers - 1, top, h_0, lengths, every_output)
        return output, torch.stack([self._padded(end) for end in (*ends, *last)])

    def _climb(
        self, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None
    ) -> tuple[Tensor | Tokens, list[Tensor], Tensor | None]:
        """Run the layers below the last; return what it reads, their last states, and its lengths."""
        ends: list[Tensor] = []
        for run in self._ascend(x, h_0, lengths):
            ends += run.ends
            x, lengths = run.above, run.lengths
        return x, ends, lengths

    def _ascend(self, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None) -> Iterator[LayerRun]:
        """Run the layers below the last, one after the other."""
        for layer in range(self.num_layers - 1):
            states, ends = self._run_layer(layer, x, h_0, lengths, True)
            assert states is not None
            y = self._activated(layer, states, lengths, x)
            dropped = nn.functional.dropout(y, self.dropout, self.training)
            x, lengths = mean_steps(dropped, lengths, self.network.stride)
            yield LayerRun(states, ends, y, x, lengths)

    def _run_layer(
        self, layer: int, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None, every_output: bool
    ) -> tuple[Tensor | None, list[Tensor]]:
        """Return the states of all steps, if asked for, and the last one of each direction."""
        outputs: list[Tensor] = []
        ends: list[Tensor] = []
        for index, rows in enumerate(self._directed(x, lengths), layer * self.num_directions):
            cell = self.cell(index)
            start = None if h_0 is None else h_0[index, :, : cell.hidden_size]
            states, last = cell.run(rows, start, lengths, every_output)
            ends.append(last)
            if states is not None:
                outputs.append(reverse_rows(states, lengths) if outputs else states)
        if not outputs:
            return None, ends
        return (torch.cat(outputs, dim=-1) if self.bidirectional else outputs[0]), ends

    def _directed(self, x: Tensor | Tokens, lengths: Tensor | None) -> list[Tensor | Tokens]:
        """Return the rows as each direction reads them."""
        return [x, reverse_input(x, lengths)] if self.bidirectional else [x]

    def _activated(
        self, layer: int, states: Tensor, lengths: Tensor | None, x: Tensor | Tokens | None = None
    ) -> Tensor:
        """Return y_t = sigma(a norm(h_t) + c) [+ x_t], without normalisation sigma(h_t) [+ x_t]."""
        skip = x if isinstance(x, Tensor) and self.network.has_skip(layer) else None
        if layer < len(self.norms):
            y: Tensor = self.norm(layer)(states, lengths, skip)
            return y
        return states.relu() if skip is None else states.relu() + skip

    def _padded(self, state: Tensor) -> Tensor:
        """Return a state as wide as the widest layer's."""
        missing = self.state_width - state.shape[-1]
        return nn.functional.pad(state, (0, missing)) if missing else state

    def _admit(self, x: Tensor | Tokens) -> Tensor | Tokens:
        """Return the input in the type that the layers compute in; refuse a type other than the weights'."""
        if isinstance(x, Tensor):
            return admit("The input", x, self._weight)
        if x.embedding is not None:
            check_embedding(x.embedding, self)
            admit("The embedding", x.embedding.weight, self._weight)
        return x

    @property
    def _weight(self) -> Tensor:
        """One of the weights, whose type and device are those of all."""
        return self.cell(0).input_weight

    def cell(self, index: int) -> HadamCell:
        """Return one of the cells: those of the lowest layer come first."""
        cell = self.cells[index]
        assert isinstance(cell, HadamCell)
        return cell

    def norm(self, layer: int) -> UnitNorm:
        """Return what lies above a layer of a normalised stack."""
        norm = self.norms[layer]
        assert isinstance(norm, UnitNorm)
        return norm

    def _check_state(self, h_0: Tensor | None, batch: int) -> None:
        shape = (self.num_layers * self.num_directions, batch, self.state_width)
        if h_0 is not None and tuple(h_0.shape) != shape:
            raise InputError(
                f"h_0 must have shape {shape} (unbatched: without the 2nd), got {tuple(h_0.shape)}."
            )
