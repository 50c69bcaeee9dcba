"""Ridge regression in closed form, with the penalty chosen by leave-one-out error.

    minimise   sum_i w_i |y_i - V z_i - b|^2 + penalty W |V|^2              W = sum_i w_i

Features z are centred and have unit spread, so a penalty means the same on all data. One eigendecomposition,
of the rows' Gram matrix or of the covariance, whichever is smaller, serves all penalties. It also gives the
prediction for every fold F of rows by a fit without them:

    y_F - out_F = (I - H_FF diag(w_F))^-1 (y_F - V z_F - b)    H_ij = z_i' (Z'wZ + penalty W I)^-1 z_j + 1/W

Leave-one-out leaves out one group G of equal rows at a time (`Target.groups`), because a copy of a row would
predict it. All entries of H_GG then equal some h, and the inverse is explicit:

    out_G = V z_G + b - h sum_{i in G} w_i (y_i - V z_i - b) / (1 - h sum_{i in G} w_i)

Rows that predict each other without being equal, such as overlapping windows, are passed as `folds`.
`Moments` can be added, so rows may arrive in parts; the error is then measured on the rows passed to `solve`.
Everything is float64 in torch, which limits threads per calling thread; numpy does so for the whole process.
Start reading at `solve`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from hadamrnn.estimators.target import Target

PENALTIES = tuple(10.0 ** (k / 2) for k in range(-6, 5))
CONSTANT = 1e-9  # a spread below this fraction of the largest mean is rounding error
LEAST_EIGENVALUE = 1e-13  # relative to the largest; smaller ones are rounding errors
LEAST_SHARE = 1e-12  # lower limit on 1 - h w, which is 0 for a group that is all of the data
OWNER_FOLDS = 10  # most folds if the caller names the owners of rows
PART_VALUES = 1 << 20  # feature values processed at once


def row_parts(values: Tensor) -> Iterator[slice]:
    """Yield slices of a few rows at a time, so that temporary arrays stay small."""
    rows = max(1, PART_VALUES // values.shape[1])
    return (slice(start, start + rows) for start in range(0, len(values), rows))


@dataclass(frozen=True, eq=False)
class Moments:
    """Sufficient statistics of a ridge regression: total weight, means, and products about the means."""

    weight: float
    feature_mean: Tensor  # (features,)
    target_mean: Tensor  # (outputs,)
    covariance: Tensor  # sum w (f - mean)(f - mean)', (features, features)
    products: Tensor  # sum w (f - mean)(y - mean)', (features, outputs)

    @classmethod
    def of(cls, features: Tensor, target: Target) -> Moments:
        feature_mean, target_mean = target.mean(features), target.mean(target.values)
        width = features.shape[1]
        covariance, products = features.new_zeros(width, width), features.new_zeros(width, len(target_mean))
        for part in row_parts(features):
            centred = features[part] - feature_mean
            weighted = (centred * target.weights[part, None]).T
            products += weighted @ (target.values[part] - target_mean)
            covariance += weighted @ centred
        return cls(target.weight, feature_mean, target_mean, covariance, products)

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

    `coefficients` are `(features, outputs)`, and a constant feature has infinite spread. `held_out` has the
    predictions for the rows by fits without their group, and `error` is their error. `weight` is W. `moments`
    are the moments of all samples, if the solution needed them.
    """

    mean: Tensor
    spread: Tensor
    coefficients: Tensor
    intercept: Tensor
    penalty: float
    weight: float
    held_out: Tensor
    error: float
    moments: Moments | None

    def predict(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.spread @ self.coefficients + self.intercept


def solve(
    features: Tensor,
    target: Target,
    penalties: Sequence[float] = PENALTIES,
    *,
    folds: Tensor | None = None,
    moments: Moments | None = None,
) -> Solution:
    """Return the fit with the penalty of least error; on a tie, the later candidate.

    Args:
        features: `(n, features)` of all samples, or of those on which the error is measured.
        target: target of these samples, with positive weights.
        penalties: candidates for the penalty.
        folds: fold number of each row; a fold is left out as a whole. By default, the owners in the
            target are the folds, if there are any, otherwise single rows.
        moments: moments of all samples, if these are only some of them.

    >>> from hadamrnn.estimators.target import ValueTarget
    >>> x = torch.linspace(0.0, 1.0, 20, dtype=torch.float64)[:, None]
    >>> target = ValueTarget(3 * x + 1, torch.ones_like(x[:, 0]), torch.arange(20))
    >>> solve(torch.hstack([x, x**2]), target).error < 1e-3
    True
    """
    count, width = features.shape
    if folds is None and target.owners is not None:
        folds = target.folds(OWNER_FOLDS)
    decomposed: _Gram | _Covariance
    if moments is None and count < width:
        decomposed = _Gram(features, target, folds)
    else:
        moments = moments or Moments.of(features, target)
        decomposed = _Covariance(features, target, folds, moments)
    error, penalty = _least_error(decomposed, target, penalties)
    return Solution(
        decomposed.mean,
        decomposed.spread,
        decomposed.coefficients(penalty),
        decomposed.intercept,
        penalty,
        decomposed.weight,
        decomposed.held_out(penalty),
        error,
        moments,
    )


def cross_validate(gram: Tensor, target: Target, folds: Tensor | None = None) -> tuple[float, float]:
    """Return the least error on held-out rows and its penalty, from sqrt(w) Z Z' sqrt(w)."""
    return _least_error(_Rows(gram, target, folds), target, PENALTIES)


def _least_error(
    decomposed: _Rows | _Covariance, target: Target, penalties: Sequence[float]
) -> tuple[float, float]:
    tried = [(target.error(decomposed.held_out(penalty)), penalty) for penalty in penalties]
    return min(reversed(tried), key=lambda pair: pair[0])


class _Rows:
    """The decomposition sqrt(w) Z Z' sqrt(w) = Q diag(values) Q', for fewer rows than features."""

    def __init__(self, gram: Tensor, target: Target, folds: Tensor | None) -> None:
        self._target, self._folds = target, folds
        self.weight, self.intercept = target.weight, target.mean(target.values)
        values, self._vectors = torch.linalg.eigh(gram)
        self._values = torch.where(values > LEAST_EIGENVALUE * values[-1], values, 0.0)
        root = target.weights.sqrt()[:, None]
        self._turned = self._vectors.T @ (root * (target.values - self.intercept))

    def held_out(self, penalty: float) -> Tensor:
        weights = self._target.weights
        kept = self._values / (self._values + penalty * self.weight)
        fitted = self._vectors @ (kept[:, None] * self._turned) / weights.sqrt()[:, None] + self.intercept
        scores = self._vectors / weights.sqrt()[:, None]
        return _without(self._target, self._folds, fitted, scores, kept, self.weight)


class _Gram(_Rows):
    """Rows of features, or a matrix of their inner products."""

    def __init__(self, features: Tensor, target: Target, folds: Tensor | None) -> None:
        self.mean = target.mean(features)
        centred = features - self.mean
        self.spread = _spread(target.mean(centred.square()), self.mean)
        self._z = target.weights.sqrt()[:, None] * centred / self.spread
        super().__init__(self._z @ self._z.T, target, folds)

    def coefficients(self, penalty: float) -> Tensor:
        solved: Tensor = self._vectors @ (self._turned / (self._values + penalty * self.weight)[:, None])
        return self._z.T @ solved


class _Covariance:
    """The decomposition Z'wZ = Q diag(values) Q', for fewer features than rows."""

    def __init__(self, features: Tensor, target: Target, folds: Tensor | None, moments: Moments) -> None:
        self._target, self._folds = target, folds
        self.weight, self.mean, self.intercept = moments.weight, moments.feature_mean, moments.target_mean
        self.spread = _spread(moments.covariance.diag() / moments.weight, self.mean)
        values, self._vectors = torch.linalg.eigh(moments.covariance / self.spread / self.spread[:, None])
        self._values = values.clamp(min=0.0)
        self._turned = self._vectors.T @ (moments.products / self.spread[:, None])
        self._scores = torch.empty_like(features)
        for part in row_parts(features):
            self._scores[part] = (features[part] - self.mean) / self.spread @ self._vectors

    def held_out(self, penalty: float) -> Tensor:
        inverse = 1 / (self._values + penalty * self.weight)
        fitted = self._scores @ (self._turned * inverse[:, None]) + self.intercept
        return _without(self._target, self._folds, fitted, self._scores, inverse, self.weight)

    def coefficients(self, penalty: float) -> Tensor:
        found: Tensor = self._vectors @ (self._turned / (self._values + penalty * self.weight)[:, None])
        return found


def _spread(variance: Tensor, mean: Tensor) -> Tensor:
    spread = variance.clamp(min=0.0).sqrt()
    return torch.where(spread <= CONSTANT * mean.abs().max(), torch.inf, spread)


def _without(
    target: Target, folds: Tensor | None, fitted: Tensor, scores: Tensor, factors: Tensor, weight: float
) -> Tensor:
    """Return predictions for left-out rows; H = scores diag(factors) scores' + 1/W, W = `weight`."""
    off = target.values - fitted
    if folds is None:
        _, group = target.groups.unique(return_inverse=True)
        weighted = target.weights[:, None] * off
        totals = torch.zeros_like(weighted).index_add_(0, group, weighted)[group]
        group_weight = torch.zeros_like(target.weights).index_add_(0, group, target.weights)[group]
        squares = torch.cat([scores[part].square() @ factors for part in row_parts(scores)])
        leverage = squares + 1 / weight
        share = 1 - leverage * group_weight
        known = share > LEAST_SHARE
        moved = torch.where(known, leverage / torch.where(known, share, 1.0), 0.0)
        return fitted - moved[:, None] * totals
    for fold in folds.unique():
        some = (folds == fold).nonzero()[:, 0]
        hat = scores[some] * factors @ scores[some].T + 1 / weight
        off[some] = torch.linalg.solve(torch.eye(len(some)).to(hat) - hat * target.weights[some], off[some])
    return target.values - off
