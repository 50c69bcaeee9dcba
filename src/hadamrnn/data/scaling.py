"""Standardise channels, and describe the raw codes of the sensor. Start at `standardised`.

Values are `(n, time, channels)`, zero past a row's length.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.splits import Preparation, Split, Splits, TargetScale, in_parts

Floats = NDArray[np.float64]
CONSTANT = 1e-12  # a deviation below this fraction of the mean is rounding error
RAW_LIMIT = (1 << 31) - 1
VALUES_AT_ONCE = 1 << 18
UNIT_BITS = 12  # a raw unit is 2^-UNIT_BITS times the least deviation of a channel
LEAST_BITS = 6  # the least exponent, used if int32 could not hold the largest value otherwise


def standardised(
    task: str,
    parts: Iterable[Split],
    keep_values: bool = False,
    preparation: Preparation | None = None,
    **facts: Any,
) -> Splits:
    """Return a task with standardised channels, by default by the training part's statistics.

    Args:
        parts: raw values `(n, time, channels)` as an iterable; a part is read once the previous one is done.
        keep_values: do not standardise.
        preparation: use its offset and scale.
    """
    remaining = iter(parts)
    train = next(remaining)
    offset, scale, facts["raw_unit"] = standardise(train.x, train.lengths)
    if keep_values:
        kept = (replace(part, x=part.x.float()) for part in chain([train], remaining))
        return in_parts(task, kept, **facts)
    if preparation is not None:
        offset, scale = (
            torch.tensor(each, dtype=train.x.dtype) for each in (preparation.offset, preparation.scale)
        )
    raw, scaled = hashlib.sha256(), []
    for part in chain([train], remaining):
        if "fingerprint" not in facts:
            raw.update(part.x.contiguous().numpy().data)
        scaled.append(replace(part, x=rescale(part.x, offset, scale)))
    facts.setdefault("fingerprint", raw.hexdigest())
    return in_parts(task, scaled, offset=offset, scale=scale, **facts)


def standardise(x: Tensor, lengths: Tensor | None = None) -> tuple[Tensor, Tensor, float | None]:
    """Return offset and scale `(channels,)` that standardise x, in the dtype of x, and the `raw_unit` of x.

    A constant channel has scale 1, so that it becomes 0 and not NaN. The offset of whole numbers is a whole
    number, which an integer network subtracts exactly.

    >>> standardise(torch.tensor([[[1.0, 5.0], [3.0, 5.0]]]))
    (tensor([2., 5.]), tensor([1., 1.]), 1.0)
    """
    values = x.numpy()
    mean, deviation = channel_statistics(values, None if lengths is None else lengths.numpy())
    scale = torch.from_numpy(deviation).float()  # convert before comparing: float32 may round it to 0
    offset = torch.from_numpy(np.rint(mean) if _is_whole(values) else mean)
    scale = torch.where(scale > 0, scale, 1.0)
    return offset.to(x.dtype), scale.to(x.dtype), raw_unit(values, deviation)


def with_standard_targets(splits: Splits, preparation: Preparation | None) -> Splits:
    """Return a regression task whose targets `(n, targets)` are standardised over the training part.

    Initial weights, learning rates and integer formats suit outputs with a magnitude of about 1.
    """
    if preparation is None:
        assert splits.train.y is not None
        mean, deviation = channel_statistics(splits.train.y.double().numpy()[:, None])
        units = TargetScale(tuple(mean.tolist()), tuple(np.where(deviation > 0, deviation, 1.0).tolist()))
    elif preparation.targets is None:
        return splits
    else:
        units = preparation.targets

    def scaled(part: Split) -> Split:
        y, last = (None if each is None else units.standard(each) for each in (part.y, part.last))
        return replace(part, y=y, last=last)

    train, validation, test = map(scaled, (splits.train, splits.validation, splits.test))
    return replace(splits, train=train, validation=validation, test=test, targets=units)


def channel_statistics(
    x: NDArray[Any],
    lengths: NDArray[np.int64] | None = None,
    weights: Floats | None = None,
    transform: Callable[[NDArray[Any]], NDArray[Any]] = lambda values: values,
) -> tuple[Floats, Floats]:
    """Return each channel's mean and standard deviation `(channels,)`; the deviation is 0 if it is constant.

    Computed in units of a power of two near the largest value, so that no square underflows. The deviation is
    taken about the mean, so that a large offset costs no precision.

    Args:
        lengths: `(n,)`, number of valid steps of each row; None for all.
        weights: `(n,)`, weight of each row; None for 1.
        transform: applied to the values first; maps 0 to 0.

    >>> channel_statistics(np.array([[[1.0, 5.0], [3.0, 5.0]]]))
    (array([2., 5.]), array([1., 0.]))
    """
    steps = np.full(len(x), x.shape[1]) if lengths is None else lengths
    shares = np.ones(len(x)) if weights is None else weights
    shares = shares / float(shares @ steps)
    largest, mean, missed, variance = np.zeros((4, x.shape[2]))
    for part in row_blocks(x):
        largest = np.maximum(largest, np.abs(transform(x[part])).max((0, 1)))
    unit = np.exp2(np.frexp(largest)[1] - 1.0)
    for part in row_blocks(x):
        mean += np.einsum("n,ntc->c", shares[part], transform(x[part]) / unit)
    for part in row_blocks(x):
        apart = transform(x[part]) / unit - mean
        if lengths is not None:
            apart[np.arange(x.shape[1]) >= lengths[part, None]] = 0.0
        missed += np.einsum("n,ntc->c", shares[part], apart)
        variance += np.einsum("n,ntc,ntc->c", shares[part], apart, apart)
    mean, deviation = mean + missed, np.sqrt(np.maximum(variance - missed**2, 0.0))
    return mean * unit, np.where(deviation > CONSTANT * np.abs(mean), deviation, 0.0) * unit


def raw_unit(x: NDArray[Any], details: Floats) -> float | None:
    """Return the value of one int32 raw code of the sensor that recorded `x`.

    The unit is 1 if x consists of whole numbers, so that codes equal the values in the training file.
    Otherwise it is 2^-UNIT_BITS times the least positive value in `details`, as a power of two. If int32
    could not hold the largest value, it is larger, up to 2^-LEAST_BITS; None if that does not suffice.

    >>> raw_unit(np.array([[[3.0], [-7.0]]]), np.array([5.0]))
    1.0
    >>> raw_unit(np.array([[[0.5], [2.5]]]), np.array([1.0]))
    0.000244140625
    >>> raw_unit(np.array([[[0.5, 1e10], [2.5, 3e10]]]), np.array([1.0, 1e10])) is None
    True
    """
    if _is_whole(x):
        return 1.0
    largest = max(float(np.abs(x[part]).max()) for part in row_blocks(x))
    varying = details[details > 0]
    fine = math.frexp(varying.min() if len(varying) else 1.0)[1] - 1 - UNIT_BITS
    coarse = math.frexp(largest)[1] - 31
    return math.ldexp(1.0, max(fine, coarse)) if coarse <= fine + UNIT_BITS - LEAST_BITS else None


def scaled_alike(x: Tensor, preparation: Preparation) -> Tensor:
    """Standardise values of new data as in an earlier preparation."""
    if preparation.offset is None or preparation.scale is None:
        return x
    offset, scale = (
        torch.tensor(each, dtype=torch.float64) for each in (preparation.offset, preparation.scale)
    )
    return rescale(x, offset, scale)


def rescale(x: Tensor, offset: Tensor, scale: Tensor) -> Tensor:
    """Return (x - offset) / scale in float32, computed in the dtype of x."""
    values, low, unit = x.numpy(), offset.to(x.dtype).numpy(), scale.to(x.dtype).numpy()
    scaled = np.empty(values.shape, np.float32)
    for part in row_blocks(values):
        scaled[part] = (values[part] - low) / unit
    return torch.from_numpy(scaled)


def _is_whole(x: NDArray[Any]) -> bool:
    """Return whether all values are whole numbers within int32."""
    return all(
        bool((x[part] == np.rint(x[part])).all()) and float(np.abs(x[part]).max()) <= RAW_LIMIT
        for part in row_blocks(x)
    )


def row_blocks(x: NDArray[Any]) -> Iterator[slice]:
    """Yield blocks of rows, so that temporary arrays stay small."""
    rows = max(1, VALUES_AT_ONCE // max(1, x[:1].size))
    return (slice(start, start + rows) for start in range(0, len(x), rows))
