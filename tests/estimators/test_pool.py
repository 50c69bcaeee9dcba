"""Pools of features: the scales drawn, the quantiles of thresholds, and the counts and costs of parts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.estimators import pool as pool_module
from hadamrnn.estimators.counted import FitPlan, SeriesEncoding, _costs
from hadamrnn.estimators.pool import (
    DIFFERENCES,
    FEWEST_STEPS,
    GOLDEN,
    IN_THIRDS,
    KINDS,
    LARGEST_STATE,
    LEVELS,
    MAX_SHIFT,
    SAMPLES,
    THRESHOLDS,
    Pool,
    draw_pool,
)
from hadamrnn.reservoir import Reservoir, feature_steps, sampled_states
from hadamrnn.reservoir.cost import reservoir_size
from hadamrnn.reservoir.description import BLOCK
from tests.reservoir_models import draw_codes, draw_features, draw_network, draw_units

NETWORK = Reservoir(input_size=3, output_size=2)
TIME = 48


def random_pool(seed: int, **given: Any) -> tuple[np.random.Generator, Pool]:
    rng = np.random.default_rng(seed)
    network = draw_network(rng, **given)
    features = draw_features(rng, network)
    return rng, Pool(draw_units(rng, network), features, rng.integers(0, len(KINDS), len(features)))


def noise(n: int = 6, time: int = TIME, seed: int = 0) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """Return noise in three channels, the first half of every series twice as loud."""
    rng = np.random.default_rng(seed)
    loud = np.where(np.arange(time) < time // 2, 40, 20)[None, :, None]
    return (rng.normal(size=(n, time, 3)) * loud).astype(np.int32), np.full(n, time)


@pytest.fixture(scope="module")
def drawn() -> Pool:
    codes, lengths = noise()
    return draw_pool(codes, lengths, np.ones(len(codes)), NETWORK, seed=0)


@pytest.mark.parametrize("seed", range(6))
def test_a_part_of_a_pool_counts_what_the_whole_pool_counts(seed: int) -> None:
    rng, pool = random_pool(seed)
    codes, lengths = draw_codes(rng, pool.network, 5)
    kept = rng.random(len(pool.features)) < 0.2
    kept[rng.integers(len(kept))] = True

    part = pool.keep(kept)

    np.testing.assert_array_equal(part.shares(codes, lengths), pool.shares(codes, lengths)[:, kept])
    assert np.unique(part.features.unit // BLOCK).tolist() == list(range(part.network.num_blocks))
    assert all(part.features.per_group)
    assert part.kind.tolist() == pool.kind[kept].tolist()
    names = [name for name, stays in zip(pool.names(), kept, strict=True) if stays]
    assert [name.split(", unit")[0] for name in part.names()] == [n.split(", unit")[0] for n in names]
    assert [name.split(" > ")[1] for name in part.names()] == [name.split(" > ")[1] for name in names]


@pytest.mark.parametrize("seed", range(4))
def test_a_share_is_one_where_every_step_counts_however_series_are_divided(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, pool = random_pool(seed, input_bits=2)
    codes, lengths = draw_codes(rng, pool.network, 70)
    shares = pool.shares(codes, lengths)
    lowest = replace(pool.features, threshold=np.full(len(pool.features), -(1 << 15), np.int16))
    steps = feature_steps(pool.network, lowest, lengths)

    assert (replace(pool, features=lowest).shares(codes, lengths) == (steps > 0)).all()
    assert ((0 <= shares) & (shares <= 1)).all() and ((0 < shares) & (shares < 1)).any()
    monkeypatch.setattr(pool_module, "PART_VALUES", 1)
    np.testing.assert_array_equal(pool.shares(codes, lengths), shares)


def test_every_scale_has_its_share_of_the_units_and_channels(drawn: Pool) -> None:
    """Windows of 48 samples have at least six steps at the scales up to 8."""
    groups = drawn.network.groups
    found = {
        kind.name: [
            (g.width, g.dilation, g.blocks)
            for g in groups
            if (g.is_difference, g.segments) == (kind.is_difference, kind.segments)
        ]
        for kind in KINDS
    }
    scales = [(1, 1), (1, 2), (1, 4), (2, 4)]
    assert {name: [(w, d) for w, d, _ in sizes] for name, sizes in found.items()} == {
        kind.name: scales for kind in KINDS
    }
    for kind in KINDS:
        assert sum(blocks for *_, blocks in found[kind.name]) * BLOCK == kind.units
        assert drawn.of_kinds((kind,)).sum() == kind.units * THRESHOLDS * kind.segments
    assert np.ptp(np.bincount(drawn.units.channel)) <= 1
    assert set(drawn.units.signs) == {-1, 1} and abs(drawn.units.input_weight_int).max() == 7
    assert abs(drawn.units.signs.mean()) < 0.1
    assert abs(drawn.units.input_weight_int.mean()) < 0.3
    assert 3.0 < drawn.units.input_weight_int.std() < 4.0


def test_a_scale_needs_six_steps_and_thirds_need_windows_of_one_length() -> None:
    def scales(lengths: list[int]) -> tuple[set[int], bool]:
        codes, _ = noise(len(lengths), max(lengths))
        pool = draw_pool(codes, np.array(lengths), np.ones(len(lengths)), NETWORK, 0)
        return {group.width * group.dilation for group in pool.network.groups}, pool.network.has_thirds

    assert FEWEST_STEPS == 6
    assert scales([12, 12]) == ({1, 2}, True)
    assert scales([11, 11]) == ({1}, True)
    assert scales([10, 14]) == ({1, 2}, False)
    assert scales([3, 3])[0] == {1}
    assert scales([1, 1]) == ({1}, False)  # one sample has neither differences nor thirds


def test_thresholds_lie_at_quantiles_that_the_golden_ratio_spreads(drawn: Pool) -> None:
    codes, lengths = noise()
    shares = drawn.shares(codes, lengths).mean(0)
    first = 0
    for group, part, count in zip(
        drawn.network.groups, drawn.network.unit_slices, drawn.features.per_group.tolist(), strict=True
    ):
        if group.segments == 1:
            numbers = first + 1 + np.arange(count).reshape(-1, THRESHOLDS)
            level = np.sort(LEVELS[0] + (LEVELS[1] - LEVELS[0]) * (GOLDEN * numbers % 1), axis=1)
            above = shares[first : first + count].reshape(-1, THRESHOLDS)
            steps = group.counted_steps(TIME) * len(codes)
            assert (above <= 1 - level + 1e-5).all()
            assert np.quantile(1 - level - above, 0.9) <= 1.01 / steps  # except equal states
            states = sampled_states(drawn.units, codes, 1)[drawn.network.unit_slices.index(part)]
            largest = np.abs(states[:, : group.counted_steps(TIME)].astype(int)).max()
            assert 0.49 * LARGEST_STATE < largest <= 1.02 * LARGEST_STATE or group.input_shift == MAX_SHIFT
        first += count


def test_a_weight_counts_as_repetitions_in_the_thresholds() -> None:
    codes, _ = noise(2, 12)
    lengths = np.array([12, 12])
    weighted = draw_pool(codes, lengths, np.array([2.0, 1.0]), NETWORK, 3)
    repeated = draw_pool(codes[[0, 0, 1]], lengths[[0, 0, 1]], np.ones(3), NETWORK, 3)
    plain = draw_pool(codes, lengths, np.ones(2), NETWORK, 3)

    assert (weighted.features.threshold == repeated.features.threshold).all()
    assert (weighted.features.threshold != plain.features.threshold).any()


def test_samples_beyond_a_series_do_not_move_thresholds() -> None:
    codes, lengths = noise(3, 20)
    lengths = np.array([20, 20, 14])
    other = codes.copy()
    other[2, 14:] = 2000

    one, two = (draw_pool(each, lengths, np.ones(3), NETWORK, 3) for each in (codes, other))

    assert (one.features.threshold == two.features.threshold).all() and one.network == two.network


def test_a_name_says_the_channel_kind_scale_and_threshold(drawn: Pool) -> None:
    names = drawn.names()
    for index in range(0, len(names), 97):
        unit, threshold = int(drawn.features.unit[index]), int(drawn.features.threshold[index])
        kind = KINDS[drawn.kind[index]]
        assert f"channel {drawn.units.channel[unit // BLOCK]}, " in names[index]
        assert f", unit {unit} > {threshold}" in names[index]
        assert ("differences" in names[index]) == (kind != SAMPLES)
        third = f"third {drawn.features.segment[index] + 1}"
        assert names[index].endswith(third) == (kind == IN_THIRDS)
    assert all(f"differences at scale {scale}," in " ".join(names) for scale in (1, 2, 4, 8))


@pytest.mark.parametrize("output_size", [1, 5])
@pytest.mark.parametrize("max_ram", [None, 1000])
def test_pruning_weighs_what_a_feature_and_a_block_take(max_ram: int | None, output_size: int) -> None:
    """Features without thirds, in groups that remain: storage and, if it is limited, state."""
    codes, lengths = noise(3)
    pool = draw_pool(codes, lengths, np.ones(3), Reservoir(input_size=3, output_size=output_size), 0)
    pool = pool.keep(pool.of_kinds((DIFFERENCES, SAMPLES)))
    plan = FitPlan(pool.network, SeriesEncoding(3, 1.0, 1.0), [1000], max_ram)
    costs = _costs(pool, plan)

    def taken(kept: NDArray[np.bool_]) -> float:
        size = reservoir_size(pool.keep(kept).features)
        return size.bits / 8 + (size.state_bytes if max_ram else 0)

    everything = np.ones(len(pool.features), np.bool_)
    assert costs.of_block.shape == (pool.network.num_blocks,)
    for block in (0, 40, 100, pool.network.num_blocks - 1):
        without = costs.block != block
        features = (~without).sum()
        assert features == BLOCK * THRESHOLDS
        assert taken(everything) - taken(without) == costs.of_block[block] + features * costs.of_feature
        one = everything.copy()
        one[np.flatnonzero(~without)[0]] = False
        assert taken(everything) - taken(one) == costs.of_feature
