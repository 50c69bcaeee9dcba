"""Lay out a reservoir as data for `runtime/hadamrnn_reservoir.h`; plan its memory and describe it.

`ReservoirData` is the counterpart of `ModelData`; the templates print either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.fixedpoint.blob import Constants, Fields
from hadamrnn.fixedpoint.integers import pack
from hadamrnn.reservoir.constants import (
    SEGMENT_BITS,
    block_constants,
    channel_bytes,
    group_fields,
    segment_constants,
    threshold_constants,
    unit_constants,
)
from hadamrnn.reservoir.cost import BIAS_BITS, COUNTER_BYTES, narrow_cells, wide_cells
from hadamrnn.reservoir.description import Group
from hadamrnn.reservoir.model import IntegerReservoir
from hadamrnn.reservoir.reference import STATE_BITS
from hadamrnn.reservoir.units import INPUT_WEIGHT_BITS

RESERVOIR_RUNTIME = "hadamrnn_reservoir.h"


@dataclass(frozen=True)
class ReservoirPlan:
    """The memory of a stream, in cells; the names are those of `Plan`."""

    pool_wide: int
    narrow_cells: int
    work_cells: int
    code_cells: int
    layers: tuple[()] = ()
    is_pooled: bool = False

    @property
    def state_bytes(self) -> int:
        """The sizeof of the state struct; C has no empty arrays."""
        return COUNTER_BYTES + 4 * max(self.pool_wide, 1) + 4 * -(-self.narrow_cells // 2)

    @property
    def work_bytes(self) -> int:
        """The bytes of the buffers that a step has on the stack."""
        return 4 * self.work_cells + 2 * self.code_cells


def plan_reservoir(model: IntegerReservoir) -> ReservoirPlan:
    """Return the memory of a stream: delayed means and states, then the counts."""
    network, inputs = model.network, model.input_size
    return ReservoirPlan(wide_cells(network), narrow_cells(network) + len(model.features), inputs, inputs)


class ReservoirData(Constants):
    """The constants and structs of one reservoir, including its input encoding and its output values."""

    def __init__(self, model: IntegerReservoir) -> None:
        super().__init__()
        self.plan = plan_reservoir(model)
        network, units, features = model.network, model.units, model.features
        self.groups: list[Fields] = _placed_groups(model)
        self.model: Fields = {
            "input_bits": model.input_bits,
            "input_size": model.input_size,
            "output_size": model.output_size,
            "longest": model.longest,
            "pool_wide": self.plan.pool_wide,
            "narrow_cells": self.plan.narrow_cells,
            **self._values(model),
            **self._raw(model),
        }
        weights = pack(model.output_weight_int.T, network.weight_bits)
        self.reservoir: Fields = {
            "groups": len(network.groups),
            "channel_bytes": channel_bytes(network),
            "weight_bits": network.weight_bits,
            "output_bias_shift": model.output_bias_shift,
            "channels": network.input_size,
            "outputs": network.output_size,
            "counts": narrow_cells(network),
            "block": self._append("blocks: D, channel", block_constants(units).tobytes()),
            "unit": self._append("units: U, number of features", unit_constants(units, features).tobytes()),
            "threshold": self._append("thresholds", threshold_constants(features).tobytes()),
            "segment": self._append(f"thirds, {SEGMENT_BITS} bits", segment_constants(features).tobytes()),
            "exponent": self._append(
                f"exponents, {EXPONENT_BITS} bits", pack(model.exponents, EXPONENT_BITS).tobytes()
            ),
            "output_weight": self._append(f"V, {network.weight_bits} bits each", weights.tobytes()),
            "output_bias": self._add("b_o", model.output_bias_int, BIAS_BITS // 8),
        }


def _placed_groups(model: IntegerReservoir) -> list[Fields]:
    """Return the groups with the offsets of their sums, delays and states."""
    network = model.network
    rows: list[Fields] = []
    sums = cells = 0
    for group, fields in zip(network.groups, group_fields(model.features), strict=True):
        row: dict[str, Any] = {**fields, "sums": sums, "delays": cells}
        sums += network.input_size if group.width > 1 else 0
        cells += network.input_size * group.dilation if group.is_difference else 0
        row["states"] = cells
        cells += group.dilation * group.units
        rows.append(row)
    return rows


def js_reservoir_arrays(model: IntegerReservoir) -> dict[str, tuple[NDArray[Any], int]]:
    """Return the arrays for JavaScript with their bits; unsigned arrays take one bit more there."""
    units, features = model.units, model.features
    return {
        "channel": (units.channel, 17),
        "signs": (units.signs, 1),
        "inputWeight": (units.input_weight_int, INPUT_WEIGHT_BITS),
        "unit": (features.unit, 17),
        "threshold": (features.threshold, STATE_BITS),
        "segment": (features.segment, SEGMENT_BITS + 1),
        "exponents": (model.exponents, EXPONENT_BITS + 1),
        "outputWeight": (model.output_weight_int, model.network.weight_bits),
        "outputBias": (model.output_bias_int, BIAS_BITS),
    }


def js_reservoir_groups(model: IntegerReservoir) -> list[dict[str, Any]]:
    return [
        {
            "width": group.width,
            "dilation": group.dilation,
            "isDifference": group.is_difference,
            "isSegmented": group.segments > 1,
            "inputShift": group.input_shift,
            "blocks": group.blocks,
            "features": fields["features"],
            "ends": fields["ends"],
        }
        for group, fields in zip(model.network.groups, group_fields(model.features), strict=True)
    ]


def reservoir_lines(model: IntegerReservoir) -> list[str]:
    """Describe the network, with one line per group."""
    network = model.network
    return [
        f"{network.hidden_size} units in blocks of 8, {len(model.features)} features, "
        f"{network.weight_bits}-bit V",
        f"dense input of size {network.input_size} in {network.input_bits} bits, "
        f"{network.output_size} outputs after the last step",
        *map(group_line, network.groups),
        f"scales: input {model.input_scale:.9g}, logit {model.logit_scale:.9g}",
    ]


def group_line(group: Group) -> str:
    """Describe a group in a few words."""
    reads = "differences" if group.is_difference else "means"
    thirds = ", counted in thirds" if group.segments > 1 else ""
    return f"{group.units} units on {reads} of {group.width}, {group.dilation} apart{thirds}"
