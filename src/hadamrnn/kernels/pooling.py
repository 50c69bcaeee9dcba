"""Read-outs that look at every step of a recurrence, and keep no states.

    last      sigma(h_T)                            sigma = ReLU; a ReLU recurrence has had its own
    mean      1/T sum_t ReLU(h_t - theta)           one group of features for each row of thresholds
    positive  1/T sum_t [h_t > theta]               the same
    max       max_t h_t

T is the length of each row: steps past it never count, and what is pooled over no step at all is zero.
Start reading at `pooled`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.kernels.plain import plain_scan
from hadamrnn.kernels.recurrence import Recurrence

KINDS = ("last", "mean", "positive", "max")


def pooled(
    recurrence: Recurrence, kinds: tuple[str, ...], thresholds: Tensor | None
) -> tuple[Tensor, Tensor]:
    """Return the features and the last state `(batch, hidden_size)`.

    The gradient of `positive` is a straight-through one: [h > theta] is taken for a ramp of slope 1/2 where
    |h - theta| <= 1, flat outside.

    Args:
        kinds: some of `KINDS`, each once.
        thresholds: theta `(count, hidden_size)`; None for one row of zeros.

    Returns:
        Features `(batch, hidden_size * groups)` in the order of `kinds`; `mean` and `positive` give a group
        for each threshold, the others one.
    """
    _check(recurrence, kinds, thresholds)
    theta = recurrence.signs.new_zeros(1, recurrence.hidden_size) if thresholds is None else thresholds
    return plain_pooled(recurrence, kinds, theta)


def plain_pooled(recurrence: Recurrence, kinds: tuple[str, ...], theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same in plain torch, from the states of all steps."""
    every_state = replace(recurrence, every_output=True, output_weight=None, output_bias=None)
    states, last = plain_scan(every_state)
    assert states is not None
    lengths = recurrence.lengths
    if lengths is None:
        lengths = torch.full((recurrence.batch,), recurrence.time, device=states.device)
    alive = (torch.arange(recurrence.time, device=states.device) < lengths[:, None])[:, :, None]
    share = (alive / lengths.clamp(min=1)[:, None, None]).to(states.dtype)
    groups: list[Tensor] = []
    for kind in kinds:
        if kind == "last":
            groups.append(last if recurrence.relu else last.relu())
        elif kind == "mean":
            groups += [((states - row).relu() * share).sum(1) for row in theta]
        elif kind == "positive":
            groups += [(step(states - row) * share).sum(1) for row in theta]
        elif recurrence.time == 0:
            groups.append(torch.zeros_like(last))
        else:
            hidden = torch.where(alive, states, states.new_full((), -torch.inf)).max(1).values
            groups.append(torch.where(lengths[:, None] > 0, hidden, torch.zeros_like(hidden)))
    return torch.cat(groups, dim=1), last


def step(x: Tensor) -> Tensor:
    """Return [x > 0], with the gradient of the ramp clamp((x + 1) / 2, 0, 1)."""
    ramp = ((x + 1) / 2).clamp(0, 1)
    return (x > 0).to(x.dtype) + (ramp - ramp.detach())


def _check(recurrence: Recurrence, kinds: tuple[str, ...], thresholds: Tensor | None) -> None:
    if not kinds or not set(kinds) <= set(KINDS) or len(set(kinds)) < len(kinds):
        raise InputError(f"Read-outs must be some of {', '.join(KINDS)}, each once, got {kinds}.")
    if thresholds is not None and (thresholds.dim() != 2 or thresholds.shape[1] != recurrence.hidden_size):
        rule = f"thresholds must have the shape (count, {recurrence.hidden_size})"
        raise InputError(f"{rule}, got {tuple(thresholds.shape)}.")
