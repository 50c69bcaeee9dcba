"""Pruning: rows of unit spread, ridge coefficients, and the order of removal of blocks and features."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.estimators.pruning import COLUMNS, ROUND, Costs, Fits, Mask, PoolRows, prune
from hadamrnn.estimators.target import ValueTarget
from hadamrnn.hadamard.orders import hadamard_matrix

SERIES = 64
COLUMNS_OF_H = np.asarray(hadamard_matrix(SERIES), np.float32)[:, 1:]  # orthogonal, of mean 0 and spread 1


def rows_of(
    shares: NDArray[np.float32], values: NDArray[np.float64], weights: NDArray[np.float64]
) -> PoolRows:
    target = ValueTarget(torch.from_numpy(values), torch.from_numpy(weights), torch.arange(len(values)))
    return PoolRows.of(shares.copy(), target)


def orthogonal(coefficients: list[float]) -> PoolRows:
    """Return rows of orthogonal features whose ridge coefficients are proportional to these."""
    shares = COLUMNS_OF_H[:, : len(coefficients)]
    values = shares.astype(np.float64) @ np.array(coefficients)[:, None]
    return rows_of(shares, values, np.ones(SERIES))


def gram_of(rows: PoolRows, kept: Mask) -> Tensor:
    gram = torch.zeros(len(rows.z), len(rows.z), dtype=torch.float64)
    rows.add_gram(gram, kept)
    return gram


def pruned(rows: PoolRows, costs: Costs, *limits: Fits) -> list[NDArray[np.intp]]:
    """Return the indices of the features that remain within each limit."""
    everything = np.ones(rows.z.shape[1], np.bool_)
    masks = prune(rows, everything, gram_of(rows, everything), 0.1, costs, limits)
    return [np.flatnonzero(mask) for mask in masks]


def at_most(count: int) -> Fits:
    return lambda kept: bool(kept.sum() <= count)


def test_rows_have_weighted_mean_zero_and_spread_one_and_constants_do_not_vary() -> None:
    rng = np.random.default_rng(0)
    shares = rng.normal(5.0, 3.0, (30, 2 * COLUMNS + 3)).astype(np.float32)
    shares[:, [7, COLUMNS, 2 * COLUMNS + 2]] = 0.25
    weights = rng.integers(0, 4, 30).astype(np.float64)

    rows = rows_of(shares, rng.normal(size=(30, 1)), weights)

    constant = np.isin(np.arange(shares.shape[1]), [7, COLUMNS, 2 * COLUMNS + 2])
    assert (rows.varying == ~constant).all() and (rows.z[:, constant] == 0).all()
    z = rows.z[:, ~constant].double()
    torch.testing.assert_close(
        z.square().sum(0), torch.full((z.shape[1],), weights.sum()).double(), rtol=1e-4, atol=0
    )
    root = torch.from_numpy(weights).sqrt()
    torch.testing.assert_close(root @ z, torch.zeros(z.shape[1]).double(), rtol=0, atol=1e-3)
    values = (shares - weights @ shares / weights.sum()) * np.sqrt(weights)[:, None]
    cosines = (values[:, ~constant] * z.numpy()).sum(0) / np.linalg.norm(values[:, ~constant], axis=0)
    np.testing.assert_allclose(cosines, np.sqrt(weights.sum()), rtol=1e-4)


@pytest.mark.parametrize("share", [1 / 3, 0.7, 0.999, 1.0])
def test_a_constant_does_not_vary_however_many_rows_its_mean_is_rounded_over(share: float) -> None:
    series = 399
    shares = np.full((series, 5), share, np.float32)

    rows = rows_of(shares, np.zeros((series, 1)), np.ones(series))

    assert not rows.varying.any() and (rows.z == 0).all()


def test_the_use_of_a_feature_is_its_squared_ridge_coefficient() -> None:
    rng = np.random.default_rng(1)
    weights, values = rng.uniform(0.5, 2.0, 20), rng.normal(size=(20, 2)) + 5
    rows = rows_of(rng.normal(size=(20, 30)).astype(np.float32), values, weights)
    kept = rng.random(30) < 0.7
    gram = gram_of(rows, kept)

    use = rows.use(kept, gram, 0.3)

    z = rows.z[:, kept].double().numpy()
    y = np.sqrt(weights)[:, None] * (values - weights @ values / weights.sum())
    matrix = z.T @ z + 0.3 * weights.sum() * np.eye(z.shape[1])
    np.testing.assert_allclose(use, np.square(np.linalg.solve(matrix, z.T @ y)).sum(1), rtol=1e-4)
    rows.add_gram(gram, kept, -1)
    assert gram.abs().max() < 1e-9


def test_blocks_go_by_their_use_per_byte_of_the_block_and_of_its_features() -> None:
    """One of twenty blocks is removed; every other block has a feature that is useful enough to remain."""
    block = np.arange(60) // 3
    equal = [1.0] * 60
    for costly in (0, 19):
        of_block = np.where(np.arange(20) == costly, 8.0, 1.0)
        (kept,) = pruned(orthogonal(equal), Costs(block, of_block, 0.0), at_most(57))
        assert not np.isin(np.flatnonzero(block == costly), kept).any()

    # Block 0 has one feature of use 9, block 1 five of use 4 each: 9 against 20, or 9 against 4 per feature.
    block = np.repeat(np.arange(20), [1, 5, *[3] * 18])
    use = [3.0, *[2.0] * 5, *[30.0, 30.0, 1.0] * 18]
    for costs, gone in ((Costs(block, np.ones(20), 0.0), 0), (Costs(block, np.zeros(20), 1.0), 1)):
        (kept,) = pruned(orthogonal(use), costs, lambda kept: len(np.unique(block[kept])) <= 19)
        assert sorted(set(block) - set(block[kept])) == [gone]


def test_features_go_by_their_use_and_as_few_as_the_limit_wants() -> None:
    rng = np.random.default_rng(2)
    use = rng.permutation(np.linspace(1.0, 2.0, 50))
    rows, costs = orthogonal(use.tolist()), Costs(np.zeros(50, np.int64), np.ones(1), 1.0)
    ranking = np.argsort(use)
    limits = [50, 49, 47, 30, 12, 3, 1]

    found = pruned(rows, costs, *(at_most(limit) for limit in limits))

    for kept, limit in zip(found, limits, strict=True):
        assert len(kept) == limit and set(kept) == set(ranking[50 - limit :])
    (one,) = pruned(rows, costs, at_most(0))  # never the last
    assert one.tolist() == [ranking[-1]]


def test_a_round_takes_no_more_than_its_share() -> None:
    asked: list[int] = []

    def fits(kept: Mask) -> bool:
        asked.append(int(kept.sum()))
        return False

    rows, costs = orthogonal([1.0] * 60), Costs(np.arange(60) // 3, np.ones(20), 1.0)
    pruned(rows, costs, fits)

    rounds = sorted(set(asked), reverse=True)
    assert rounds[0] == 60 and rounds[-1] == 1
    for before, after in pairwise(rounds):
        assert before - after <= max(1, int(ROUND * 20)) * 3 + max(1, int(ROUND * before))


@pytest.mark.parametrize("varies", [False, True])
def test_constant_features_are_left_out_unless_nothing_else_is_there(varies: bool) -> None:
    shares = np.full((SERIES, 4), 0.5, np.float32)
    if varies:
        shares[:, 2] = COLUMNS_OF_H[:, 0]
    rows = rows_of(shares, np.zeros((SERIES, 1)), np.ones(SERIES))

    (kept,) = pruned(rows, Costs(np.zeros(4, np.int64), np.ones(1), 1.0), at_most(4))

    assert kept.tolist() == [2 if varies else 0]
