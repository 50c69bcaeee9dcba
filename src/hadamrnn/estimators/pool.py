"""Draw a pool of random units at several time scales, with thresholds on their states, to select from.

Every scale has units that read differences, units that read the samples themselves, and units that are
counted separately in each third of the window. Start reading at `draw_pool`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.estimators.target import spread_out
from hadamrnn.reservoir import (
    Features,
    Group,
    Reservoir,
    Units,
    feature_counts,
    feature_steps,
    sampled_states,
)
from hadamrnn.reservoir.description import BLOCK, MAX_LENGTH, THIRDS

Codes = NDArray[np.int32]
Lengths = NDArray[np.int64]
Shares = NDArray[np.float32]

SCALES = (1, 2, 4, 8, 16, 32, 64, 128)  # samples between consecutive states of one phase
FEWEST_STEPS = 6  # fewest steps per window for a scale to be used
MOST_PHASES = 4
THRESHOLDS = 4  # thresholds per unit
GOLDEN = (5**0.5 - 1) / 2
LEVELS = 0.01, 0.99  # quantiles of the states between which thresholds lie
THRESHOLD_SERIES, THRESHOLD_STATES = 256, 2500  # most series and states for the thresholds' quantiles
LARGEST_STATE = 12_000  # U is scaled so that states for thresholds reach this; others may be larger
MAX_SHIFT = 8
SPREAD = 3.5  # standard deviation of U
LANES = 32  # rows are processed in multiples of this, which suits the kernels' vectors
PART_VALUES = 1 << 19  # samples or features processed at once


@dataclass(frozen=True)
class Kind:
    """A kind of feature: the inputs of its units, and the parts of the window in which steps are counted."""

    name: str
    units: int
    is_difference: bool = True
    segments: int = 1


DIFFERENCES = Kind("differences", 1024)
SAMPLES = Kind("samples", 384, is_difference=False)
IN_THIRDS = Kind("differences in thirds", 128, segments=THIRDS)
KINDS = (DIFFERENCES, IN_THIRDS, SAMPLES)


@dataclass(frozen=True, eq=False)
class Pool:
    """A pool of units and features, with the index of each feature's kind in `KINDS`."""

    units: Units
    features: Features
    kind: NDArray[np.int64]

    @property
    def network(self) -> Reservoir:
        return self.units.network

    def shares(self, codes: Codes, lengths: Lengths) -> Shares:
        """Return the fraction of steps that each feature counts, `(n, features)`."""
        found = np.empty((len(codes), len(self.features)), np.float32)
        for part in _parts(codes, len(self.features)):
            counts = feature_counts(self.units, self.features, codes[part], lengths[part], threads=1)
            steps = feature_steps(self.network, self.features, lengths[part])
            np.divide(counts, np.maximum(steps, 1), out=found[part])
        return found

    def of_kinds(self, kinds: tuple[Kind, ...]) -> NDArray[np.bool_]:
        """Return which features are of these kinds."""
        return np.isin(self.kind, [KINDS.index(kind) for kind in kinds])

    def names(self) -> list[str]:
        """Return a description of each feature."""
        network, found = self.network, []
        groups = np.repeat(np.arange(len(network.groups)), [group.units for group in network.groups])
        for unit, threshold, segment in zip(
            *(
                array.tolist()
                for array in (self.features.unit, self.features.threshold, self.features.segment)
            ),
            strict=True,
        ):
            group = network.groups[groups[unit]]
            what = "differences" if group.is_difference else "samples"
            third = f", third {segment + 1}" if group.segments > 1 else ""
            channel = self.units.channel[unit // BLOCK]
            scale = group.width * group.dilation
            found.append(f"channel {channel}, {what} at scale {scale}, unit {unit} > {threshold}{third}")
        return found

    def keep(self, kept: NDArray[np.bool_]) -> Pool:
        """Return the pool with only these features, without blocks and groups that have none."""
        network, features = self.network, self.features
        unit = features.unit[kept]
        blocks = np.unique(unit // BLOCK)
        groups = []
        for group, part in zip(network.groups, network.unit_slices, strict=True):
            own = int(((blocks * BLOCK >= part.start) & (blocks * BLOCK < part.stop)).sum())
            groups += [replace(group, blocks=own)] if own else []
        smaller = replace(network, groups=tuple(groups))
        rows = (blocks[:, None] * BLOCK + np.arange(BLOCK)).ravel()
        units = Units(
            smaller,
            self.units.channel[blocks],
            self.units.signs[rows],
            self.units.input_weight_int[rows],
        )
        moved = np.searchsorted(blocks, unit // BLOCK) * BLOCK + unit % BLOCK
        found = Features(smaller, moved, features.threshold[kept], features.segment[kept])
        return Pool(units, found, self.kind[kept])


def draw_pool(
    codes: Codes, lengths: Lengths, weights: NDArray[np.float64], network: Reservoir, seed: int
) -> Pool:
    """Draw a pool for series like these.

    Args:
        codes, lengths, weights: series whose states determine the thresholds, which are quantiles.
        network: sizes of input and output, weight_bits and input_bits.
    """
    rng = np.random.default_rng(seed)
    some = spread_out(torch.from_numpy(weights), THRESHOLD_SERIES).numpy()
    series = codes[some], lengths[some], weights[some]
    base = replace(network, groups=(Group(),), seq_length=min(MAX_LENGTH, codes.shape[1]))
    pools: list[Pool] = []
    blocks = features = 0
    for group, kind in _groups(lengths):
        channels = (blocks + np.arange(group.blocks)) % network.input_size
        signs = 2 * rng.integers(0, 2, group.units) - 1
        weight = np.clip(np.rint(SPREAD * rng.standard_normal(group.units)), -7, 7).astype(np.int8)
        units = Units(replace(base, groups=(group,)), channels, signs, weight)
        pools.append(_with_thresholds(units, kind, series, features))
        blocks, features = blocks + group.blocks, features + len(pools[-1].features)
    return _joined(pools)


def _groups(lengths: Lengths) -> Iterator[tuple[Group, Kind]]:
    """Yield the groups with enough steps in windows of these lengths."""
    typical, longest = float(lengths.mean()), int(lengths.max())
    scales = [scale for scale in SCALES if scale * FEWEST_STEPS <= typical] or [1]
    for kind in KINDS:
        for scale in scales:
            dilation = min(scale, MOST_PHASES)
            blocks = max(1, round(kind.units / BLOCK / len(scales)))
            group = Group(scale // dilation, dilation, kind.is_difference, kind.segments, blocks=blocks)
            is_whole = kind.segments == 1 or lengths.min() == longest
            if is_whole and group.counted_steps(longest) >= kind.segments:
                yield group, kind


def _with_thresholds(
    units: Units, kind: Kind, series: tuple[Codes, Lengths, NDArray[np.float64]], first: int
) -> Pool:
    """Return one group as a pool, with states scaled to 16 bits and thresholds at their quantiles.

    Args:
        first: index of this group's first feature, from which the golden ratio spreads quantile levels.
    """
    (group,) = units.network.groups
    codes, lengths, weights = series
    ends = group.counted_steps(lengths)
    every = max(1, int(ends.sum()) // THRESHOLD_STATES)
    (states,) = sampled_states(units, codes, every)
    counted = np.arange(states.shape[1]) * every < ends[:, None]
    largest = int(
        np.abs(states.astype(np.int32)).max(axis=(0, 1), initial=0, where=counted[:, :, None]).max()
    )
    shift = int(np.clip(np.log2(LARGEST_STATE / max(largest, 1)), 0, MAX_SHIFT))
    if shift:
        group = replace(group, input_shift=shift)
        units = replace(units, network=replace(units.network, groups=(group,)))
        (states,) = sampled_states(units, codes, every)
    of_state = np.broadcast_to(weights[:, None], counted.shape)[counted]
    values = states[counted]
    order = np.argsort(values, axis=0, kind="stable")
    totals = np.cumsum(of_state[order], axis=0)
    numbers = first + 1 + np.arange(group.units * THRESHOLDS).reshape(-1, THRESHOLDS)
    levels = LEVELS[0] + (LEVELS[1] - LEVELS[0]) * (GOLDEN * numbers % 1)
    thresholds = np.empty(levels.shape, np.int16)
    for unit, level in enumerate(levels):
        place = np.searchsorted(totals[:, unit], level * totals[-1, unit])
        thresholds[unit] = values[order[np.minimum(place, len(values) - 1), unit], unit]
    thresholds.sort(axis=1)
    of_unit = np.repeat(np.arange(group.units), THRESHOLDS * group.segments)
    segment = np.tile(np.repeat(np.arange(group.segments), THRESHOLDS), group.units)
    threshold = np.repeat(thresholds[:, None], group.segments, axis=1).ravel()
    features = Features(units.network, of_unit, threshold, segment)
    return Pool(units, features, np.full(len(of_unit), KINDS.index(kind)))


def _joined(pools: list[Pool]) -> Pool:
    """Join pools into one with all of their groups."""
    network = replace(
        pools[0].network, groups=tuple(group for pool in pools for group in pool.network.groups)
    )
    units = Units(
        network,
        *(
            np.concatenate([getattr(pool.units, name) for pool in pools])
            for name in ("channel", "signs", "input_weight_int")
        ),
    )
    starts = [part.start for part in network.unit_slices]
    unit = [pool.features.unit + start for pool, start in zip(pools, starts, strict=True)]
    features = Features(
        network,
        np.concatenate(unit),
        np.concatenate([pool.features.threshold for pool in pools]),
        np.concatenate([pool.features.segment for pool in pools]),
    )
    return Pool(units, features, np.concatenate([pool.kind for pool in pools]))


def _parts(codes: Codes, features: int) -> Iterator[slice]:
    """Yield slices of a few series at a time, so that temporary arrays stay small."""
    rows = max(LANES, PART_VALUES // max(codes[0].size, features) // LANES * LANES)
    return (slice(start, start + rows) for start in range(0, len(codes), rows))
