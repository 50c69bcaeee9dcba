"""Define the interface of recurrent layers: numbers or token ids, in rows of equal or different lengths.

Input and initial state must have the dtype of the weights, as in torch.nn.RNN. The recurrence runs in float32
(float64 in a float64 layer), because float16 or bfloat16 would lose too much over a thousand steps; its
result is converted back. Autocast does not change that; under autocast, input of any dtype below float64 is
accepted.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import (
    autocast_is_on,
    check_ids,
    check_range,
    full_precision,
    values_are_hidden,
    widen,
)
from hadamrnn.kernels.methods import reverse_rows as reverse_rows
from hadamrnn.kernels.product import project
from hadamrnn.settings import check_equal, check_shape

AUTOCAST_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def admit(name: str, tensor: Tensor, weight: Tensor) -> Tensor:
    """Convert the tensor to the computation dtype; refuse one that does not match the weights."""
    is_mixed = tensor.dtype != weight.dtype
    if is_mixed and not (autocast_is_on(weight) and {tensor.dtype, weight.dtype} <= set(AUTOCAST_DTYPES)):
        raise InputError(
            f"{name} must be {weight.dtype} like the layer's weights, got {tensor.dtype}. "
            f"Convert it with .to({weight.dtype}), or the layer with layer.double() and the like."
        )
    if tensor.layout != torch.strided or tensor.device != weight.device:
        raise InputError(
            f"{name} must be dense and on {weight.device} like the layer's weights, got {tensor.layout} on "
            f"{tensor.device}. Convert it with .to_dense() or .to(device)."
        )
    return widen(tensor)


@dataclass(frozen=True)
class Tokens:
    """Integer ids `(batch, time)`, read as one-hot vectors or through an embedding."""

    ids: Tensor
    embedding: nn.Embedding | None = None


def batch_and_time(x: Tensor | Tokens) -> tuple[int, int]:
    if isinstance(x, Tokens):
        check_shape("Ids", x.ids, "batch", "time")
    batch, time = (x.ids if isinstance(x, Tokens) else x).shape[:2]
    return batch, time


def check_embedding(embedding: nn.Embedding, layer: nn.Module) -> None:
    """Refuse an embedding whose vectors do not fit the layer."""
    check_equal("The size of the embedding's vectors", embedding.embedding_dim, layer.input_size)


def project_tokens(tokens: Tokens, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return ids `(batch, time)` and a table `(num_ids, hidden_size)` with z_t = table[id_t].

    One-hot tokens select columns of U, so the table is U'. Embedded tokens are projected once per distinct id
    in the batch, because texts repeat many words. The recurrence checks the ids.
    """
    if tokens.embedding is None:
        table, ids = weight.T, tokens.ids
    else:
        distinct, ids = _distinct(tokens.ids, tokens.embedding.num_embeddings)
        return ids, project(tokens.embedding(distinct).to(weight.dtype), weight, bias)
    return ids, (table if bias is None else table + bias)


def _distinct(ids: Tensor, num_ids: int) -> tuple[Tensor, Tensor]:
    """Return the distinct ids and each token's position among them.

    A small vocabulary is used completely. So is any vocabulary under torch.compile or torch.func, because the
    number of distinct ids would be a data-dependent shape.
    """
    if ids.dtype != torch.int64 or values_are_hidden() or num_ids * 8 <= ids.numel():
        return torch.arange(num_ids, device=ids.device), ids
    distinct, positions = torch.unique(ids, return_inverse=True)
    check_ids(distinct, num_ids)
    return distinct, positions


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


def pack_rows(rows: Tensor, lengths: Tensor, like: PackedSequence) -> PackedSequence:
    """Pack rows in the order of `like` and keep its indices, as torch.nn.RNN does."""
    packed = pack_padded_sequence(rows, lengths.cpu(), batch_first=True)
    return PackedSequence(packed.data, like.batch_sizes, like.sorted_indices, like.unsorted_indices)


def reverse_input(x: Tensor | Tokens, lengths: Tensor | None) -> Tensor | Tokens:
    """Reverse dense rows or tokens in time."""
    if isinstance(x, Tokens):
        return Tokens(reverse_rows(x.ids, lengths), x.embedding)
    return reverse_rows(x, lengths)


def mean_steps(y: Tensor, lengths: Tensor | None, stride: int) -> tuple[Tensor, Tensor | None]:
    """Return means over every `stride` steps of `(batch, time, size)`, and how many each row has.

    An incomplete group of steps at the end of a row is dropped, as in a stream.
    """
    if stride == 1:
        return y, lengths
    batch, time, size = y.shape
    groups = time // stride
    means = y[:, : groups * stride].reshape(batch, groups, stride, size).mean(2)
    return means, None if lengths is None else lengths // stride


def check_lengths(lengths: Tensor | None, batch: int, time: int) -> None:
    """Refuse lengths that are not int64 `(batch,)` in 0..time (values are not checked while tracing)."""
    if lengths is None:
        return
    if lengths.dtype != torch.int64 or tuple(lengths.shape) != (batch,):
        raise InputError(
            f"lengths must be int64 of shape ({batch},), got {lengths.dtype} of shape {tuple(lengths.shape)}."
        )
    if not values_are_hidden():
        check_range("lengths", lengths, time + 1)


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Put a module into evaluation mode for this block."""
    was_training = module.training
    module.eval()
    try:
        yield
    finally:
        module.train(was_training)


class RecurrentLayer(nn.Module, ABC):
    """A recurrent layer that takes tokens and lengths, and can return only the last state.

    Tensors are batch first. `input_size` and `output_size` are the widths of inputs and outputs.
    `needs_activation` is true if the read-out must apply sigma to the outputs (linear recurrences).
    """

    input_size: int
    output_size: int
    needs_activation: bool

    @abstractmethod
    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        """Return the states of all steps, `(batch, time, output_size)`, zero past a row's length."""

    @abstractmethod
    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        """Return the state at each row's end, `(batch, output_size)`."""

    def every_readout(
        self, x: Tensor | Tokens, weight: Tensor, bias: Tensor | None, lengths: Tensor | None = None
    ) -> Tensor:
        """Return V sigma(h_t) + b_o for all steps, `(batch, time, len(weight))`; a layer may fuse this."""
        states = self.every_state(x, lengths)
        with full_precision(weight):
            return linear(states.relu() if self.needs_activation else states, weight, bias)


class Constrained(ABC):
    """A layer whose parameters must satisfy a constraint that the optimizer does not know."""

    @abstractmethod
    def constrain(self, progress: float) -> None:
        """Restore the parameters' constraint; called after every optimizer step.

        `progress` is the completed fraction of the run, in (0, 1].
        """
