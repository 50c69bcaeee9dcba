"""Lay out a reservoir as constants for runtime/hadamrnn_reservoir.h: bytes, and their offsets by group.

Devices and the native library on a host read the same bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import Bytes, pack
from hadamrnn.reservoir.description import BLOCK, MAX_LENGTH, THIRDS, Group, Reservoir
from hadamrnn.reservoir.units import INPUT_WEIGHT_BITS, Features, Units

SEGMENT_BITS = 2


def channel_bytes(network: Reservoir) -> int:
    """Return the number of bytes for a block's channel; 0 if there is only one channel."""
    return 0 if network.input_size == 1 else 1 if network.input_size <= 256 else 2


def block_constants(units: Units) -> Bytes:
    """Return the signs and the channel of every block."""
    signs = pack(units.signs, 1).reshape(-1, 1)
    channel = units.channel.astype("<u2").reshape(-1, 1).view(np.uint8)[:, : channel_bytes(units.network)]
    return np.concatenate((signs, channel), 1).reshape(-1)


def unit_constants(units: Units, features: Features) -> Bytes:
    """Return one byte per unit: U, and the number of its features."""
    mask = (1 << INPUT_WEIGHT_BITS) - 1
    return ((units.input_weight_int & mask) | (features.per_unit << INPUT_WEIGHT_BITS)).astype(np.uint8)


def threshold_constants(features: Features) -> Bytes:
    return features.threshold.astype("<i2").view(np.uint8)


def segment_constants(features: Features) -> Bytes:
    """Return two bits for each feature of groups with thirds, in at least one byte."""
    thirds = pack(features.segment[is_segmented(features)], SEGMENT_BITS)
    return thirds if thirds.size else np.zeros(1, np.uint8)


def is_segmented(features: Features) -> NDArray[np.bool_]:
    """Return which features belong to a third."""
    groups = features.network.groups
    return np.repeat([group.segments > 1 for group in groups], features.per_group)


def segment_ends(group: Group, length: int) -> tuple[int, ...]:
    """Return the counted steps at which the thirds end; three times 0xFFFF for a group without thirds."""
    return group.boundaries(length)[1:] if group.segments > 1 else (MAX_LENGTH,) * THIRDS


def group_fields(features: Features) -> list[dict[str, Any]]:
    """Return the fields of every group by their names in C."""
    rows: list[dict[str, Any]] = []
    first_block = first_feature = first_segment = 0
    for group, count in zip(features.network.groups, features.per_group.tolist(), strict=True):
        rows.append(
            {
                "log2_width": group.width.bit_length() - 1,
                "dilation": group.dilation,
                "is_difference": int(group.is_difference),
                "input_shift": group.input_shift,
                "is_segmented": int(group.segments > 1),
                "blocks": group.blocks,
                "features": count,
                "ends": segment_ends(group, features.network.seq_length),
                "first_block": first_block,
                "first_feature": first_feature,
                "first_segment": first_segment,
            }
        )
        first_block += group.units // BLOCK
        first_feature += count
        first_segment += count if group.segments > 1 else 0
    return rows
