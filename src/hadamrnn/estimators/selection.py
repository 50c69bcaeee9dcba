"""Select a random network for the data: block size, leak, feature set, and as many units as fit.

Candidates with the same block size and leak are drawn and run together, as one wide network that contains
their features. They are compared by the leave-one-out error of a ridge regression, on small data by its mean
over several draws. Large data often consist of windows of recordings, which predict their neighbours, so
whole folds are left out there. Start reading at `select`; `ParameterSpace` decides what fits.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.estimators.ridge import solve
from hadamrnn.estimators.target import Target, spread_out
from hadamrnn.fixedpoint.cost import fast_step_cost, network_size
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.overflow import bits_of_sums
from hadamrnn.fixedpoint.plan import make_plan
from hadamrnn.network import COUNTED, READOUTS, Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import forward_layers
from hadamrnn.training.models import RandomGenerator

ACTIVATION_BITS = 12
POOLED_BITS = 16  # activation bits for read-outs in which many sums of states nearly cancel
FeatureSet = tuple[tuple[str, ...], int]  # kinds of read-outs, thresholds per unit
# (block size, leak): short filters, long filters, and blocks without a leak; the smallest blocks last.
DYNAMICS = (
    (32, (2, 3, 4, 5)),
    (32, (4, 5, 6, 7)),
    (32, (0,)),
    (128, (0,)),
    (8, (1, 2)),
)
# Without a search, the first entry of each list is used.
FEATURE_SETS: tuple[FeatureSet, ...] = (
    (("last", "mean", "positive", "max"), 1),
    (("mean", "positive", "max"), 1),
    (("mean",), 3),
    (("mean", "positive"), 3),
    (("positive",), 3),
)
MOST_UNITS = 512
SEARCH_SERIES = 1000  # most series to compare candidates on; with more, folds are left out
FOLDS = 5
# On few or short series each candidate is drawn several times, because the error of a single draw is noisy.
MOST_DRAWS, DRAWN_SERIES, DRAWN_STEPS = 6, 600, 120_000
LEAST_ERROR = 1e-12
NESTED = (1, 3)  # numbers of thresholds whose quantiles are nested
THRESHOLD_SERIES = 256  # most series for the quantiles that become thresholds
THRESHOLD_STEPS = 8  # steps of each of these series, evenly spread
# A threshold exceeds its quantile by this fraction of the unit's spread. States at rest may stay at one
# value, and rounding must not decide on which side of the threshold that value is.
MARGIN = 0.002
ROW_BYTES = 1 << 22  # most bytes of inputs or states in memory at once
LANES = 16  # rows that the kernels run together


@dataclass(frozen=True)
class Cost:
    """The bytes of weights and integer biases, the operations of one step, and the RAM of a stream."""

    bytes: int
    multiplications: int
    additions: int
    ram: int  # bytes of the states and counters on a device


def state_bits(network: Network, seq_length: int = 1) -> int:
    """Return the bits of states, biases and thresholds in the integer form of an estimator's network.

    A sum over the steps of the longest series must fit into 32 bits, so very long series leave fewer bits for
    the states.
    """
    if not network.is_pooled:
        return ACTIVATION_BITS
    return min(POOLED_BITS, bits_of_sums(seq_length)) if network.counts_steps else POOLED_BITS


def network_cost(network: Network, activation_bits: int | None = None) -> Cost:
    """Return the cost of a network; `activation_bits` are `state_bits` by default.

    >>> network_cost(Network(input_size=1, hidden_size=256, output_size=2))
    Cost(bytes=803, multiplications=768, additions=2816, ram=524)
    """
    integer = _with_bits(network, activation_bits)
    step = fast_step_cost(network).total
    ram = make_plan(draw_model(integer)).state_bytes
    return Cost(network_size(integer).bytes, step.multiplications, step.additions, ram)


def check_ram(network: Network, max_ram: int | None) -> None:
    """Refuse a network whose states take more RAM than that."""
    if max_ram is not None and (ram := network_cost(network).ram) > max_ram:
        raise InputError(
            f"max_ram must be at least {ram} for {network.hidden_size} units, got {max_ram}. "
            "Allow more, or choose fewer units."
        )


def _with_bits(network: Network, activation_bits: int | None = None) -> Network:
    bits = state_bits(network) if activation_bits is None else activation_bits
    return replace(network, activation_bits=bits)


@dataclass(frozen=True)
class ParameterSpace:
    """The networks that an estimator's parameters allow; the selection chooses the fields that are None.

    Args:
        base: a network with the sizes of input and output, weight_bits and recurrence.
        max_bytes: limit on the integer network's weights, if no `hidden_size` is given.
        max_ram: limit on its states on a device, if any.
    """

    base: Network
    max_bytes: int
    max_ram: int | None = None
    hidden_size: int | None = None
    num_blocks: int | None = None
    leak: tuple[int, ...] | None = None
    readouts: tuple[str, ...] | None = None
    thresholds: int | None = None

    def candidates(self) -> list[Network]:
        """Return the networks to compare; without a search, the first is used."""
        found = [
            network
            for block_size, leak in self._dynamics()
            for features in self._feature_sets()
            if (network := self._widest(block_size, leak, features)) is not None
        ]
        if not found:
            units, leak = self._dynamics()[-1]
            size = self.hidden_size or units
            smallest = [self._network(size, size // units, leak, each) for each in self._feature_sets()]
            least = min(map(network_cost, smallest), key=lambda cost: cost.bytes)
            ram = ("", "") if self.max_ram is None else (f" and max_ram {least.ram}", f" and {self.max_ram}")
            raise InputError(
                f"max_bytes must be at least {least.bytes}{ram[0]} for {size} units, "
                f"got {self.max_bytes}{ram[1]}."
            )
        return found

    def has(self, network: Network) -> bool:
        """Whether the network fits into the limits."""
        return network_size(_with_bits(network)).bytes <= self.max_bytes and self._has_ram(network)

    def _has_ram(self, network: Network) -> bool:
        return self.max_ram is None or network_cost(network).ram <= self.max_ram

    def _dynamics(self) -> list[tuple[int, tuple[int, ...]]]:
        if self.num_blocks is not None and self.hidden_size is None:
            raise InputError(f"num_blocks needs a hidden_size, got num_blocks {self.num_blocks} without one.")
        found = [
            (self._block_size(block_size), leak if self.leak is None else self.leak)
            for block_size, leak in DYNAMICS
        ]
        return list(dict.fromkeys(found))

    def _block_size(self, suggested: int) -> int:
        """Return the block size set by the parameters, or the suggested one if it divides the units."""
        if self.hidden_size is None:
            return suggested
        if self.num_blocks is not None:
            return self.hidden_size // max(1, self.num_blocks)
        return suggested if self.hidden_size % suggested == 0 else self.hidden_size

    def _feature_sets(self) -> list[FeatureSet]:
        found = []
        for readouts, thresholds in FEATURE_SETS:
            kinds = readouts if self.readouts is None else self.readouts
            count = thresholds if any(kind in COUNTED for kind in kinds) else 0
            found.append((kinds, count if self.thresholds is None else self.thresholds))
        return list(dict.fromkeys(found))

    def _widest(self, block_size: int, leak: tuple[int, ...], features: FeatureSet) -> Network | None:
        """Return the network with the most units that fit into the bytes; None if not even one block fits."""
        if self.hidden_size is not None:
            blocks = self.hidden_size // block_size if self.num_blocks is None else self.num_blocks
            network = self._network(self.hidden_size, blocks, leak, features)
            return network if self._has_ram(network) else None

        def of_blocks(blocks: int) -> Network:
            return self._network(blocks * block_size, blocks, leak, features)

        counts = range(1, MOST_UNITS // block_size + 1)
        most = bisect_left(counts, True, key=lambda blocks: not self.has(of_blocks(blocks)))
        return of_blocks(most) if most else None

    def _network(self, units: int, blocks: int, leak: tuple[int, ...], features: FeatureSet) -> Network:
        readouts, thresholds = features
        is_fixed = self.leak is not None and self.hidden_size is not None
        return replace(
            self.base,
            hidden_size=units,
            num_blocks=blocks,
            leak=leak if is_fixed else leak[:blocks],
            readouts=readouts,
            thresholds=thresholds,
            normalize=True,
        )


def select(samples: Split, target: Target, candidates: list[Network], seed: int) -> SequenceModel:
    """Return the candidate with the least cross-validation error, with signs, U, b_i and thresholds set.

    Args:
        samples: standardised series; if there are many, an evenly spaced subset is used.
        target: target of these series.
        seed: seed of the random weights.
    """
    index = spread_out(target.weights, SEARCH_SERIES)
    some, some_target = some_of(samples, index), target.at(index)
    folds = folds_of_many(target)
    folds = None if folds is None else folds[index]
    draws = 1
    if len(candidates) > 1:
        draws = min(MOST_DRAWS, DRAWN_SERIES // len(some), DRAWN_STEPS // (len(some) * some.x.shape[1]))
    tried: dict[Network, list[tuple[float, _Pool, SequenceModel]]] = {each: [] for each in candidates}
    for draw, pool in product(range(max(1, draws)), _pools(candidates)):
        wide = draw_network(pool.network, seed + draw)
        place_thresholds(wide, some, some_target.weights)
        if len(candidates) == 1:
            return pool.member(wide, candidates[0])
        features = features_of(wide, some)
        for network in pool.members:
            error = solve(features[:, pool.columns(network)], some_target, folds=folds).error
            tried[network].append((error, pool, wide))

    def mean_error(network: Network) -> float:
        return sum(math.log(max(error, LEAST_ERROR)) for error, _, _ in tried[network])

    best = min(candidates, key=mean_error)
    _, pool, wide = min(tried[best], key=lambda trial: trial[0])
    return pool.member(wide, best)


def folds_of_many(target: Target) -> Tensor | None:
    """Return the fold of each sample, or None for leave-one-out if there are few samples."""
    return target.folds(FOLDS) if len(target.values) > SEARCH_SERIES else None


@dataclass(frozen=True)
class _Pool:
    """Candidates with the same block size and leak, and the wide network that contains their features."""

    network: Network
    members: list[Network]

    def levels(self, member: Network) -> Tensor:
        """Return the indices of the member's thresholds in the wide network."""
        each = (self.network.thresholds + 1) // (member.thresholds + 1)
        return torch.arange(1, member.thresholds + 1) * each - 1

    def columns(self, member: Network) -> Tensor:
        """Return the indices of the member's features in the wide network, in the member's order."""
        wide, units = self.network.hidden_size, torch.arange(member.hidden_size)
        levels = self.levels(member).tolist() if member.thresholds else [0]
        groups = [
            (kind, row)
            for kind in self.network.readouts
            for row in range(max(1, self.network.thresholds) if kind in COUNTED else 1)
        ]
        own = [(kind, row) for kind in member.readouts for row in (levels if kind in COUNTED else [0])]
        return torch.cat([groups.index(group) * wide + units for group in own])

    @torch.no_grad()
    def member(self, wide: SequenceModel, member: Network) -> SequenceModel:
        """Return the member, which has the first units of the wide network with their thresholds."""
        model = draw_network(member, 0)
        source, cell = forward_layers(wide).cell(0), forward_layers(model).cell(0)
        for name, values in cell.named_parameters():
            values.copy_(source.get_parameter(name)[: member.hidden_size])
        if model.thresholds is not None:
            assert wide.thresholds is not None
            model.thresholds.copy_(wide.thresholds[self.levels(member), : member.hidden_size])
        return model


