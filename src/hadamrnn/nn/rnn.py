"""HadamRNN: an orthogonal recurrent layer in d_h bits, shaped like torch.nn.RNN.

One layer and direction is a `HadamCell`; `HadamRNN` stacks them and speaks torch.nn.RNN's language.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from hadamrnn.bits import WeightBits, check_weight_bits
from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.kernels.backend import full_precision, values_are_hidden
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.inputs import Tokens
from hadamrnn.nn.interface import RecurrentLayer
from hadamrnn.nn.packing import pack_rows, reverse_input, reverse_rows, unpack_rows
from hadamrnn.nn.precision import admit

RECURRENCES = ("linear", "relu")
SWITCHES = ("rows", "rows+columns")


class HadamRNN(RecurrentLayer):
    """A recurrent layer whose weight W(u) = diag(u) (I_q kron H_b) / sqrt(b) is d_h signs.

    Takes the place of `torch.nn.RNN`: same inputs (batched, unbatched, PackedSequence), same
    `output, h_n`. Stacked linear layers have sigma = ReLU between them.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as in `torch.nn.RNN`.
        num_blocks: q, the number of diagonal blocks of W; `hidden_size / q` must be a Hadamard order.
        weight_bits: of U: None (full precision), 2..16 or "ternary".
        recurrence: "linear" (the paper's) or "relu".
        switches: "rows" (the paper's) or "rows+columns": W(u, v) = W(u) diag(v).
        evaluator: how the recurrence is computed; "auto" chooses by cost. The result is the same.

    >>> rnn = HadamRNN(3, 8, batch_first=True)
    >>> output, h_n = rnn(torch.randn(5, 20, 3))
    >>> output.shape, h_n.shape
    (torch.Size([5, 20, 8]), torch.Size([1, 5, 8]))
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        bias: bool = True,
        batch_first: bool = False,
        dropout: float = 0.0,
        bidirectional: bool = False,
        *,
        num_blocks: int = 1,
        weight_bits: WeightBits = 4,
        recurrence: str = "linear",
        switches: str = "rows",
        evaluator: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _check_sizes(input_size, hidden_size, num_layers, num_blocks, dropout)
        _check_choice("recurrence", recurrence, RECURRENCES)
        _check_choice("switches", switches, SWITCHES)
        check_weight_bits(weight_bits)
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.num_layers = num_layers
        self.bias = bias
        self.batch_first = batch_first
        self.dropout = dropout
        self.bidirectional = bidirectional
        self.num_blocks = num_blocks
        self.weight_bits = weight_bits
        self.recurrence = recurrence
        self.switches = switches
        self.num_directions = 2 if bidirectional else 1
        self.output_size = self.num_directions * hidden_size
        self.needs_activation = recurrence == "linear"
        self.cells = nn.ModuleList(
            HadamCell(
                input_size if layer == 0 else self.output_size,
                hidden_size,
                bias,
                num_blocks=num_blocks,
                weight_bits=weight_bits,
                recurrence=recurrence,
                switches=switches,
                evaluator=evaluator,
                device=device,
                dtype=dtype,
            )
            for layer in range(num_layers)
            for _ in range(self.num_directions)
        )

    def forward(
        self, x: Tensor | PackedSequence | Tokens, h_0: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Return `output, h_n` as torch.nn.RNN does.

        Args:
            x: `(time, batch, input_size)`, or `(batch, time, input_size)` if `batch_first`, or unbatched
                `(time, input_size)`, or a PackedSequence (sorted or not), or `Tokens` (batch first).
            h_0: `(num_layers * num_directions, batch, hidden_size)`, without `batch` if unbatched.
        """
        if isinstance(x, PackedSequence):
            rows, lengths = unpack_rows(x)
            self._check_input(rows)
            start = h_0 if h_0 is None or x.sorted_indices is None else h_0[:, x.sorted_indices]
            output, h_n = self._run(rows, start, lengths, every_output=True)
            assert output is not None
            return pack_rows(output, x), (h_n if x.unsorted_indices is None else h_n[:, x.unsorted_indices])
        if isinstance(x, Tokens):
            output, h_n = self._run(x, h_0, None, every_output=True)
            assert output is not None
            return output, h_n
        self._check_input(x)
        rows = x[None] if x.dim() == 2 else (x if self.batch_first else x.transpose(0, 1))
        start = h_0[:, None] if h_0 is not None and x.dim() == 2 else h_0
        output, h_n = self._run(rows, start, None, every_output=True)
        assert output is not None
        if x.dim() == 2:
            return output[0], h_n[:, 0]
        return (output if self.batch_first else output.transpose(0, 1)), h_n

    def last_state(
        self, x: Tensor | Tokens, h_0: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Return h_n alone, shape `(num_layers * num_directions, batch, hidden_size)`.

        Cheaper than `forward`: the states in between are never kept. `lengths` is int64 `(batch,)`.
        """
        if isinstance(x, Tensor):
            self._check_input(x)
            if x.dim() == 2:
                start = None if h_0 is None else h_0[:, None]
                return self._run(x[None], start, lengths, every_output=False)[1][:, 0]
            x = x if self.batch_first else x.transpose(0, 1)
        return self._run(x, h_0, lengths, every_output=False)[1]

    def step(self, x_t: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read one time step: return the output at t and the new state, for streaming.

        Args:
            x_t: `(batch, input_size)` or `(input_size,)`.
            h: the state that the last call returned; None starts a new sequence.
        """
        if self.bidirectional:
            raise InputError(
                "step reads a sequence forwards, but this layer is bidirectional. "
                "Build it with bidirectional=False to stream."
            )
        if x_t.shape[-1] != self.input_size or x_t.dim() not in (1, 2):
            raise InputError(
                f"step expects (batch, {self.input_size}) or ({self.input_size},), got {tuple(x_t.shape)}."
            )
        shape = (self.num_layers, *x_t.shape[:-1], self.hidden_size)
        value = admit("The input", x_t, self._weight)
        previous = value.new_zeros(shape) if h is None else admit("The state", h, self._weight)
        if tuple(previous.shape) != shape:
            raise InputError(f"The state must have shape {shape}, got {tuple(previous.shape)}.")
        states = []
        with full_precision(self._weight):
            for layer in range(self.num_layers):
                value = self._cell(layer).step(value if layer == 0 else value.relu(), previous[layer])
                states.append(value)
            dtype = self._weight.dtype
            return value.to(dtype), torch.stack(states).to(dtype)

    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        output, _ = self._run(x, None, lengths, every_output=True)
        assert output is not None
        return output

    def every_readout(
        self, x: Tensor | Tokens, weight: Tensor, bias: Tensor | None, lengths: Tensor | None = None
    ) -> Tensor:
        if self.num_layers > 1 or self.bidirectional:
            return super().every_readout(x, weight, bias, lengths)
        batch, time = x.ids.shape if isinstance(x, Tokens) else x.shape[:2]
        check_lengths(lengths, batch, time)
        x, weight = self._admit(x), admit("The read-out's weight", weight, self._weight)
        bias = None if bias is None else admit("The read-out's bias", bias, self._weight)
        with full_precision(self._weight):
            logits = self._cell(0).run_readout(x, weight, bias, lengths, sigma=self.needs_activation)
        return logits.to(self._weight.dtype)

    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        _, h_n = self._run(x, None, lengths, every_output=False)
        return h_n[-self.num_directions :].transpose(0, 1).flatten(1)

    def _run(
        self, x: Tensor | Tokens, h_0: Tensor | None, lengths: Tensor | None, *, every_output: bool
    ) -> tuple[Tensor | None, Tensor]:
        """Run all layers on batch-first input; the last layer keeps its states only if asked to."""
        batch, time = x.ids.shape if isinstance(x, Tokens) else x.shape[:2]
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
        final_states: list[Tensor] = []
        output: Tensor | None = None
        for layer in range(self.num_layers):
            if output is not None:
                x = nn.functional.dropout(output.relu(), self.dropout, self.training)
            wanted = every_output or layer < self.num_layers - 1
            outputs: list[Tensor | None] = []
            for direction in range(self.num_directions):
                index = layer * self.num_directions + direction
                start = None if h_0 is None else h_0[index]
                rows = reverse_input(x, lengths) if direction else x
                states, last = self._cell(index).run(rows, start, lengths, wanted)
                outputs.append(reverse_rows(states, lengths) if direction and states is not None else states)
                final_states.append(last)
            kept = [states for states in outputs if states is not None]
            output = torch.cat(kept, dim=-1) if len(kept) > 1 else (kept[0] if kept else None)
        return output, torch.stack(final_states)

    def _admit(self, x: Tensor | Tokens) -> Tensor | Tokens:
        """Return the input in the type that the layers compute in; refuse another type than the weights'."""
        if isinstance(x, Tensor):
            return admit("The input", x, self._weight)
        if x.embedding is not None:
            admit("The embedding", x.embedding.weight, self._weight)
        return x

    @property
    def _weight(self) -> Tensor:
        """One of the weights, whose type and device are those of all."""
        return self._cell(0).input_weight

    def _cell(self, index: int) -> HadamCell:
        cell = self.cells[index]
        assert isinstance(cell, HadamCell)
        return cell

    def _check_input(self, x: Tensor) -> None:
        if x.dim() not in (2, 3):
            raise InputError(
                f"Input must be 2-D (time, input_size) or 3-D (batched), got shape {tuple(x.shape)}."
            )
        if x.shape[-1] != self.input_size:
            raise InputError(
                f"The input's last dimension must be {self.input_size} (input_size), got {tuple(x.shape)}. "
                f"Reshape the input, or build the layer with input_size={x.shape[-1]}."
            )

    def _check_state(self, h_0: Tensor | None, batch: int) -> None:
        shape = (self.num_layers * self.num_directions, batch, self.hidden_size)
        if h_0 is not None and tuple(h_0.shape) != shape:
            raise InputError(
                f"h_0 must have shape {shape} (unbatched: without the 2nd), got {tuple(h_0.shape)}."
            )

    def extra_repr(self) -> str:
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"num_blocks={self.num_blocks}, weight_bits={self.weight_bits!r}, "
            f"recurrence={self.recurrence!r}, switches={self.switches!r}"
        )


def _check_sizes(input_size: int, hidden_size: int, num_layers: int, num_blocks: int, dropout: float) -> None:
    for name, value in (("input_size", input_size), ("hidden_size", hidden_size), ("num_layers", num_layers)):
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
    if num_blocks < 1 or hidden_size % num_blocks:
        divisors = [n for n in range(1, hidden_size + 1) if hidden_size % n == 0]
        nearest = sorted(divisors, key=lambda n: abs(n - num_blocks))[:2]
        raise InputError(
            f"num_blocks must divide hidden_size, got {num_blocks} for hidden_size {hidden_size}. "
            f"Nearest divisors: {' and '.join(map(str, sorted(nearest)))}."
        )
    order_factors(hidden_size // num_blocks)
    if not 0 <= dropout <= 1:
        raise InputError(f"dropout must lie in [0, 1], got {dropout}.")


def _check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise InputError(f"{name} must be one of {', '.join(map(repr, choices))}, got {value!r}.")


def check_lengths(lengths: Tensor | None, batch: int, time: int) -> None:
    """Refuse lengths that are no int64 `(batch,)` in 0..time (values are not looked at while tracing)."""
    if lengths is None:
        return
    if lengths.dtype != torch.int64 or tuple(lengths.shape) != (batch,):
        raise InputError(
            f"lengths must be int64 of shape ({batch},), got {lengths.dtype} of shape {tuple(lengths.shape)}."
        )
    if values_are_hidden() or batch == 0:
        return
    lowest, highest = (int(bound) for bound in torch.aminmax(lengths))
    if lowest < 0 or highest > time:
        wrong = lowest if lowest < 0 else highest
        raise InputError(f"lengths must lie in 0..{time}, the number of time steps, got {wrong}.")
