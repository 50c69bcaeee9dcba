"""Round V to the grid of an integer network, changing its outputs on data as little as possible.

Features are rounded one after another, and the remaining coefficients are adjusted to compensate. Each
feature has a power of two that fits the grid to its coefficients, so few bits suffice. Start reading at
`share_codes`.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from hadamrnn.fixedpoint.integers import signed_range

# Penalty on each standardised feature when V is rounded, because new series vary in all directions.
LEAST_CURVATURE = 0.1
MAX_EXPONENT = 15
FINER = 3  # powers of two to try for the grid of a feature; all but the first clip coefficients
MOST_FEATURES = 2000  # limit for compensating rounding errors, which inverts a matrix of this size


class Rounded(NamedTuple):
    """A rounded V `(features, outputs)`, equal to about codes * step * 2^-exponents."""

    codes: Tensor
    exponents: Tensor  # (features,), 0..15
    step: float

    @property
    def weight(self) -> Tensor:
        return self.codes * self.step * torch.exp2(-self.exponents)[:, None]


def share_codes(per_unit: Tensor, spread: Tensor, curvature: Tensor, bits: int) -> Rounded:
    """Return V rounded to this many bits.

    Args:
        per_unit: V, `(features, outputs)`.
        spread: spread of the features, infinity for constant ones.
        curvature: Z'wZ + penalty of the features of unit spread, `(features, features)`.

    >>> share_codes(torch.tensor([[1.75], [-0.5]]).double(), torch.ones(2), torch.eye(2).double(), 4)[:2]
    (tensor([[ 7.],
            [-8.]], dtype=torch.float64), tensor([0., 2.], dtype=torch.float64))
    """
    lowest, highest = signed_range(bits)
    exponents, step = _grid(per_unit, lowest, highest)
    scaled = per_unit * torch.exp2(exponents)[:, None] / step
    # One code of V changes the outputs by its unit times the standardised feature.
    unit = torch.where(spread.isfinite(), spread * torch.exp2(-exponents), 0.0)
    order = torch.argsort(unit, descending=True, stable=True)
    order = order[unit[order] > 0]
    codes = torch.zeros_like(scaled)
    if len(order) > MOST_FEATURES:
        codes[order] = scaled[order].round().clamp(lowest, highest)
    else:
        metric = curvature[order][:, order] * unit[order] * unit[order, None]
        codes[order] = successive(scaled[order], metric, lowest, highest)
    return Rounded(codes, exponents, step)


def _grid(per_unit: Tensor, lowest: int, highest: int) -> tuple[Tensor, float]:
    """Return the features' exponents and the common resolution that give the least rounding errors.

    With few bits, a finer grid that clips a feature's largest coefficients may be closer to all of them.
    """
    reach = torch.maximum(-per_unit, per_unit * (-lowest / highest)).amax(1)
    largest = reach.max()
    if largest == 0:
        return torch.zeros_like(reach), 1.0
    whole = -torch.where(reach > 0, reach, largest).log2().ceil()
    whole -= whole.min()
    step = float((reach * torch.exp2(whole)).max()) / -lowest
    exponents, least = whole, torch.full_like(whole, torch.inf)
    for finer in range(FINER):
        tried = (whole + finer).clamp(max=MAX_EXPONENT)
        unit = step * torch.exp2(-tried)[:, None]
        rounded = unit * (per_unit / unit).round().clamp(lowest, highest)
        error = (rounded - per_unit).square().sum(1)
        exponents, least = torch.where(error < least, tried, exponents), torch.minimum(error, least)
    coarsest = exponents.min()
    return exponents - coarsest, step * 2.0 ** -float(coarsest)


def successive(values: Tensor, metric: Tensor, lowest: int, highest: int) -> Tensor:
    """Round `values` v `(features, outputs)` to integers q with a small (q - v)' metric (q - v).

    If R is the upper Cholesky factor of the metric's inverse and rounding changes feature i by d, the best
    compensation is to change the features j > i by d R_ij / R_ii.
    """
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(metric))
    factor = torch.linalg.cholesky(inverse, upper=True)
    codes = values.clone()
    for i, row in enumerate(factor):
        whole = codes[i].round().clamp(lowest, highest)
        codes[i + 1 :] -= torch.outer(row[i + 1 :] / row[i], codes[i] - whole)
        codes[i] = whole
    return codes
