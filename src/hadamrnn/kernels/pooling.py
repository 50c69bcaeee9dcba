"""Read-outs that look at every step of a recurrence, and keep no states.

    last      sigma(h_T)                            sigma = ReLU, which a ReLU recurrence has already applied
    mean      1/T sum_t ReLU(h_t - theta)           one group of features for each row of thresholds
    positive  1/T sum_t [h_t > theta]               the same
    max       max_t h_t

T is the length of each row: steps past it never count, and a row of no steps gives zeros.
Start reading at `pooled`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import full_precision, runs_natively
from hadamrnn.kernels.operators import define_operator, empty_gradients, keep_arguments, kept_arguments
from hadamrnn.kernels.plain import about_root, as_leaves, gradients_again, plain_scan
from hadamrnn.kernels.pool_call import (
    POOLS,
    Pools,
    bits_are_kept,
    empty_pools,
    pool_backward,
    pool_forward,
)
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, FIELDS, SCHEMA, Recurrence
from hadamrnn.kernels.scan import scan

KINDS = ("last", *POOLS)
# The tensors that may get a gradient.
_DIFFERENTIABLE = (*DIFFERENTIABLE, "thresholds")


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
    if kinds == ("last",):
        _, last = scan(recurrence)
        return _activated(recurrence, last), last
    theta = recurrence.signs.new_zeros(1, recurrence.hidden_size) if thresholds is None else thresholds
    if not runs_natively(recurrence.signs, theta, *(getattr(recurrence, name) for name in DIFFERENTIABLE)):
        return plain_pooled(recurrence, kinds, theta)
    flags = [kind in kinds for kind in POOLS]
    # While exporting the length may be open: it cannot be compared.
    keep = torch.compiler.is_exporting() or bits_are_kept(recurrence, theta, flags)
    tiles = _as_tiles(recurrence, keep)
    mean, positive, most, last, *_ = pool_operator(*tiles.arguments(), theta, flags, keep)
    parts = {"last": _activated(recurrence, last), "mean": mean, "positive": positive, "max": most}
    return torch.cat([parts[kind].flatten(1) for kind in kinds], dim=1), last


def _activated(recurrence: Recurrence, last: Tensor) -> Tensor:
    return last if recurrence.relu else last.relu()


def _as_tiles(recurrence: Recurrence, keep: bool) -> Recurrence:
    """Return the recurrence as the native code takes it: tokens and wide inputs projected."""
    wants_states = (
        not keep
        or recurrence.relu
        or any(
            signs is not None and signs.requires_grad for signs in (recurrence.signs, recurrence.column_signs)
        )
    )
    segment = about_root(recurrence.time) if wants_states else max(recurrence.time, 1)
    if recurrence.ids is not None or recurrence.is_wide:
        recurrence = recurrence.with_rows()
    return replace(recurrence, segment=segment, every_output=False, output_weight=None, output_bias=None)


def plain_pooled(recurrence: Recurrence, kinds: tuple[str, ...], theta: Tensor) -> tuple[Tensor, Tensor]:
    """Return the same in plain torch, from the states of all steps."""
    every_state = replace(recurrence, every_output=True, output_weight=None, output_bias=None)
    states, last = plain_scan(every_state)
    assert states is not None
    lengths = recurrence.lengths
    if lengths is None:
        lengths = torch.full((recurrence.batch,), recurrence.time, device=states.device)
    alive = (torch.arange(recurrence.time, device=states.device) < lengths[:, None])[:, :, None]
    share = alive.to(states.dtype) / lengths.clamp(min=1)[:, None, None]
    groups: list[Tensor] = []
    for kind in kinds:
        if kind == "last":
            groups.append(_activated(recurrence, last))
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


def _forward(*arguments: Any) -> Pools:
    """Run a recurrence in C and pool its states.

    `kinds` says which of `POOLS` are wanted, `keep` whether the bits of all steps are kept.
    """
    *fields, thresholds, kinds, keep = arguments
    recurrence = Recurrence(*fields)
    with full_precision(recurrence.signs):
        return pool_forward(recurrence, thresholds, kinds, keep)


def _backward(*arguments: Any) -> list[Tensor]:
    """Return the gradients of the recurrence's tensors and of the thresholds, `(0,)` where not wanted."""
    *fields, thresholds, gradients, grad_last, pools, keep, wanted = arguments
    recurrence, saved, names = Recurrence(*fields), Pools(*pools), list(compress(_DIFFERENTIABLE, wanted))
    with full_precision(recurrence.signs):
        found = pool_backward(recurrence, thresholds, gradients, grad_last, saved, keep, names)
    return [found.get(name, thresholds.new_empty(0)) for name in _DIFFERENTIABLE]