def _pools(candidates: list[Network]) -> Iterator[_Pool]:
    """Group candidates that differ only in number of units, read-outs and nested thresholds."""
    groups: dict[tuple[int, tuple[int, ...], int], list[Network]] = {}
    for network in candidates:
        nested = network.thresholds in NESTED or not network.counts_steps
        # With few blocks only the first entries of a leak are used, so leaks with the same ones share a key.
        key = network.block_size, network.leak[:1], NESTED[-1] if nested else network.thresholds
        groups.setdefault(key, []).append(network)
    for (block_size, _, _), members in groups.items():
        units = max(member.hidden_size for member in members)
        wide = replace(
            members[0],
            hidden_size=units,
            num_blocks=units // block_size,
            leak=max((member.leak for member in members), key=len),
            readouts=tuple(kind for kind in READOUTS if any(kind in member.readouts for member in members)),
            thresholds=max(member.thresholds for member in members),
        )
        yield _Pool(wide, members)


def draw_network(network: Network, seed: int) -> SequenceModel:
    """Return the network with random weights, in evaluation mode."""
    with RandomGenerator(seed):
        return SequenceModel(network).eval()


@torch.no_grad()
def features_of(model: SequenceModel, samples: Split) -> Tensor:
    """Return each sample's features before scaling, float64 `(n, features)`."""
    features = torch.empty(len(samples), model.readout.in_features, dtype=torch.float64)
    start = 0
    for x, lengths in _parts(model, samples):
        features[start : start + len(x)] = model.features(x, lengths)
        start += len(x)
    return features


