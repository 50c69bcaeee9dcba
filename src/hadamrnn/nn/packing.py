"""Rows of different length: PackedSequence in and out, and reversal in time."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import values_are_hidden
from hadamrnn.nn.inputs import Tokens


def unpack_rows(packed: PackedSequence) -> tuple[Tensor, Tensor]:
    """Return `(batch, time, features)` and lengths, in the packed (sorted) order of the rows."""
    expected = int(packed.batch_sizes.sum())
    if expected != packed.data.shape[0]:
        raise InputError(
            f"The batch sizes of a PackedSequence must sum to its rows, got {expected} for "
            f"{packed.data.shape[0]} rows. Make it with torch.nn.utils.rnn.pack_padded_sequence."
        )
    in_order = PackedSequence(packed.data, packed.batch_sizes, None, None)
    rows, lengths = pad_packed_sequence(in_order, batch_first=True)
    return rows, lengths.to(packed.data.device)


def pack_rows(rows: Tensor, like: PackedSequence) -> PackedSequence:
    """Pack rows in the packed order of `like`, and carry its indices over, as torch.nn.RNN does."""
    lengths = torch.zeros(int(like.batch_sizes[0]), dtype=torch.int64)
    for size in like.batch_sizes.tolist():
        lengths[:size] += 1
    packed = pack_padded_sequence(rows, lengths, batch_first=True, enforce_sorted=True)
    return PackedSequence(packed.data, like.batch_sizes, like.sorted_indices, like.unsorted_indices)


def run_torch_layer(layer: nn.RNNBase, rows: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return every output of torch's RNN, GRU or LSTM, and the last states, both directions side by side."""
    if lengths is None:
        output, h_n = layer(rows)
    else:
        packed = pack_padded_sequence(rows, lengths.cpu(), batch_first=True, enforce_sorted=False)
        packed_output, h_n = layer(packed)
        output, _ = pad_packed_sequence(packed_output, batch_first=True, total_length=rows.shape[1])
    last = h_n[0] if isinstance(h_n, tuple) else h_n
    return output, torch.cat(tuple(last[-2 if layer.bidirectional else -1 :]), dim=-1)


def reverse_input(x: Tensor | Tokens, lengths: Tensor | None) -> Tensor | Tokens:
    """Reverse dense rows or tokens in time."""
    if isinstance(x, Tokens):
        return Tokens(reverse_rows(x.ids, lengths), x.embedding)
    return reverse_rows(x, lengths)


def reverse_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse every row in time, within its own length; what lies past the length stays."""
    if lengths is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1], device=x.device)
    order = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, order.reshape(order.shape + (1,) * (x.dim() - 2)).expand_as(x))


def mean_steps(y: Tensor, lengths: Tensor | None, stride: int) -> tuple[Tensor, Tensor | None]:
    """Return the means of every `stride` steps of `(batch, time, size)`, and how many of them each row has.

    What is left at the end of a row, fewer than `stride` steps, is dropped: a stream does not wait for more.
    """
    if stride == 1:
        return y, lengths
    batch, time, size = y.shape
    groups = time // stride
    means = y[:, : groups * stride].reshape(batch, groups, stride, size).mean(2)
    return means, None if lengths is None else lengths // stride


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
