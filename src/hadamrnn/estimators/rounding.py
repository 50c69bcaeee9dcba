"""From ridge coefficients to V on its grid, with a power of two for every feature.

    V z = sum_i code_i step 2^-e_i (f_i - m_i)

The exponent of a feature is free (a shift on the device), so it brings the largest coefficient of each
feature near the ends of the grid: few bits are then enough. Features are rounded one after the other, and
those still to come make up for what was rounded off, as far as they tell the same about the rows.
Start reading at `rounded`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from hadamrnn.bits import WeightBits
from hadamrnn.fixedpoint.integers import signed_range

MOST_APART = 10  # powers of two between exponents: an integer network holds 15, and kinds differ too
MOST_FEATURES = 2000  # of which roundings are made up for: a matrix of their square is inverted


@dataclass(frozen=True, eq=False)
class Rounded:
    """V `(outputs, features)` in units of 2^-e f, and the exponents e `(features,)`."""

    weight: Tensor
    exponents: Tensor


def rounded(coefficients: Tensor, spread: Tensor, curvature: Tensor, weight_bits: WeightBits) -> Rounded:
    """Return V on the grid of `weight_bits`.

    Args:
        coefficients: of features with unit spread, `(features, outputs)`.
        spread: of the features, infinity for constant ones.
        curvature: Z'wZ + penalty of the standardised features, `(features, features)`.
        weight_bits: None leaves V as it is.
    """
    if weight_bits is None or not coefficients.any():
        return Rounded((coefficients / spread[:, None]).T, torch.zeros_like(spread))
    lowest, highest = (-1, 1) if weight_bits == "ternary" else signed_range(int(weight_bits))
    weight, exponents, first = _scaled(coefficients / spread[:, None], lowest, highest)
    if first is None or len(spread) > MOST_FEATURES:
        return Rounded(weight.T, exponents)
    step = weight[first].min() / lowest
    # One code of a feature moves the answers by its unit times the standardised feature.
    unit = torch.where(spread.isfinite(), step * spread * torch.exp2(-exponents), 0.0)
    order = torch.argsort(unit, descending=True, stable=True)
    order = torch.cat((torch.tensor([first]), order[(order != first) & (unit[order] > 0)]))
    metric = curvature[order][:, order] * unit[order] * unit[order, None]
    codes = torch.zeros_like(weight)
    codes[order] = _successive(weight[order] / step, metric, lowest, highest)
    return Rounded(codes.T * step, exponents)


def _scaled(per_unit: Tensor, lowest: int, highest: int) -> tuple[Tensor, Tensor, int | None]:
    """Return V in units of 2^-e f, e, and the feature whose lowest entry becomes the code `lowest`.

    The step of the grid is the largest magnitude / -lowest, so one entry must reach `lowest` itself: None
    where no entry is negative. The other features stay within both ends.
    """
    reach = torch.maximum(-per_unit, per_unit * (-lowest / highest)).amax(1)
    alive = reach > 0
    exponents = -torch.where(alive, reach, 1.0).log2().ceil()
    exponents = torch.where(alive, exponents, exponents[alive].min())
    scaled = per_unit * torch.exp2(exponents)[:, None]
    free = exponents < exponents.min() + MOST_APART - 1
    largest, first = torch.where(free, -scaled.amin(1), 0.0).max(0)
    if largest <= 0:
        return scaled, exponents, None
    beyond = scaled.amax(1) > largest * ((highest + 0.5) / -lowest)
    beyond[first] = False
    exponents = exponents - beyond.to(exponents)
    exponents = exponents.clamp(max=float(exponents.min()) + MOST_APART)
    return per_unit * torch.exp2(exponents)[:, None], exponents, int(first)


def _successive(values: Tensor, metric: Tensor, lowest: int, highest: int) -> Tensor:
    """Return whole numbers q near `values` v `(features, outputs)` with a small (q - v)' metric (q - v).

    With the upper Cholesky factor R of the metric's inverse, the best answer to a rounding of feature i by d
    is to move the features j > i by d R_ij / R_ii.
    """
    inverse = torch.cholesky_inverse(torch.linalg.cholesky(metric))
    factor = torch.linalg.cholesky(inverse, upper=True)
    codes = values.clone()
    for i, row in enumerate(factor):
        whole = codes[i].round().clamp(lowest, highest)
        codes[i + 1 :] -= torch.outer(row[i + 1 :] / row[i], codes[i] - whole)
        codes[i] = whole
    return codes
