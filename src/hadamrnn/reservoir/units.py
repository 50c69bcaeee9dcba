"""Define `Units` and `Features`, the arrays of a reservoir below its read-out, validated on creation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.layer import ArrayFields, freeze_array
from hadamrnn.reservoir.description import BLOCK, MAX_LENGTH, THIRDS, Reservoir

Integers = NDArray[np.signedinteger[Any]]  # accepts any width, returns the narrowest

INPUT_WEIGHT_BITS = 4  # bits of U
FEATURE_COUNT_BITS = 4
MAX_FEATURES = (1 << FEATURE_COUNT_BITS) - 1  # most features per unit


@dataclass(frozen=True, eq=False)
class Units(ArrayFields):
    """The weights of the recurrence, ordered by group, then by block.

    Args:
        network: network that they belong to.
        channel: the input channel of each block, `(blocks,)`.
        signs: the diagonal of D, +1 or -1, `(units,)`.
        input_weight_int: U, -8..7, `(units,)`.
    """

    network: Reservoir
    channel: Integers
    signs: Integers
    input_weight_int: Integers

    def __post_init__(self) -> None:
        units, blocks = (self.network.hidden_size,), (self.network.num_blocks,)
        freeze_array(self, "channel", np.int16, blocks, (0, self.network.input_size - 1))
        freeze_array(self, "signs", np.int8, units, (-1, 1), zero=False)
        low = -(1 << INPUT_WEIGHT_BITS - 1)
        freeze_array(self, "input_weight_int", np.int8, units, (low, -low - 1))

    @property
    def unit_channel(self) -> Integers:
        return np.repeat(self.channel, BLOCK)


@dataclass(frozen=True, eq=False)
class Features(ArrayFields):
    """The features; each counts the steps in which the state of `unit` exceeds `threshold`.

    Args:
        network: network that they belong to.
        unit: unit of each feature, `(features,)`, ascending; a unit occurs at most 15 times.
        threshold: threshold of each feature, `(features,)`, 16 bits.
        segment: third of the window of each feature, `(features,)`; 0 in groups without thirds.
    """

    network: Reservoir
    unit: Integers
    threshold: Integers
    segment: Integers

    def __post_init__(self) -> None:
        count = np.shape(self.unit)[:1] or (0,)
        freeze_array(self, "unit", np.int32, count, (0, self.network.hidden_size - 1))
        freeze_array(self, "threshold", np.int16, count, (-(1 << 15), (1 << 15) - 1))
        freeze_array(self, "segment", np.int8, count, (0, THIRDS - 1))
        if np.any(np.diff(self.unit) < 0):
            raise InputError("Features come in the order of their units, ascending. Sort them.")
        most = int(self.per_unit.max(initial=0))
        if most > MAX_FEATURES:
            raise InputError(f"A unit may have {MAX_FEATURES} features, got {most}. Drop some.")
        if self.per_group.max() > MAX_LENGTH:
            raise InputError(
                f"A group may have {MAX_LENGTH} features, got {self.per_group.max()}. Drop some."
            )
        segments = np.repeat([group.segments for group in self.network.groups], self.per_group)
        if np.any(self.segment >= segments):
            raise InputError("A feature of a third belongs to a group of three segments.")

    def __len__(self) -> int:
        return len(self.unit)

    @property
    def per_unit(self) -> NDArray[np.int64]:
        """The number of features of each unit."""
        return np.bincount(self.unit, minlength=self.network.hidden_size)

    @property
    def per_group(self) -> NDArray[np.int64]:
        """The number of features of each group."""
        counts = self.per_unit
        return np.array([counts[part].sum() for part in self.network.unit_slices], np.int64)
