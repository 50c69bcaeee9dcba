"""Select features of a pool within limits, by repeating a ridge regression without the least useful ones.

Every round removes the blocks with the smallest squared coefficients per unit of cost, then the features with
the smallest ones. Rounds do not depend on the limits, so a smaller network has a subset of the features of a
larger one. Start reading at `prune`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.estimators.pool import Shares
from hadamrnn.estimators.target import Target

Mask = NDArray[np.bool_]
Fits = Callable[[Mask], bool]
ROUND = 0.08  # fraction of blocks and of features removed per round
LEAST_SPREAD = 1e-6
COLUMNS = 512  # features processed at once
HALVINGS = 7  # bisection steps in the last round, to approach the limit


@dataclass(frozen=True, eq=False)
class Costs:
    """The cost of a pool's features: bytes of each block `(blocks,)`, and of a feature."""

    block: NDArray[np.int64]  # block of each feature
    of_block: NDArray[np.float64]
    of_feature: float


@dataclass(frozen=True, eq=False)
class PoolRows:
    """The features of a pool, scaled as rows of a ridge regression, and the target of their series.

    Args:
        z: `(n, features)`, features of unit spread times the square root of each series' weight.
        varying: mask of the features that are not constant.
    """

    z: Tensor
    varying: Mask
    target: Target

    @classmethod
    def of(cls, shares: Shares, target: Target) -> PoolRows:
        """Standardise fractions `(n, features)` in place, because they may take most of a fit's memory."""
        z, root = torch.from_numpy(shares), target.weights.sqrt()[:, None]
        varying = np.zeros(z.shape[1], np.bool_)
        for own, part in zip(
            z.split(COLUMNS, 1), np.split(varying, range(COLUMNS, len(varying), COLUMNS)), strict=True
        ):
            # In float64: with a rounded mean, a constant feature would appear to vary and distort the errors.
            centred = own.double()
            centred -= target.mean(centred)
            spread = target.mean(centred.square()).sqrt()
            part[:] = (spread > LEAST_SPREAD).numpy()
            own[:] = centred * (root / torch.where(spread > LEAST_SPREAD, spread, torch.inf))
        return cls(z, varying, target)

    def add_gram(self, gram: Tensor, features: Mask, sign: int = 1) -> None:
        """Add the Gram matrix of some features' rows, in float64, or subtract it."""
        for part in self._columns(features):
            own = part.double()
            gram.addmm_(own, own.T, alpha=sign)

    def use(self, kept: Mask, gram: Tensor, penalty: float) -> NDArray[np.float64]:
        """Return the sum over outputs of the squared coefficients of each kept feature."""
        target = self.target
        y = target.weights.sqrt()[:, None] * (target.values - target.mean(target.values))
        matrix = gram.clone()
        matrix.diagonal().add_(penalty * target.weight)
        solved = torch.cholesky_solve(y, torch.linalg.cholesky(matrix)).float()
        squares = [(part.T @ solved).double().square().sum(1) for part in self._columns(kept)]
        return torch.cat(squares).numpy()

    def _columns(self, kept: Mask) -> Iterator[Tensor]:
        return (self.z[:, part] for part in torch.from_numpy(np.flatnonzero(kept)).split(COLUMNS))


def prune(
    rows: PoolRows, kept: Mask, gram: Tensor, penalty: float, costs: Costs, limits: Sequence[Fits]
) -> list[Mask]:
    """Return which features remain within each limit.

    Args:
        rows: rows of all features.
        kept: features to start from.
        gram: Gram matrix of the rows of these features; overwritten.
        penalty: penalty of the ridge regressions.
        costs: costs of a block and of a feature.
        limits: functions that return whether the remaining features fit, each stricter than the one before.
    """
    kept, found = rows.varying & kept, []
    if not kept.any():
        kept[0] = True
    ranking: _Ranking | None = None
    for fits in limits:
        while not fits(kept):
            ranking = ranking or _Ranking(kept, rows.use(kept, gram, penalty), costs)
            fewer = ranking.without(ROUND)
            if fits(fewer) or fewer.sum() == kept.sum():
                break
            rows.add_gram(gram, kept & ~fewer, -1)
            kept, ranking = fewer, None
        found.append(kept if ranking is None or fits(kept) else _most(ranking, fits))
    return found


def _most(ranking: _Ranking, fits: Fits) -> Mask:
    """Remove as few features as possible to meet the limit, and return the remaining ones."""
    low, high = 0.0, ROUND
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(ranking.without(middle)) else (middle, high)
    return ranking.without(high)


class _Ranking:
    """The features and blocks of a network, sorted from least to most useful."""

    def __init__(self, kept: Mask, use: NDArray[np.float64], costs: Costs) -> None:
        self._kept, self._places = kept, np.flatnonzero(kept)
        names, self._block = np.unique(costs.block[kept], return_inverse=True)
        spent = costs.of_block[names] + np.bincount(self._block) * costs.of_feature
        self._blocks = np.argsort(np.bincount(self._block, use) / spent, kind="stable")
        self._features = np.argsort(use, kind="stable")

    def without(self, share: float) -> Mask:
        """Return which features remain after removing this fraction of the blocks, then of the features.

        At least one of each is removed, but never the last one.
        """
        gone = np.zeros(len(self._blocks), np.bool_)
        gone[self._blocks[: int(share * len(gone))]] = True
        stays = ~gone[self._block]
        order = self._features[stays[self._features]]
        stays[order[: min(len(order) - 1, max(1, int(share * len(order))))]] = False
        kept = self._kept.copy()
        kept[self._places[~stays]] = False
        return kept
