"""HadamRNN: an orthogonal recurrent layer in d_h bits, shaped like torch.nn.RNN.

One layer and direction is a `HadamCell`; a `HadamStack` runs them, and `HadamRNN` gives the stack the
interface of torch.nn.RNN.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from hadamrnn.bits import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import full_precision
from hadamrnn.network import Network
from hadamrnn.nn.inputs import Tokens, admit, pack_rows, unpack_rows
from hadamrnn.nn.stack import HadamStack


class HadamRNN(HadamStack):
    """A recurrent layer whose weight W(u) = diag(u) (I_q kron H_b) / sqrt(b) is d_h signs.

        h_t = lambda W(u) h_(t-1) + U x_t + b_i,   y_t = sigma(h_t),   sigma = ReLU

    Takes the place of `torch.nn.RNN`: same inputs (batched, unbatched, PackedSequence), same
    `output, h_n`. The output is y_t, which a `torch.nn.Linear` can learn from; h_n is the state, from which
    the next piece of a sequence continues. A stacked layer reads y_t of the layer below.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as in `torch.nn.RNN`.
        num_blocks: q, the number of diagonal blocks of W; `hidden_size / q` must be a Hadamard order.
        weight_bits: of U: None (full precision), 2..16 or "ternary".
        recurrence: "linear" (the paper's) or "relu".
        switches: "rows" (the paper's) or "rows+columns": W(u, v) = W(u) diag(v).
        leak: k of lambda = 1 - 2^-k for each block in turn; 0 never forgets. Empty (the paper's): none does.
        layer_sizes: widths of the stacked layers, in place of `hidden_size` and `num_layers`. States are as
            wide as the widest layer, zero beyond the units of a narrower one.
        normalize: y_t = sigma(a norm(h_t) + c), normalised over batch and time in training, by running
            statistics in evaluation and in `step`. Recommended for stacks.
        skip: add a layer's input to its output below the last layer, where they have the same width.
        stride: a layer reads means of this many steps of the one below; fewer at the end are dropped.
        train_signs: let the signs learn, as in the paper. By default they stay as drawn, because a flip
            changes every power of W at once; U and the layers that follow learn.
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
        leak: tuple[int, ...] = (),
        layer_sizes: tuple[int, ...] = (),
        normalize: bool = False,
        skip: bool = False,
        stride: int = 1,
        train_signs: bool = False,
        evaluator: str = "auto",
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        network = Network(  # checks them
            input_size,
            hidden_size,
            num_layers=num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            num_blocks=num_blocks,
            weight_bits=weight_bits,
            recurrence=recurrence,
            switches=switches,
            input_bias=bias,
            leak=leak,
            layer_sizes=layer_sizes,
            normalize=normalize,
            skip=skip,
            stride=stride,
        )
        super().__init__(
            network,
            train_signs=train_signs,
            normalized_output=True,
            evaluator=evaluator,
            device=device,
            dtype=dtype,
        )
        self.batch_first = batch_first

    @classmethod
    def of(cls, network: Network, evaluator: str = "auto") -> HadamRNN:
        """Return the layer of a `SequenceModel`: batch first, signs learnt, its top layer not normalised."""
        layer = cls.__new__(cls)
        HadamStack.__init__(layer, network, train_signs=True, normalized_output=False, evaluator=evaluator)
        layer.batch_first = True
        return layer

    def forward(
        self, x: Tensor | PackedSequence | Tokens, h_0: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Return `output, h_n` as torch.nn.RNN does.

        Args:
            x: `(time, batch, input_size)`, or `(batch, time, input_size)` if `batch_first`, or unbatched
                `(time, input_size)`, or a PackedSequence (sorted or not), or `Tokens` (batch first).
            h_0: `(num_layers * num_directions, batch, hidden_size)`, without `batch` if unbatched.

        Returns:
            y_t of the last layer, of all steps (with a stride: of the steps that it makes), and the last
            states of all layers, h_n.
        """
        if isinstance(x, PackedSequence):
            rows, lengths = unpack_rows(x)
            self._check_input(rows)
            self._check_state(h_0, len(rows))  # before it is sorted
            start = h_0 if h_0 is None or x.sorted_indices is None else h_0[:, x.sorted_indices]
            if self.network.stride > 1 and self.num_layers > 1:
                raise InputError(
                    "A stride changes the lengths of packed rows. Use stride=1, or pad the rows."
                )
            output, h_n = self._run_activated(rows, start, lengths)
            h_n = h_n if x.unsorted_indices is None else h_n[:, x.unsorted_indices]
            return pack_rows(output, lengths, x), h_n
        if isinstance(x, Tokens):
            return self._run_activated(x, h_0, None)
        output, h_n = self._run_activated(*self._batched(x, h_0), None)
        if x.dim() == 2:
            return output[0], h_n[:, 0]
        return (output if self.batch_first else output.transpose(0, 1)), h_n

    def last_state(
        self, x: Tensor | Tokens, h_0: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Return h_n alone, shape `(num_layers * num_directions, batch, hidden_size)`.

        Cheaper than `forward`: the states in between are never kept. `lengths` is int64 `(batch,)`.
        """
        if isinstance(x, PackedSequence):
            raise InputError("last_state takes rows and lengths, got a PackedSequence. Unpack it first.")
        rows, start = (x, h_0) if isinstance(x, Tokens) else self._batched(x, h_0)
        _, h_n = self._run(rows, start, lengths, every_output=False)
        return h_n[:, 0] if isinstance(x, Tensor) and x.dim() == 2 else h_n

    def step(self, x_t: Tensor | Tokens, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read one time step: return the output at t and the new state, for streaming.

        Args:
            x_t: `(batch, input_size)` or `(input_size,)`, or `Tokens` of ids `(batch,)` or `()`.
            h: the state that the last call returned; None starts a new sequence.
        """
        if self.bidirectional:
            raise InputError(
                "step reads a sequence forwards, but this layer is bidirectional. "
                "Build it with bidirectional=False to stream."
            )
        if isinstance(x_t, Tokens):
            batch = x_t.ids.shape
            if len(batch) > 1:
                raise InputError(f"step expects ids of shape (batch,) or (), got {tuple(batch)}.")
        else:
            batch = x_t.shape[:-1]
            if x_t.dim() not in (1, 2) or x_t.shape[-1] != self.input_size:
                size = self.input_size
                raise InputError(f"step expects (batch, {size}) or ({size},), got {tuple(x_t.shape)}.")
        if self.network.stride > 1 and self.num_layers > 1:
            raise InputError("step gives every layer every step, and this stack has a stride. Use stride=1.")
        shape = (self.num_layers, *batch, self.state_width)
        value = self._admit(x_t)
        start = self._weight.new_zeros(shape) if h is None else h
        previous = admit("The state", start, self._weight)
        if tuple(previous.shape) != shape:
            raise InputError(f"The state must have shape {shape}, got {tuple(previous.shape)}.")
        states = []
        with full_precision(self._weight):
            for layer, width in enumerate(self.network.widths):
                state = self.cell(layer).step(value, previous[layer, ..., :width])
                states.append(self._padded(state))
                y = state.relu() if layer >= len(self.norms) else self.norm(layer).step(state).relu()
                value = y + value if isinstance(value, Tensor) and self.network.has_skip(layer) else y
        dtype = self._weight.dtype
        return y.to(dtype), torch.stack(states).to(dtype)

    def _batched(self, x: Tensor, h_0: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the input batch first, and its initial state; unbatched input becomes a batch of one."""
        self._check_input(x)
        if x.dim() == 2:
            return x[None], (None if h_0 is None else h_0[:, None])
        return (x if self.batch_first else x.transpose(0, 1)), h_0

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

    def extra_repr(self) -> str:
        return (
            f"{self.input_size}, {self.hidden_size}, num_layers={self.num_layers}, "
            f"num_blocks={self.num_blocks}, weight_bits={self.weight_bits!r}, "
            f"recurrence={self.recurrence!r}, switches={self.switches!r}"
        )
