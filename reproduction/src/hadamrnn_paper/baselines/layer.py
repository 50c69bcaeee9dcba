"""Base class of all baselines with one layer and one direction: checks, tokens and lengths."""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor

from hadamrnn.kernels.backend import check_ids
from hadamrnn.nn.interface import RecurrentLayer, Tokens, admit, batch_and_time, check_lengths, project_tokens


class BaselineLayer(RecurrentLayer):
    """One layer, one direction. A subclass computes the states; padding is handled here."""

    needs_activation = False

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.input_size = input_size
        self.hidden_size = hidden_size
        self.output_size = hidden_size

    @abstractmethod
    def states(self, x: Tensor | Tokens, valid: Tensor | None) -> Tensor:
        """Return h_t for every t, `(batch, time, hidden_size)`; steps outside `valid` may hold any value.

        There is at least one step. `valid` is bool `(batch, time)`; most layers can ignore it, because a step
        never depends on later ones.
        """

    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        states, valid = self._run(x, lengths)
        return states if valid is None else torch.where(valid[..., None], states, 0.0)

    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        states, _ = self._run(x, lengths)
        return last_of(states, lengths)

    def _run(self, x: Tensor | Tokens, lengths: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the result of `states` for an input of any length, and the mask of valid steps."""
        weight = next(self.parameters())
        x, valid = admitted(x, lengths, weight)
        batch, time = batch_and_time(x)
        states = self.states(x, valid) if time else weight.new_zeros(batch, 0, self.hidden_size)
        return states, valid


def admitted(
    x: Tensor | Tokens, lengths: Tensor | None, weight: Tensor
) -> tuple[Tensor | Tokens, Tensor | None]:
    """Check the input of a layer with this weight; return it and the mask of valid steps `(batch, time)`.

    A mask of None means that all steps are valid. Padding becomes 0, because a NaN in it would reach the
    gradient.
    """
    batch, time = batch_and_time(x)
    check_lengths(lengths, batch, time)
    if isinstance(x, Tensor):
        admit("The input", x, weight)
    if lengths is None:
        return x, None
    valid = torch.arange(time, device=lengths.device) < lengths[:, None]
    return (torch.where(valid[..., None], x, 0.0) if isinstance(x, Tensor) else x), valid


def last_of(states: Tensor, lengths: Tensor | None) -> Tensor:
    """Return each row's last state, `(batch, features)`; for an empty row the initial state, zero."""
    if states.shape[1] == 0:
        return states.new_zeros(states.shape[0], states.shape[2])
    if lengths is None:
        return states[:, -1]
    index = (lengths - 1).clamp(min=0)[:, None, None].expand(-1, 1, states.shape[2])
    return torch.where(lengths[:, None] > 0, states.gather(1, index).squeeze(1), 0.0)


def projected(x: Tensor | Tokens, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return z_t = weight x_t + bias for every t, `(batch, time, rows of weight)`."""
    if isinstance(x, Tokens):
        return torch.nn.functional.embedding(*project_tokens(x, weight, bias))
    return torch.nn.functional.linear(x, weight, bias)


def token_vectors(x: Tensor | Tokens, input_size: int, dtype: torch.dtype) -> Tensor:
    """Return the vectors of tokens, `(batch, time, input_size)`; dense input unchanged."""
    if not isinstance(x, Tokens):
        return x
    if x.embedding is not None:
        check_ids(x.ids, x.embedding.num_embeddings)
        return torch.as_tensor(x.embedding(x.ids))
    check_ids(x.ids, input_size)
    return torch.nn.functional.one_hot(x.ids, input_size).to(dtype)
