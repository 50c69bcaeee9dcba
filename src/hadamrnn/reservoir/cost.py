"""Count the bits of a reservoir, the bytes of its state and its operations per sample.

A model stores, packed to the bit: for each unit a sign, 4 bits of U and 4 bits that count its features; for
each block its channel, if there are several; for each feature a threshold, an exponent and V, and its third
if the group has thirds; and b_o. The descriptions of groups, about 40 bytes each, count as code rather than
weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.fixedpoint.cost import Operations, StepCost, add_up, matrix_product
from hadamrnn.reservoir.constants import SEGMENT_BITS, channel_bytes, is_segmented
from hadamrnn.reservoir.description import BLOCK, Reservoir
from hadamrnn.reservoir.reference import STATE_BITS
from hadamrnn.reservoir.units import FEATURE_COUNT_BITS, INPUT_WEIGHT_BITS, Features

BIAS_BITS = 16
COUNTER_BYTES = 8  # counters in a state: clipped states, samples
MIX_ADDITIONS = 3  # per unit, because H of 8 units takes 24


@dataclass(frozen=True)
class ReservoirSize:
    """The storage in bits, part by part, and the bytes of a stream's state."""

    units: int
    features: int
    readout: int
    state_bytes: int

    @property
    def bits(self) -> int:
        return self.units + self.features + self.readout

    @property
    def bytes(self) -> int:
        return -(-self.bits // 8)


def reservoir_size(features: Features) -> ReservoirSize:
    """Return the storage of a network with these features, and of its state on a device."""
    network, count = features.network, len(features)
    per_unit = 1 + INPUT_WEIGHT_BITS + FEATURE_COUNT_BITS
    per_feature = STATE_BITS + EXPONENT_BITS
    thirds = SEGMENT_BITS * int(is_segmented(features).sum())
    return ReservoirSize(
        units=per_unit * network.hidden_size + 8 * channel_bytes(network) * network.num_blocks,
        features=per_feature * count + thirds,
        readout=network.weight_bits * count * network.output_size + BIAS_BITS * network.output_size,
        state_bytes=4 * wide_cells(network) + 2 * (count + narrow_cells(network)) + COUNTER_BYTES,
    )


def wide_cells(network: Reservoir) -> int:
    """Return the number of 32-bit cells in a state: sums of samples."""
    return network.input_size * sum(group.width > 1 for group in network.groups)


def narrow_cells(network: Reservoir) -> int:
    """Return the number of 16-bit cells in a state besides the counts: delayed means and states."""
    delays = sum(group.dilation * group.is_difference for group in network.groups)
    return network.input_size * delays + sum(group.dilation * group.units for group in network.groups)


def reservoir_step_cost(features: Features) -> StepCost:
    """Return the mean operations of one sample; V, which runs once per window, is counted in full."""
    network, inputs, recurrent = features.network, [], []
    for group, count in zip(network.groups, features.per_group.tolist(), strict=True):
        sums = network.input_size * (group.width > 1)
        differences = Operations(0, network.input_size * group.is_difference).every(group.width)
        products = Operations(group.units, group.units).every(group.width)
        mixed = Operations(0, MIX_ADDITIONS * BLOCK * group.blocks + count).every(group.width)
        inputs.append(Operations(products.multiplications, products.additions + differences.additions + sums))
        recurrent.append(mixed)
    output = matrix_product(len(features) * network.output_size, network.weight_bits)
    return StepCost(add_up(inputs), add_up(recurrent), output)
