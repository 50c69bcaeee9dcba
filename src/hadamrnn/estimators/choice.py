"""Which random network suits the data: block size, leak, read-outs, thresholds, as many units as fit.

Each block size and leak is drawn once, as wide as any choice needs, and run once with all read-outs; the
read-outs and the units that fit into the bytes are then columns of the same features. The leave-one-out error
of a ridge regression on them decides, on small data that of several draws. Large data are often windows of
recordings, where the neighbours of a window would give it away: there folds are left out. Start reading at
`choose`; `network_cost` says what fits.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

import torch
from torch import Tensor

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.estimators.features import (
    draw_network,
    features_of,
    narrowed,
    place_thresholds,
    some_of,
    spread_out,
)
from hadamrnn.estimators.goals import Goal
from hadamrnn.estimators.ridge import solve
from hadamrnn.fixedpoint.cost import fast_step_cost, network_size
from hadamrnn.fixedpoint.overflow import bits_of_sums
from hadamrnn.network import COUNTED, READOUTS, Network
from hadamrnn.nn.build import network_type
from hadamrnn.nn.model import SequenceModel

ACTIVATION_BITS = 12
POOLED_BITS = 16  # of a network whose read-out weighs many sums of states against each other
Look = tuple[tuple[str, ...], int]  # read-outs, thresholds a unit
# (block size, leak): short filters, long ones, and blocks that never forget; the smallest blocks last.
DYNAMICS = (
    (32, (2, 3, 4, 5)),
    (32, (4, 5, 6, 7)),
    (32, (0,)),
    (128, (0,)),
    (8, (1, 2)),
)
# Without a search the first of both lists are taken.
LOOKS: tuple[Look, ...] = (
    (("last", "mean", "positive", "max"), 1),
    (("mean", "positive", "max"), 1),
    (("mean",), 3),
    (("mean", "positive"), 3),
    (("positive",), 3),
)
MOST_UNITS = 512
SEARCH_SERIES = 1000  # that networks are compared on; of more series folds are left out
FOLDS = 5
# Few and short series are compared with several draws of each network: the error of one says little.
MOST_DRAWS, DRAWN_SERIES, DRAWN_STEPS = 6, 600, 120_000
LEAST_ERROR = 1e-12
NESTED = (1, 3)  # thresholds at quantiles of which the fewer are some of the more


@dataclass(frozen=True)
class Cost:
    """Bytes of weights (biases in integers; a baseline's in full) and operations of one time step."""

    bytes: int
    multiplications: int
    additions: int


def state_bits(network: Network, seq_length: int = 1) -> int:
    """Return the bits of states, biases and thresholds in the integer form of an estimator's network.

    A sum over the steps of the longest series must fit 32 bits, so very long ones leave fewer to the states.
    """
    if not network.is_pooled:
        return ACTIVATION_BITS
    return min(POOLED_BITS, bits_of_sums(seq_length)) if network.counts_steps else POOLED_BITS


def network_cost(network: Network, activation_bits: int | None = None) -> Cost:
    """Return the cost of a network; `activation_bits` are `state_bits` by default.

    >>> network_cost(Network(input_size=1, hidden_size=256, output_size=2))
    Cost(bytes=803, multiplications=768, additions=2816)
    """
    if network.is_hadamard:
        bits = state_bits(network) if activation_bits is None else activation_bits
        stored = network_size(replace(network, activation_bits=bits)).bits
        step = fast_step_cost(network)
    else:
        kind = network_type(network.model)
        stored, step = kind.size(network).stored_bits, kind.step_cost(network)
    return Cost(-(-stored // 8), step.total.multiplications, step.total.additions)


@dataclass(frozen=True)
class Wanted:
    """What the parameters say of the network; None is left to the choice.

    Args:
        base: sizes of input and output, weight_bits, recurrence.
        max_bytes: of the integer network's weights, where no `hidden_size` is given.
    """

    base: Network
    max_bytes: int
    hidden_size: int | None = None
    num_blocks: int | None = None
    leak: tuple[int, ...] | None = None
    readouts: tuple[str, ...] | None = None
    thresholds: int | None = None

    def networks(self, *, search: bool) -> list[Network]:
        """Return the networks to compare, those of one block size and leak together; one without `search`."""
        found = [
            network
            for block_size, leak in self._dynamics()
            for look in self._looks()
            if (network := self._widest(block_size, leak, look)) is not None
        ]
        if not found:
            units, leak = self._dynamics()[-1]
            least = min(network_cost(self._network(units, 1, leak, look)).bytes for look in self._looks())
            raise InputError(
                f"max_bytes must hold a network of {units} units, {least} bytes here, got {self.max_bytes}."
            )
        return found if search else found[:1]

    def _dynamics(self) -> list[tuple[int, tuple[int, ...]]]:
        if self.num_blocks is not None and self.hidden_size is None:
            raise InputError(f"num_blocks needs a hidden_size, got num_blocks {self.num_blocks} without one.")
        found = [
            (self._block_size(block_size), leak if self.leak is None else self.leak)
            for block_size, leak in DYNAMICS
        ]
        return list(dict.fromkeys(found))

    def _block_size(self, suggested: int) -> int:
        """Return the block size that the parameters fix, or the suggested one where it divides the units."""
        if self.hidden_size is None:
            return suggested
        if self.num_blocks is not None:
            return self.hidden_size // max(1, self.num_blocks)
        return suggested if self.hidden_size % suggested == 0 else self.hidden_size

    def _looks(self) -> list[Look]:
        found = []
        for readouts, thresholds in LOOKS:
            kinds = readouts if self.readouts is None else self.readouts
            count = thresholds if any(kind in COUNTED for kind in kinds) else 0
            found.append((kinds, count if self.thresholds is None else self.thresholds))
        return list(dict.fromkeys(found))

    def _widest(self, block_size: int, leak: tuple[int, ...], look: Look) -> Network | None:
        """Return the network with the most units that the bytes allow; None where not even a block fits."""
        if self.hidden_size is not None:
            blocks = self.hidden_size // block_size if self.num_blocks is None else self.num_blocks
            return self._network(self.hidden_size, blocks, leak, look)

        def of_blocks(blocks: int) -> Network:
            return self._network(blocks * block_size, blocks, leak, look)

        counts = range(1, MOST_UNITS // block_size + 1)
        most = bisect_right(counts, self.max_bytes, key=lambda blocks: network_cost(of_blocks(blocks)).bytes)
        return of_blocks(most) if most else None

    def _network(self, units: int, blocks: int, leak: tuple[int, ...], look: Look) -> Network:
        readouts, thresholds = look
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


def choose(samples: Split, goal: Goal, networks: list[Network], seed: int) -> SequenceModel:
    """Return the network with the least left-out error, its signs, U, b_i and thresholds set.

    Args:
        samples: standardised series; of many, evenly spread ones are looked at.
        goal: their targets.
        networks: to compare; those that share a block size and a leak are drawn and run together.
        seed: of the random weights.
    """
    index = spread_out(goal.weights, SEARCH_SERIES)
    some, some_goal = some_of(samples, index), goal.at(index)
    folds = goal.folds(FOLDS)[index] if len(samples) > SEARCH_SERIES else None
    draws = min(MOST_DRAWS, DRAWN_SERIES // len(some), DRAWN_STEPS // (len(some) * some.x.shape[1]))
    tried: dict[Network, list[tuple[float, SequenceModel]]] = {network: [] for network in networks}
    for draw, pool in product(range(max(1, draws) if len(networks) > 1 else 1), _pools(networks)):
        model = draw_network(pool.network, seed + draw)
        place_thresholds(model, some, some_goal.weights)
        features = features_of(model, some)
        for network in pool.members:
            seen = features[:, pool.columns(network)]
            error = solve(seen, some_goal, folds=folds).error if len(networks) > 1 else 0.0
            tried[network].append((error, narrowed(model, network, pool.levels(network))))

    def mean_error(network: Network) -> float:
        return sum(math.log(max(error, LEAST_ERROR)) for error, _ in tried[network])

    _, model = min(tried[min(networks, key=mean_error)], key=lambda pair: pair[0])
    return model


@dataclass(frozen=True)
class _Pool:
    """Networks of one block size and leak, and the one whose features hold those of all."""

    network: Network
    members: list[Network]

    def levels(self, member: Network) -> Tensor:
        """Return which thresholds of the pool the member has."""
        each = (self.network.thresholds + 1) // (member.thresholds + 1)
        return torch.arange(1, member.thresholds + 1) * each - 1

    def columns(self, member: Network) -> Tensor:
        """Return which features of the pool are those of the member, in its order."""
        wide, units = self.network.hidden_size, torch.arange(member.hidden_size)
        levels = self.levels(member).tolist() if member.thresholds else [0]
        groups = [
            (kind, row)
            for kind in self.network.readouts
            for row in range(max(1, self.network.thresholds) if kind in COUNTED else 1)
        ]
        seen = [(kind, row) for kind in member.readouts for row in (levels if kind in COUNTED else [0])]
        return torch.cat([groups.index(group) * wide + units for group in seen])


def _pools(networks: list[Network]) -> Iterator[_Pool]:
    """Put networks together that differ in units, read-outs and nested thresholds only."""
    groups: dict[tuple[int, tuple[int, ...], int], list[Network]] = {}
    for network in networks:
        nested = network.thresholds in NESTED or not network.counts_steps
        # Networks of few blocks have the first values of a leak only.
        key = network.block_size, network.leak[:1], NESTED[-1] if nested else network.thresholds
        groups.setdefault(key, []).append(network)
    for members in groups.values():
        wide = replace(
            max(members, key=lambda member: member.hidden_size),
            readouts=tuple(kind for kind in READOUTS if any(kind in member.readouts for member in members)),
            thresholds=max(member.thresholds for member in members),
        )
        yield _Pool(wide, members)
