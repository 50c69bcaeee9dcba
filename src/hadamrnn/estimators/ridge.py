"""Ridge regression in closed form, its penalty chosen by the leave-one-out error.

    minimise   sum_i w_i |y_i - V z_i - b|^2 + penalty W |V|^2              W = sum_i w_i

Features z are centred and have unit spread, so a penalty means the same on all data. One eigendecomposition,
of the Gram matrix of the rows or of the covariance, whichever is smaller, serves all penalties, and gives the
answer to every row of a fit without it:

    y_i - out_i = (y_i - V z_i - b) / (1 - v_i h_i)       h_i = z_i' (Z'wZ + penalty W I)^-1 z_i + 1/W

A weight of 2 is the row twice, of which one is left out: v_i = min(w_i, 1). Rows that tell of each other, as
overlapping windows do, are left out together, a fold F at a time:

    y_F - out_F = (I - H_FF diag(w_F))^-1 (y_F - V z_F - b)    H_ij = z_i' (Z'wZ + penalty W I)^-1 z_j + 1/W

`Moments` add up, so rows may come in parts; then the error is that of the rows at hand.
All is float64 in torch, whose threads belong to the caller's thread: numpy's are shared by the process.
Start reading at `solve`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

# The error of the answers (n, outputs) to left-out rows, to be made small.
Criterion = Callable[[Tensor], float]

PENALTIES = tuple(10.0 ** (k / 2) for k in range(-6, 5))
CONSTANT = 1e-9  # a spread below this share of the largest mean is rounding
LEAST_SHARE = 1e-12  # of 1 - v h


@dataclass(frozen=True, eq=False)
class Rows:
    """Samples: features `(n, features)`, targets `(n, outputs)`, positive weights `(n,)`.

    `left_out` is v, how much of a row's weight is left out at once; with `folds`, a number for each row, all
    rows of the same number are.
    """

    features: Tensor
    targets: Tensor
    weights: Tensor
    left_out: Tensor
    folds: Tensor | None = None

    @classmethod
    def of(cls, features: Tensor, targets: Tensor, weights: Tensor | None = None) -> Rows:
        """Return rows of which one of weight w stands for w rows."""
        weights = features.new_ones(len(features)) if weights is None else weights
        return cls(features, targets, weights, weights.clamp(max=1.0))

    @cached_property
    def weight(self) -> float:
        return float(self.weights.sum())

    @cached_property
    def centre(self) -> tuple[Tensor, Tensor]:
        """The means of features and targets."""
        return self.weights @ self.features / self.weight, self.weights @ self.targets / self.weight


@dataclass(frozen=True, eq=False)
class Moments:
    """All that a ridge regression needs of its rows: weight, means and products about the means."""

    weight: float
    feature_mean: Tensor  # (features,)
    target_mean: Tensor  # (outputs,)
    covariance: Tensor  # sum w (f - mean)(f - mean)', (features, features)
    products: Tensor  # sum w (f - mean)(y - mean)', (features, outputs)

    @classmethod
    def of(cls, rows: Rows) -> Moments:
        feature_mean, target_mean = rows.centre
        centred = rows.features - feature_mean
        weighted = (centred * rows.weights[:, None]).T
        products = weighted @ (rows.targets - target_mean)
        return cls(rows.weight, feature_mean, target_mean, weighted @ centred, products)

    def __add__(self, other: Moments) -> Moments:
        weight = self.weight + other.weight
        share = other.weight / weight
        apart = other.feature_mean - self.feature_mean
        targets_apart = other.target_mean - self.target_mean
        between = self.weight * share
        return Moments(
            weight,
            self.feature_mean + share * apart,
            self.target_mean + share * targets_apart,
            self.covariance + other.covariance + between * torch.outer(apart, apart),
            self.products + other.products + between * torch.outer(apart, targets_apart),
        )


@dataclass(frozen=True, eq=False)
class Solution:
    """The fit `target ~ (feature - mean) / spread @ coefficients + intercept`.

    `coefficients` are `(features, outputs)`; a constant feature has spread infinity. `left_out` are the
    answers to the rows, each of a fit without it, and `error` is their criterion. `weight` is W.
    """

    mean: Tensor
    spread: Tensor
    coefficients: Tensor
    intercept: Tensor
    penalty: float
    weight: float
    left_out: Tensor
    error: float

    def predict(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.spread @ self.coefficients + self.intercept


def solve(
    rows: Rows,
    criterion: Criterion,
    penalties: Sequence[float] = PENALTIES,
    *,
    moments: Moments | None = None,
) -> Solution:
    """Return the fit with the penalty of the least error; of two equally good ones the later.

    Args:
        rows: all samples, or some of them whose error counts.
        criterion: the error of left-out answers, as `squared_error(rows)`.
        penalties: to choose from.
        moments: of all samples, if `rows` are only some of them.

    >>> x = torch.linspace(0.0, 1.0, 20, dtype=torch.float64)[:, None]
    >>> rows = Rows.of(torch.hstack([x, x**2]), 3 * x + 1)
    >>> solve(rows, squared_error(rows)).error < 1e-3
    True
    """
    count, width = rows.features.shape
    decomposed: _Gram | _Covariance
    if moments is None and count < width:
        decomposed = _Gram(rows)
    else:
        decomposed = _Covariance(rows, Moments.of(rows) if moments is None else moments)
    tried = [(criterion(decomposed.left_out(penalty)), penalty) for penalty in penalties]
    error, penalty = min(reversed(tried), key=lambda pair: pair[0])
    return Solution(
        decomposed.mean,
        decomposed.spread,
        decomposed.coefficients(penalty),
        decomposed.intercept,
        penalty,
        decomposed.weight,
        decomposed.left_out(penalty),
        error,
    )


def squared_error(rows: Rows) -> Criterion:
    """Return the mean of (y - out)^2 over outputs and rows, each row with its weight."""

    def error(left_out: Tensor) -> float:
        return float(rows.weights @ (rows.targets - left_out).square().mean(1)) / rows.weight

    return error


class _Gram:
    """sqrt(w) Z Z' sqrt(w) = Q diag(values) Q', for fewer rows than features."""

    def __init__(self, rows: Rows) -> None:
        self._rows = rows
        self.weight = rows.weight
        self.mean, self.intercept = rows.centre
        centred = rows.features - self.mean
        self.spread = _spread(rows.weights @ centred.square() / rows.weight, self.mean)
        root = rows.weights.sqrt()[:, None]
        self._z = root * centred / self.spread
        values, self._vectors = torch.linalg.eigh(self._z @ self._z.T)
        self._values = values.clamp(min=0.0)
        self._turned = self._vectors.T @ (root * (rows.targets - self.intercept))

    def left_out(self, penalty: float) -> Tensor:
        weights = self._rows.weights
        kept = self._values / (self._values + penalty * self.weight)
        fitted = self._vectors @ (kept[:, None] * self._turned) / weights.sqrt()[:, None] + self.intercept
        return _without(self._rows, fitted, self._vectors / weights.sqrt()[:, None], kept)

    def coefficients(self, penalty: float) -> Tensor:
        solved: Tensor = self._vectors @ (self._turned / (self._values + penalty * self.weight)[:, None])
        return self._z.T @ solved


class _Covariance:
    """Z'wZ = Q diag(values) Q', for fewer features than rows."""

    def __init__(self, rows: Rows, moments: Moments) -> None:
        self._rows = rows
        self.weight, self.mean, self.intercept = moments.weight, moments.feature_mean, moments.target_mean
        self.spread = _spread(moments.covariance.diag() / moments.weight, self.mean)
        values, self._vectors = torch.linalg.eigh(moments.covariance / self.spread / self.spread[:, None])
        self._values = values.clamp(min=0.0)
        self._turned = self._vectors.T @ (moments.products / self.spread[:, None])
        self._scores = (rows.features - self.mean) / self.spread @ self._vectors

    def left_out(self, penalty: float) -> Tensor:
        inverse = 1 / (self._values + penalty * self.weight)
        fitted = self._scores @ (self._turned * inverse[:, None]) + self.intercept
        return _without(self._rows, fitted, self._scores, inverse)

    def coefficients(self, penalty: float) -> Tensor:
        found: Tensor = self._vectors @ (self._turned / (self._values + penalty * self.weight)[:, None])
        return found


def _spread(variance: Tensor, mean: Tensor) -> Tensor:
    spread = variance.clamp(min=0.0).sqrt()
    return torch.where(spread <= CONSTANT * mean.abs().max(), torch.inf, spread)


def _without(rows: Rows, fitted: Tensor, scores: Tensor, factors: Tensor) -> Tensor:
    """Return the answers to rows that are left out; H = scores diag(factors) scores' + 1/W."""
    off = rows.targets - fitted
    if rows.folds is None:
        leverage = scores.square() @ factors + 1 / rows.weight
        return rows.targets - off / (1 - rows.left_out * leverage).clamp(min=LEAST_SHARE)[:, None]
    for fold in rows.folds.unique():
        some = (rows.folds == fold).nonzero()[:, 0]
        hat = scores[some] * factors @ scores[some].T + 1 / rows.weight
        off[some] = torch.linalg.solve(torch.eye(len(some)).to(hat) - hat * rows.weights[some], off[some])
    return rows.targets - off
