"""Build integer networks in ONNX, in int64 and equal to their references bit for bit.

The equations are those of `fixedpoint.layer`, `fixedpoint.model` and `reservoir.reference`. ONNX can shift
only unsigned integers, so a rounded right shift becomes a floored division:
floor(v / 2^s) = (v - (v mod 2^s)) / 2^s exactly.

All groups of a reservoir read each sample at once; masks select the groups in which it completes a mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.export.onnx_graph import Builder, LayeredRecipe, Recipe, State, TensorProto, transform
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, value_scaling
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.step import RATE_BITS
from hadamrnn.network import COUNTED
from hadamrnn.reservoir.constants import segment_ends
from hadamrnn.reservoir.description import MAX_LENGTH, Group
from hadamrnn.reservoir.model import IntegerReservoir
from hadamrnn.reservoir.reference import CODE_BITS, DECAY_SHIFT, STATE_BITS
from hadamrnn.reservoir.reference import RATE_BITS as COUNT_RATE_BITS

Indices = NDArray[np.int64]


class IntegerRecipe(LayeredRecipe):
    """An `IntegerModel` in int64, equal to the reference engine bit for bit."""

    dtype = np.int64
    element = answer = TensorProto.INT64
    numbers = "int64, the device's bits"

    def __init__(self, model: IntegerModel) -> None:
        self.model, self.network, self.thresholds = model, model.network, model.thresholds_int
        self.properties = integer_properties(model)

    def admit(self, build: Builder, x: str, state: State) -> tuple[str, str | None]:
        """Encode values; as in C, an unknown id or a step beyond `longest` leaves the state unchanged."""
        model, moves = self.model, None
        if model.longest:
            moves = build.op("Less", state["steps"], _number(build, model.longest))
        if model.input_kind == "dense":
            return encoded(build, x, self.model), moves
        known = within(build, x, 0, model.vocabulary_size - 1)
        rows = build.op("Unsqueeze", build.op("Equal", x, known), _number(build, [-1]))
        if model.embedding_int is not None:
            known = build.op("Gather", _number(build, model.embedding_int), known)
        return known, rows if moves is None else build.op("And", rows, moves)

    def layer(self, build: Builder, index: int, x: str, h: str) -> str:
        layer = self.model.layers[index]
        factors = layer.signs.astype(np.int64) << layer.state_shift
        mixed = transform(build, h, layer.hidden_size, self.network.num_blocks, np.int64)
        acc = build.op("Mul", mixed, _number(build, factors))
        if layer.leak:
            lost = round_shift(build, acc, layer.unit_leaks)
            leaks = _number(build, layer.unit_leaks > 0)
            acc = build.op("Sub", acc, build.op("Mul", lost, leaks))
        weight = _number(build, layer.input_weight_int.T)
        hot = layer.input_kind == "one_hot"
        product = build.op("Gather", weight, x) if hot else build.op("MatMul", x, weight)
        acc = build.op("Add", acc, self._shifted(build, product, layer.input_shift))
        if layer.input_bias_int is not None:
            acc = build.op("Add", acc, _number(build, layer.input_bias))
        acc = build.op("Mul", acc, _number(build, layer.round_multiplier))
        low, high = signed_range(layer.activation_bits)
        low = max(low, 0) if self.network.recurrence == "relu" else low
        return within(build, round_shift(build, acc, layer.round_shift), low, high)

    def output(self, build: Builder, index: int, x: str, h: str) -> str:
        layer, y = self.model.layers[index], h
        assert layer.output_bits is not None
        low, high = signed_range(layer.output_bits)
        if layer.gain_int is not None and layer.offset_int is not None:
            y = build.op("Mul", y, _number(build, layer.gain_int))
            offset = layer.offset_int.astype(np.int64) << layer.offset_shift
            y = build.op("Add", y, _number(build, offset))
            y = round_shift(build, y, layer.gain_shift)
        y = within(build, y, 0, high)
        if layer.skip_shift is None:
            return y
        return within(build, build.op("Add", y, self._shifted(build, x, layer.skip_shift)), low, high)

    def strided(self, build: Builder, total: str) -> str:
        return total

    def readout(self, build: Builder, state: State) -> str:
        model = self.model
        codes = build.op("Concat", *self._features(build, state), axis=1)
        if model.feature_shift is not None and model.feature_bits is not None:
            codes = round_shift(build, codes, model.feature_shift)
            codes = within(build, codes, *signed_range(model.feature_bits))
        logits = build.op("MatMul", codes, _number(build, model.output_weight_int.T))
        return build.op("Add", logits, _number(build, model.output_bias))

    def _features(self, build: Builder, state: State) -> list[str]:
        """Return the values of the read-outs, multiplied by their rates if features have scales."""
        last = state[self.hidden(self.network.num_layers - 1)]
        values = [
            build.op("Max", last, _number(build, 0)) if kind == "last" else state[kind]
            for kind in self.network.readouts
        ]
        if self.model.feature_multiplier is None:
            return values
        scaled = []
        for kind, value, m in zip(self.network.readouts, values, self.model.feature_multiplier, strict=True):
            rate = _number(build, m << RATE_BITS)
            if kind in COUNTED:
                steps = build.op("Max", self.top_steps(build, state), _number(build, 1))
                rate = build.op("Div", rate, steps)
            scaled.append(build.op("Mul", value, rate))
        return scaled

    def _shifted(self, build: Builder, value: str, shift: int) -> str:
        if shift < 0:
            return round_shift(build, value, -shift)
        return build.op("Mul", value, _number(build, 1 << shift))


def integer_properties(model: IntegerBase) -> dict[str, Any]:
    """Return the metadata of an integer graph."""
    properties = {"classes": model.class_names, "logit_scale": model.logit_scale}
    if model.input_kind != "dense":
        return properties
    offset, scale = value_scaling(model)
    return properties | {"offset": offset, "scale": scale, "raw_unit": model.raw_unit}


def within(build: Builder, value: str, low: int, high: int) -> str:
    """Return `value` saturated to low..high.

    ONNX Runtime's own Clip, Min and Max for int64 are wrong on x86-64 for numbers beyond 32 bits.
    """
    for relation, bound in (("Less", low), ("Greater", high)):
        limit = _number(build, bound)
        value = build.op("Where", build.op(relation, value, limit), limit, value)
    return value


def round_shift(build: Builder, value: str, shift: ArrayLike) -> str:
    """Return (value + 2^(shift-1)) >> shift, for one shift or one per column; a shift of 0 does nothing."""
    units = np.left_shift(np.int64(1), np.asarray(shift, np.int64))
    if np.all(units == 1):
        return value
    unit = _number(build, units)
    value = build.op("Add", value, _number(build, units >> 1))
    return build.op("Div", build.op("Sub", value, build.op("Mod", value, unit)), unit)


def encoded(build: Builder, x: str, model: IntegerBase) -> str:
    """Return the codes of values, with the same bits as `encode_values`."""
    x = build.op("Div", x, build.constant(model.raw_unit, np.float64))
    x = build.op("Floor", build.op("Add", x, build.constant(0.5, np.float64)))
    x = build.op("Clip", x, *(build.constant(bound, np.float64) for bound in signed_range(32)))
    raw = build.op("Cast", x, to=TensorProto.INT64)
    if model.raw_offset is not None and model.raw_multiplier is not None and model.raw_shift is not None:
        if model.raw_knee is not None:
            raw = _compressed(build, raw, model.raw_knee)
        raw = build.op("Sub", raw, _number(build, model.raw_offset))
        raw = build.op("Mul", raw, _number(build, model.raw_multiplier))
        raw = round_shift(build, raw, model.raw_shift)
    return within(build, raw, *signed_range(model.input_bits))


def _compressed(build: Builder, raw: str, knee: NDArray[np.int32]) -> str:
    """Return the same bits as `compressed_codes(raw, knee)`."""
    units = _number(build, np.left_shift(np.int64(1), knee.astype(np.int64)))
    above = build.op("Add", build.op("Abs", raw), units)
    powers = _number(build, np.left_shift(np.int64(1), np.arange(1, 33)))
    last = _number(build, [-1])
    reached = build.op("GreaterOrEqual", build.op("Unsqueeze", above, last), powers)
    octave = build.op("ReduceSum", build.op("Cast", reached, to=TensorProto.INT64), last, keepdims=0)
    power = build.op("Gather", _number(build, np.left_shift(np.int64(1), np.arange(33))), octave)
    rest = build.op("Mul", build.op("Sub", above, power), _number(build, 1 << OCTAVE_BITS))
    whole = build.op("Mul", build.op("Sub", octave, _number(build, knee)), _number(build, 1 << OCTAVE_BITS))
    octaves = build.op("Add", whole, build.op("Div", rest, power))
    octaves = build.op("Mul", build.op("Sign", raw), octaves)
    return build.op("Where", build.constant(knee > 0, np.bool_), octaves, raw)


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
        rate = build.op(
            "Div", _number(build, 1 << COUNT_RATE_BITS), build.op("Max", steps, _number(build, 1))
        )
        scaled = build.op("Mul", state["counts"], rate)
        codes = round_shift(build, scaled, model.exponents.astype(np.int64) + (COUNT_RATE_BITS - CODE_BITS))
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
