"""Provide HadamRNN: an orthogonal recurrent layer of d_h bits with the interface of torch.nn.RNN.

A `HadamCell` is one layer in one direction, a `HadamStack` runs cells, and `HadamRNN` gives the stack the
interface of torch.nn.RNN.
"""

from __future__ import annotations

from dataclasses import fields

import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence

from hadamrnn.architecture import WeightBits
from hadamrnn.errors import InputError, short
from hadamrnn.kernels.backend import derivatives_are_off, full_precision, widen
from hadamrnn.network import Network
from hadamrnn.nn.interface import Tokens, pack_rows, unpack_rows
from hadamrnn.nn.stack import HadamStack, check_state
from hadamrnn.settings import Range


class HadamRNN(HadamStack):
    """A recurrent layer with the weight W(u) = diag(u) (I_q kron H_b) / sqrt(b), stored as d_h signs.

        h_t = lambda W(u) h_(t-1) + U x_t + b_i,   y_t = sigma(h_t),   sigma = ReLU

    It replaces `torch.nn.RNN`: same inputs (batched, unbatched, PackedSequence) and same `output, h_n`. The
    output is y_t, suitable as the input of a `torch.nn.Linear`; h_n is the state, from which the next part of
    a sequence can continue. A stacked layer reads y_t of the layer below.

    Args:
        input_size, hidden_size, num_layers, bias, batch_first, dropout, bidirectional: as in `torch.nn.RNN`.
        num_blocks: q, the number of diagonal blocks of W; `hidden_size / q` must be a Hadamard order.
        weight_bits: bits of U: None (full precision), 2..16 or "ternary".
        recurrence: "linear" (the paper's) or "relu".
        switches: "rows" (the paper's) or "rows+columns": W(u, v) = W(u) diag(v).
        leak: values of k in lambda = 1 - 2^-k, assigned to the blocks in turn; with k = 0 a block does not
            leak, as in the paper. At most `num_blocks` values.
        decay: values of lambda itself, in (0, 1], assigned to the blocks in turn, instead of `leak`.
        train_decay: whether to train one lambda per block, starting from `leak` or `decay`, else from 0.999.
        layer_sizes: widths of the stacked layers, instead of `hidden_size` and `num_layers`. States have the
            width of the widest layer; those of narrower layers are padded with zeros.
        normalize: y_t = sigma(a norm(h_t) + c), normalised over batch and time in training, and by running
            statistics in evaluation and in `step`. Recommended for stacks. In your own training loop, call
            `refresh_statistics` before each evaluation.
        skip: whether layers below the last add their input to their output, if both have the same width.
        stride: a layer reads means over this many steps of the layer below; an incomplete group at the end
            is dropped.
        train_signs: whether to train the signs, as in the paper. By default they keep their random values,
            because a flip changes every power of W at once; U and later layers are still trained.
        negative_signs: fraction of initially negative signs; by default signs are random. Without negative
            signs W^2 = I, and half of the states only add up their inputs.
        nonlinearity: None, or "relu", which means `recurrence="relu"` as in `torch.nn.RNN`.

    A constant input, such as b_i, excites the eigenvalue 1 of W, so without a leak the state grows with the
    length of the sequence. For long sequences use `bias=False`, a `leak` or `normalize`.

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
        decay: tuple[float, ...] = (),
        train_decay: bool = False,
        layer_sizes: tuple[int, ...] = (),
        normalize: bool = False,
        skip: bool = False,
        stride: int = 1,
        train_signs: bool = False,
        negative_signs: float | None = None,
        nonlinearity: str | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        network = Network(  # checks the arguments
            input_size,
            hidden_size,
            num_layers=num_layers,
            bidirectional=bidirectional,
            dropout=dropout,
            num_blocks=num_blocks,
            weight_bits=weight_bits,
            recurrence="relu" if nonlinearity == "relu" else recurrence,
            switches=switches,
            input_bias=bias,
            leak=leak,
            layer_sizes=layer_sizes,
            normalize=normalize,
            skip=skip,
            stride=stride,
        )
        _check_options(network, decay, negative_signs, nonlinearity, dtype)
        super().__init__(
            network,
            train_signs=train_signs,
            normalized_output=True,
            decay=tuple(decay),
            train_decay=train_decay,
            device=device,
            dtype=dtype,
        )
        self.batch_first = batch_first
        self.hidden_size, self.num_layers = network.hidden_size, network.num_layers
        self.bias, self.dropout, self.bidirectional = bias, network.dropout, network.bidirectional
        if negative_signs is not None:
            for index in range(network.cells):
                self.cell(index).draw_signs(negative_signs)

    def forward(
        self, x: Tensor | PackedSequence | Tokens, h_0: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Tensor]:
        """Return `output, h_n` as torch.nn.RNN does.

        Args:
            x: `(time, batch, input_size)`, `(batch, time, input_size)` if `batch_first`, unbatched
                `(time, input_size)`, a PackedSequence (sorted or not), or `Tokens` (batch first).
            h_0: `(num_layers * num_directions, batch, hidden_size)`, without `batch` if unbatched.

        Returns:
            y_t of the last layer for all of its steps (fewer than inputs with a stride), and h_n, the last
            states of all layers.
        """
        if isinstance(x, PackedSequence):
            rows, lengths = unpack_rows(x)
            self._check_input(rows)
            check_state("h_0", h_0, (self.network.cells, len(rows), max(self.network.widths)))  # unsorted
            start = h_0 if h_0 is None or x.sorted_indices is None else h_0[:, x.sorted_indices]
            if self.network.stride > 1 and self.network.num_layers > 1:
                raise InputError(
                    "A stride changes the lengths of packed rows. Use stride=1, or pad the rows."
                )
            states, h_n = self._run(rows, start, lengths, every_output=True)
            output = self._output(states, lengths)
            h_n = h_n if x.unsorted_indices is None else h_n[:, x.unsorted_indices]
            return pack_rows(output, lengths, x), h_n
        tokens_or_rows, start = (x, h_0) if isinstance(x, Tokens) else self._batched(x, h_0)
        states, h_n = self._run(tokens_or_rows, start, every_output=True)
        output = self._output(states, None)
        if isinstance(x, Tokens):
            return output, h_n
        if x.dim() == 2:
            return output[0], h_n[:, 0]
        return (output if self.batch_first else output.transpose(0, 1)), h_n

    def last_state(
        self, x: Tensor | Tokens, h_0: Tensor | None = None, lengths: Tensor | None = None
    ) -> Tensor:
        """Return only h_n, shape `(num_layers * num_directions, batch, hidden_size)`.

        This is many times cheaper than `forward(x)[0][:, -1]`, which is sigma(h_n), because no other states
        are stored. `lengths` is int64 `(batch,)`.
        """
        if isinstance(x, PackedSequence):
            raise InputError("last_state takes rows and lengths, got a PackedSequence. Unpack it first.")
        rows, start = (x, h_0) if isinstance(x, Tokens) else self._batched(x, h_0)
        _, h_n = self._run(rows, start, lengths)
        return h_n[:, 0] if isinstance(x, Tensor) and x.dim() == 2 else h_n

    def _output(self, states: Tensor | None, lengths: Tensor | None) -> Tensor:
        """Return y_t of the last layer's states."""
        assert states is not None
        if not self.network.normalize and derivatives_are_off(states):
            return states.relu_()  # nothing else reads them
        with full_precision(self._weight):
            y = self._activated(self.network.num_layers - 1, widen(states), lengths)
        return y.to(states.dtype)

    def _batched(self, x: Tensor, h_0: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return batch-first input and its initial state; unbatched input becomes a batch of one."""
        self._check_input(x)
        if x.dim() == 2:
            return x[None], (None if h_0 is None else h_0[:, None])
        return (x if self.batch_first else x.transpose(0, 1)), h_0

    def _check_input(self, x: Tensor) -> None:
        if x.dim() not in (2, 3) or x.shape[-1] != self.input_size:
            raise InputError(
                f"The input must be 2-D (time, input_size) or 3-D (batched), its last dimension "
                f"{self.input_size} (input_size), got {tuple(x.shape)}."
            )

    def extra_repr(self) -> str:
        network, defaults = self.network, Network()
        parts = [f"{network.input_size}, {network.hidden_size}"]
        for field in fields(Network):
            value = getattr(network, field.name)
            if field.name not in ("input_size", "hidden_size") and value != getattr(defaults, field.name):
                parts.append(f"{'bias' if field.name == 'input_bias' else field.name}={value!r}")
        cell = self.cell(0)
        parts += [f"decay={cell.decays}"] if cell.decays and not network.leak else []
        parts += ["train_decay=True"] if cell.latent_decay is not None else []
        parts += ["train_signs=True"] if cell.latent_signs.requires_grad else []
        return ", ".join(parts + (["batch_first=True"] if self.batch_first else []))


def _check_options(
    network: Network,
    decay: tuple[float, ...],
    negative_signs: float | None,
    nonlinearity: str | None,
    dtype: torch.dtype | None,
) -> None:
    """Refuse invalid values of options that are not in `Network`, which checks the others."""
    blocks, floats = network.num_blocks, (torch.float16, torch.bfloat16, torch.float32, torch.float64)
    fits = len(decay) <= blocks and all(value in Range(0, 1, "(]") for value in decay)
    share_fits = negative_signs is None or negative_signs in Range(0, 1)
    rules = {
        f"decay must list at most {blocks} numbers in (0, 1], one for each block, got {short(decay)}": fits,
        f"decay takes the place of leak, got both, {short(decay)} and {network.leak}": not decay
        or not network.leak,
        f"negative_signs must lie in 0..1, got {short(negative_signs)}": share_fits,
        f'nonlinearity must be "relu" or left out, got {short(nonlinearity)}': nonlinearity in (None, "relu"),
        f"dtype must be one of {', '.join(map(str, floats))}, got {dtype}": dtype in (None, *floats),
    }
    for rule, is_kept in rules.items():
        if not is_kept:
            raise InputError(f"{rule}.")