def _forward_shapes(*arguments: Any) -> Pools:
    *fields, thresholds, kinds, keep = arguments
    return empty_pools(Recurrence(*fields), thresholds, kinds, keep)


def _backward_shapes(*arguments: Any) -> list[Tensor]:
    *fields, thresholds, _, _, _, _, wanted = arguments
    tensors = dict(zip(FIELDS, fields, strict=True)) | {"thresholds": thresholds}
    return empty_gradients([tensors[name] for name in _DIFFERENTIABLE], wanted, thresholds)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    kept = (value.new_empty(0) if index < 4 else value for index, value in enumerate(output))
    keep_arguments(ctx, inputs, *kept)


def _differentiate(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    (*fields, thresholds, kinds, keep), pools = kept_arguments(ctx)
    needed = dict(zip((*FIELDS, "thresholds"), ctx.needs_input_grad, strict=False))
    wanted = [bool(needed[name]) for name in _DIFFERENTIABLE]
    if torch.is_grad_enabled():  # create_graph=True
        names = list(compress(_DIFFERENTIABLE, wanted))
        found = _gradients_again(Recurrence(*fields), thresholds, kinds, gradients[:4], names)
    else:
        results = pool_backward_operator(
            *fields, thresholds, list(gradients[:3]), gradients[3], pools, keep, wanted
        )
        found = dict(zip(_DIFFERENTIABLE, results, strict=True))
    return (*(found[name] if needed[name] and name in found else None for name in needed), None, None)


def _gradients_again(
    recurrence: Recurrence,
    thresholds: Tensor,
    kinds: list[bool],
    gradients: tuple[Tensor | None, ...],
    wanted: list[str],
) -> dict[str, Tensor]:
    """Return the gradients in plain torch, which can be differentiated again."""
    tensors = {"thresholds": thresholds} | {name: getattr(recurrence, name) for name in DIFFERENTIABLE}
    leaves = as_leaves({name: tensors[name] for name in wanted})
    fields: dict[str, Any] = {name: leaf for name, leaf in leaves.items() if name != "thresholds"}
    theta = leaves.get("thresholds", thresholds)
    chosen = tuple(kind for kind, is_wanted in zip(POOLS, kinds, strict=True) if is_wanted)
    with full_precision(recurrence.signs):
        features, last = plain_pooled(replace(recurrence, **fields), chosen, theta)
        flat = [
            None if g is None else g.flatten(1)
            for g, wanted_too in zip(gradients, kinds, strict=False)
            if wanted_too
        ]
        widths = [recurrence.hidden_size * (1 if kind == "max" else theta.shape[0]) for kind in chosen]
        return gradients_again((*features.split(widths, dim=1), last), (*flat, gradients[3]), leaves)


pool_operator = define_operator(
    "hadamrnn::pool",
    f"({SCHEMA}, Tensor thresholds, bool[] kinds, bool keep) "
    f"-> ({', '.join(['Tensor'] * len(Pools._fields))})",
    _forward,
    _forward_shapes,
    _save,
    _differentiate,
)
pool_backward_operator = define_operator(
    "hadamrnn::pool_backward",
    f"({SCHEMA}, Tensor thresholds, Tensor?[] gradients, Tensor? grad_last, Tensor[] pools, "
    "bool keep, bool[] wanted) -> Tensor[]",
    _backward,
    _backward_shapes,
)
