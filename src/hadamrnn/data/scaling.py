"""Standardised channels, and the raw codes of the sensor behind them. Start at `standardised`."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from hadamrnn.data.splits import Preparation, Split, Splits, in_parts

# A constant's deviation is only rounding: 1e-9 of its size is far below any sensor's resolution.
CONSTANT = 1e-9
RAW_LIMIT = (1 << 31) - 1
ROWS_AT_ONCE = 1 << 16
UNIT_BITS = 12  # a raw unit is this many powers of two below the least deviation of a channel
LEAST_BITS = 6  # or at least this many, where int32 could not reach the largest value otherwise


def standardised(
    task: str,
    parts: Iterable[Split],
    keep_values: bool = False,
    preparation: Preparation | None = None,
    **facts: Any,
) -> Splits:
    """Return a task whose channels are standardised, by default with the statistics of the training part.

    Args:
        parts: raw values `(n, time, channels)`; the next is taken when the one before is standardised.
        keep_values: leave them as they are.
        preparation: use its offset and scale.
    """
    remaining = iter(parts)
    train = next(remaining)
    valid = None if train.lengths is None else torch.arange(train.x.shape[1]) < train.lengths[:, None]
    facts["raw_unit"] = raw_unit(train.x, valid)
    if keep_values:
        kept = (replace(part, x=part.x.float()) for part in chain([train], remaining))
        return in_parts(task, kept, **facts)
    if preparation is None:
        offset, scale = standardise(train.x, valid)
    else:
        offset, scale = (
            torch.tensor(each, dtype=train.x.dtype) for each in (preparation.offset, preparation.scale)
        )
    train = replace(train, x=rescale(train.x, offset, scale))
    others = (replace(part, x=rescale(part.x, offset, scale)) for part in remaining)
    return in_parts(task, chain([train], others), offset=offset, scale=scale, **facts)


def raw_unit(x: Tensor, valid: Tensor | None = None) -> float | None:
    """Return the value of one raw code of the sensor behind `x`, as an int32 holds it.

    1 where x holds whole numbers: the codes are those of the training file. Else `fitting_unit` of the least
    deviation of a channel.

    >>> raw_unit(torch.tensor([[[3.0], [-7.0]]])), raw_unit(torch.tensor([[[0.5], [2.5]]]))
    (1.0, 0.000244140625)
    >>> raw_unit(torch.tensor([[[0.5, 1e10], [2.5, 3e10]]])) is None
    True
    """
    steps = x.reshape(-1, x.shape[-1]) if valid is None else x[valid]
    if _whole(steps):
        return 1.0
    steps = steps.double()
    deviations = steps.std(0, correction=0)
    varying = deviations[deviations > CONSTANT * steps.mean(0).abs()]
    return fitting_unit(float(varying.min()) if len(varying) else 1.0, float(steps.abs().max()))


def fitting_unit(detail: float, largest: float) -> float | None:
    """Return a power of two as the value of one int32 code, `UNIT_BITS` below the size `detail`.

    Larger, but at least `LEAST_BITS` below, if int32 would not reach `largest`; None if that is impossible.
    """
    fine = math.frexp(detail)[1] - 1 - UNIT_BITS
    coarse = math.frexp(largest)[1] - 31
    return math.ldexp(1.0, max(fine, coarse)) if coarse <= fine + UNIT_BITS - LEAST_BITS else None


def _whole(steps: Tensor) -> bool:
    """Whether all values are whole numbers that an int32 holds; block by block, to save memory."""
    return all(
        bool((block == block.round()).all()) and float(block.abs().max()) <= RAW_LIMIT
        for block in steps.split(ROWS_AT_ONCE)
    )


def standardise(x: Tensor, valid: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Return the `(offset, scale)` per channel that give `x` zero mean and unit variance.

        offset_c = mean_{n,t} x_ntc        scale_c = sqrt(mean_{n,t} (x_ntc - offset_c)^2)

    Args:
        x: `(n, time, channels)`, float32 or float64; sums are in float64.
        valid: `(n, time)` bool, the steps that count; None for all.

    Returns:
        Two tensors of x's type; float64 keeps an offset that is large beside the deviation.

    A constant channel has scale 1, so that it becomes 0 and not NaN. The offset of whole numbers is a
    whole number, which an integer network subtracts exactly.

    >>> offset, scale = standardise(torch.tensor([[[1.0, 5.0], [3.0, 5.0]]]))
    >>> offset, scale
    (tensor([2., 5.]), tensor([1., 1.]))
    """
    steps = x.reshape(-1, x.shape[-1]) if valid is None else x[valid]
    offset = steps.mean(0, dtype=torch.float64)
    squares = sum((block - offset).square_().sum(0) for block in steps.split(ROWS_AT_ONCE))
    scale = (squares / len(steps)).sqrt().float()  # before it is compared: it may round to 0
    scale = torch.where(scale > CONSTANT * offset.abs(), scale, 1.0)
    offset = offset.round() if _whole(steps) else offset
    return offset.to(x.dtype), scale.to(x.dtype)


def rescale(x: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
    """Return (x - offset) / scale in float32, computed in x's own type."""
    return ((x - offset.to(x)) / scale.to(x)).float()
