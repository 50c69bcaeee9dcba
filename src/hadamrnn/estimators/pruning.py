"""Select features of a pool within limits, by ridge regressions without the least useful ones.

In every round the blocks with the smallest squared coefficients per cost go, then the features with the
smallest ones. Rounds do not depend on limits, so a smaller network keeps some of the features of a larger
one. Start reading at `prune`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.estimators.pool import Shares
from hadamrnn.estimators.target import Target

Mask = NDArray[np.bool_]
Fits = Callable[[Mask], bool]
ROUND = 0.08  # of the blocks, and of the features, go in a round
LEAST_SPREAD = 1e-6
HALVINGS = 7  # bisections of the last round, to get close to the limit


@dataclass(frozen=True, eq=False)
class Costs:
    """The cost of the features of a pool: bytes of each block `(blocks,)`, and of a feature."""

    block: NDArray[np.int64]  # of each feature
    of_block: NDArray[np.float64]
    of_feature: float


def prune(shares: Shares, target: Target, penalty: float, costs: Costs, limits: Sequence[Fits]) -> list[Mask]:
    """Return which features remain within each limit.

    Args:
        shares: of the features, `(n, features)`.
        target: of these series.
        penalty: of the ridge regressions.
        costs: what block and feature are weighed against.
        limits: whether what remains is small enough; each allows less than the one before.
    """
    usefulness = _Usefulness(shares, target, penalty)
    kept, found = usefulness.varying, []
    ranking: _Ranking | None = None
    for fits in limits:
        while not fits(kept):
            ranking = ranking or _Ranking(kept, usefulness.of(kept), costs)
            fewer = ranking.without(ROUND)
            if fits(fewer) or fewer.sum() == kept.sum():
                break
            kept, ranking = fewer, None
        found.append(kept if ranking is None or fits(kept) else _most(ranking, fits))
    return found


def _most(ranking: _Ranking, fits: Fits) -> Mask:
    """Return the features that remain within the limit when as few as possible are removed."""
    low, high = 0.0, ROUND
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        low, high = (low, middle) if fits(ranking.without(middle)) else (middle, high)
    return ranking.without(high)


class _Ranking:
    """The features of a network and its blocks, the least useful ones first."""

    def __init__(self, kept: Mask, use: NDArray[np.float64], costs: Costs) -> None:
        self._kept, self._places = kept, np.flatnonzero(kept)
        names, self._block = np.unique(costs.block[kept], return_inverse=True)
        spent = costs.of_block[names] + np.bincount(self._block) * costs.of_feature
        self._blocks = np.argsort(np.bincount(self._block, use) / spent, kind="stable")
        self._features = np.argsort(use, kind="stable")

    def without(self, share: float) -> Mask:
        """Return which features remain without this share of the blocks, and then of the features.

        At least one of each goes, but never the last.
        """
        if share == 0:
            return self._kept
        gone = np.zeros(len(self._blocks), np.bool_)
        gone[self._blocks[: int(share * len(gone))]] = True
        stays = ~gone[self._block]
        order = self._features[stays[self._features]]
        stays[order[: min(len(order) - 1, max(1, int(share * len(order))))]] = False
        kept = self._kept.copy()
        kept[self._places[~stays]] = False
        return kept


class _Usefulness:
    """Squared coefficients of ridge regressions on some of the features, of unit spread.

    The Gram matrix of the rows is kept from one regression to the next, less the features that went.
    """

    def __init__(self, shares: Shares, target: Target, penalty: float) -> None:
        features, root = torch.from_numpy(shares), target.weights.sqrt()[:, None]
        weights = (target.weights / target.weight).float()
        centred = features - weights @ features
        spread = (weights @ centred.square()).sqrt()
        self.varying: Mask = (spread > LEAST_SPREAD).numpy()
        if not self.varying.any():
            self.varying[0] = True
        self._z = centred / torch.where(spread > LEAST_SPREAD, spread, torch.inf) * root.float()
        self._y = root * (target.values - target.mean(target.values))
        self._ridge = penalty * target.weight
        self._gram, self._of = torch.zeros(len(shares), len(shares)), np.zeros_like(self.varying)

    def of(self, kept: Mask) -> NDArray[np.float64]:
        """Return the sum over outputs of the squared coefficients of each feature that is kept."""
        changed = kept != self._of
        if changed.sum() < kept.sum():
            gone = self._z[:, torch.from_numpy(changed)]
            self._gram -= gone @ gone.T
        else:
            own = self._z[:, torch.from_numpy(kept)]
            self._gram = own @ own.T
        self._of = kept
        matrix = self._gram.double()
        matrix.diagonal().add_(self._ridge)
        solved = torch.cholesky_solve(self._y, torch.linalg.cholesky(matrix)).float()
        coefficients = self._z[:, torch.from_numpy(kept)].T @ solved
        use: NDArray[np.float64] = coefficients.double().square().sum(1).numpy()
        return use