@torch.no_grad()
def place_thresholds(model: SequenceModel, samples: Split, weights: Tensor) -> None:
    """Set the thresholds of each unit slightly above evenly spaced quantiles of its states.

    A series of weight 2 counts twice.
    """
    if model.thresholds is None:
        return
    index = spread_out(weights, THRESHOLD_SERIES)
    parts = _parts(model, some_of(samples, index))
    states = torch.cat([_some_states(model, x, lengths) for x, lengths in parts])
    counts = weights[index].repeat_interleave(states.shape[1])
    states = states.flatten(0, 1)
    mean = (counts @ states.double()) / counts.sum()
    margin = MARGIN * (counts @ (states - mean).square() / counts.sum()).sqrt()
    order = states.argsort(dim=0, stable=True)
    shares = counts[order].cumsum(0)
    units = torch.arange(states.shape[1])
    for row in range(len(model.thresholds)):
        level = (row + 1) / (len(model.thresholds) + 1) * shares[-1]
        place = (shares >= level).to(torch.uint8).argmax(0)
        model.thresholds[row] = states[order[place, units], units] + margin


def some_of(samples: Split, index: Tensor) -> Split:
    """Return the samples at `index`, without copying if these are all samples."""
    return samples if len(index) == len(samples) else Split(*samples.batch(index))


def _parts(model: SequenceModel, samples: Split) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield inputs and lengths of the samples in parts of limited size, in the model's dtype."""
    width = max(samples.x.shape[2], forward_layers(model).output_size)
    rows = max(1, ROW_BYTES // (8 * LANES * max(1, samples.x.shape[1]) * width)) * LANES
    for start in range(0, len(samples), rows):
        x, _, lengths = samples.batch(slice(start, start + rows))
        yield x.to(model.readout.weight.dtype), lengths


def _some_states(model: SequenceModel, x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return states of `THRESHOLD_STEPS` steps of each row, `(rows, steps, units)`."""
    layers = forward_layers(model)
    ends = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
    count = min(THRESHOLD_STEPS, int(ends.max()))
    steps = ((torch.arange(count) + 0.5) / count * ends[:, None]).long()
    found = x.new_empty(len(x), count, layers.output_size)
    stretch = max(1, ROW_BYTES // (8 * len(x) * layers.output_size))
    for start, states in enumerate(layers.state_stretches(x, lengths, stretch)):
        row, place = torch.nonzero(steps // stretch == start, as_tuple=True)
        found[row, place] = states[row, steps[row, place] - start * stretch]
    return found
