"""Build a reservoir in ONNX, in int64 and equal to `reservoir.reference` bit for bit.

All groups read each sample at once; masks select the groups in which it completes a mean.
Start reading at `ReservoirRecipe.step`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.export.onnx_graph import Builder, Recipe, State, TensorProto, transform
from hadamrnn.export.onnx_integer import encoded, integer_properties, round_shift, within
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.reservoir.constants import segment_ends
from hadamrnn.reservoir.description import MAX_LENGTH, Group
from hadamrnn.reservoir.model import IntegerReservoir
from hadamrnn.reservoir.reference import CODE_BITS, DECAY_SHIFT, RATE_BITS, STATE_BITS

Indices = NDArray[np.int64]


class Delays(NamedTuple):
    """The state's cells for the values of each group's last d steps, oldest first."""

    group: Indices  # the group of each cell
    oldest: Indices  # for each value, the cell with the value d steps before
    following: Indices  # for each cell, the index of its next content among all cells and the new values

    @classmethod
    def of(cls, groups: Sequence[Group], values: Sequence[int]) -> Delays:
        """Return the cells of groups with these numbers of values."""
        cells = [group.dilation * count for group, count in zip(groups, values, strict=True)]
        oldest, following = [], []
        cell, value = 0, sum(cells)
        for size, count in zip(cells, values, strict=True):
            line = np.concatenate((np.arange(cell, cell + size), np.arange(value, value + count)))
            oldest.append(line[:count])
            following.append(line[count:])
            cell, value = cell + size, value + count
        group = np.repeat(np.arange(len(groups)), cells)
        return cls(group, np.concatenate(oldest), np.concatenate(following))


class ReservoirRecipe(Recipe):
    """An `IntegerReservoir` in int64, equal to the reference bit for bit.

    The parts of its state are, for each group and channel, sums of samples and delayed means; the delayed
    states `h`; the counts of the features; and the number of samples.
    """

    dtype = np.int64
    element = answer = TensorProto.INT64
    numbers = "int64, the device's bits"

    def __init__(self, model: IntegerReservoir) -> None:
        self.model, self.network = model, model.network
        self.properties = integer_properties(model)
        self.groups, features = model.network.groups, model.features
        units, channels = [group.units for group in self.groups], [model.input_size] * len(self.groups)
        self.means, self.states = Delays.of(self.groups, channels), Delays.of(self.groups, units)
        self.each_group = np.arange(len(self.groups))
        self.group_of_sum = np.repeat(self.each_group, channels)
        self.group_of_unit = np.repeat(self.each_group, units)
        self.group_of_feature = np.repeat(self.each_group, features.per_group)
        self.width = np.array([group.width for group in self.groups])
        self.start = np.array([group.start for group in self.groups])
        # A feature counts the means first + 1 to last of its group.
        ends = np.array([(0, *segment_ends(group, model.network.seq_length)) for group in self.groups])
        ends += self.start[:, None]
        self.first = ends[self.group_of_feature, features.segment]
        self.last = ends[self.group_of_feature, features.segment + 1]

    @property
    def parts(self) -> dict[str, int]:
        """The parts of the state and their widths."""
        return {
            "sums": len(self.group_of_sum),
            "means": len(self.means.group),
            "h": len(self.states.group),
            "counts": len(self.group_of_feature),
            "steps": 1,
        }

    def step(self, build: Builder, x: str, state: State) -> State:
        """Return the state after one more sample; beyond the longest window, nothing is counted."""
        samples = build.op("Add", state["steps"], _number(build, 1))
        samples = build.op("Min", samples, _number(build, self.model.longest))
        times = state["steps"], samples
        ends_mean = self._advances(build, times, self.each_group)
        is_counted = self._advances(build, times, self.each_group, self.start)
        counts_feature = self._advances(build, times, self.group_of_feature, self.first, self.last)
        codes = build.op("Tile", encoded(build, x, self.model), _number(build, [1, len(self.groups)]))
        sums = build.op("Add", state["sums"], codes)
        v = round_shift(build, sums, np.log2(self.width)[self.group_of_sum])
        h = self._next_states(build, self._drives(build, v, state["means"]), state["h"])
        more = build.op("Cast", build.op("And", self._is_above(build, h), counts_feature), to=self.element)
        return {
            "sums": build.op("Where", _at(build, ends_mean, self.group_of_sum), _number(build, 0), sums),
            "means": _delayed(build, self.means, state["means"], v, ends_mean),
            "h": _delayed(build, self.states, state["h"], h, is_counted),
            "counts": build.op("Add", state["counts"], more),
            "steps": samples,
        }

    def readout(self, build: Builder, state: State) -> str:
        model = self.model
        steps = self._progress(build, state["steps"], self.group_of_feature, self.first, self.last)
        steps = build.op("Sub", steps, _number(build, self.first))
        rate = build.op("Div", _number(build, 1 << RATE_BITS), build.op("Max", steps, _number(build, 1)))
        scaled = build.op("Mul", state["counts"], rate)
        codes = round_shift(build, scaled, model.exponents.astype(np.int64) + (RATE_BITS - CODE_BITS))
        logits = build.op("MatMul", codes, _number(build, model.output_weight_int.T))
        return build.op("Add", logits, _number(build, model.output_bias))

    def _drives(self, build: Builder, v: str, means: str) -> str:
        """Return u of every group and channel: the mean v, or its difference from the mean d steps before."""
        is_difference = np.array([group.is_difference for group in self.groups])[self.group_of_sum]
        before = _at(build, means, self.means.oldest)
        return build.op("Sub", v, build.op("Mul", before, _number(build, is_difference)))

    def _next_states(self, build: Builder, u: str, h: str) -> str:
        """Return saturate(round(H D h / 4) + 2^q U u) of every unit."""
        network, units = self.model.network, self.model.units
        signed = build.op("Mul", _at(build, h, self.states.oldest), _number(build, units.signs))
        mixed = transform(build, signed, network.hidden_size, network.num_blocks, np.int64)
        shift = np.array([group.input_shift for group in self.groups])[self.group_of_unit]
        weight = _number(build, units.input_weight_int.astype(np.int64) << shift)
        source = self.group_of_unit * network.input_size + units.unit_channel
        a = build.op(
            "Add", round_shift(build, mixed, DECAY_SHIFT), build.op("Mul", _at(build, u, source), weight)
        )
        return within(build, a, *signed_range(STATE_BITS))

    def _is_above(self, build: Builder, h: str) -> str:
        """Return, for each feature, whether its unit exceeds its threshold."""
        features = self.model.features
        return build.op("Greater", _at(build, h, features.unit), _number(build, features.threshold))

    def _progress(
        self, build: Builder, samples: str, group: Indices, first: ArrayLike = 0, last: ArrayLike = MAX_LENGTH
    ) -> str:
        """Return the number of means of these groups after this many samples, limited to first..last."""
        means = build.op("Div", samples, _number(build, self.width[group]))
        return build.op("Min", build.op("Max", means, _number(build, first)), _number(build, last))

    def _advances(self, build: Builder, times: tuple[str, str], group: Indices, *limits: ArrayLike) -> str:
        """Return whether the progress differs between two times."""
        old, new = (self._progress(build, samples, group, *limits) for samples in times)
        return build.op("Greater", new, old)


def _number(build: Builder, value: ArrayLike) -> str:
    """Return an int64 constant."""
    return build.constant(value, np.int64)


def _at(build: Builder, value: str, columns: Indices) -> str:
    """Select these columns of a value."""
    return build.op("Gather", value, _number(build, columns), axis=1)


def _delayed(build: Builder, delays: Delays, cells: str, values: str, moves: str) -> str:
    """Return the cells after a step with these values, in the groups that make a step."""
    following = _at(build, build.op("Concat", cells, values, axis=1), delays.following)
    return build.op("Where", _at(build, moves, delays.group), following, cells)
