"""Lay out a model as data for `runtime/hadamrnn.h`: its constants as bytes, and its structs.

`ModelData.sections` are the consecutive constants, aligned to 4 bytes, in little endian; `ModelData.model`
and `ModelData.layers` are the fields of `hadamrnn_model` and `hadamrnn_layer` by name. Arrays that the
network lacks are NULL pointers. A specialised build has the data as C; a shared build and this package's
native engine read the same data from one file, `ModelData.blob`. Start at `ModelData`.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import IntegerBase
from hadamrnn.fixedpoint.encoding import value_format
from hadamrnn.fixedpoint.integers import pack
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.plan import GROUP, MAX_FACTORS, LayerPlan, Plan, make_plan, whole_groups
from hadamrnn.hadamard.orders import factor_matrix
from hadamrnn.runtime import runtime_file

INPUT_KINDS = ("dense", "one_hot", "embedded")  # in the order of HADAMRNN_DENSE, ...
READOUT_KINDS = ("last", "mean", "positive", "max")  # in the order of HADAMRNN_LAST, ...
ALIGNMENT = 4
LANE_BITS = 32
MAX_SIZE = 1 << 15  # HADAMRNN_MAX_UNITS
Fields = Mapping[str, Any]

MAGIC, BLOB_VERSION = b"HRNN", 2
HEADER = "<4sHHII"
FORMATS = {"uint8_t": "B", "int8_t": "b", "uint16_t": "H", "uint32_t": "I", "": "I"}  # of numbers and places


class Place(int):
    """The offset of an array in the data."""


@dataclass(frozen=True)
class ConstantArray:
    """One array of constants."""

    comment: str
    offset: int  # within the data
    content: bytes  # padded to whole words


class Constants:
    """Consecutive arrays, including the encodings of raw codes and values, which every network may have."""

    def __init__(self) -> None:
        self.sections: list[ConstantArray] = []

    @property
    def size(self) -> int:
        return sum(len(section.content) for section in self.sections)

    def _add(self, comment: str, array: NDArray[Any], bytes_each: int) -> Place:
        """Append an array of integers and return its offset."""
        return self._append(comment, array.astype(f"<i{bytes_each}").tobytes())

    def _append(self, comment: str, content: bytes) -> Place:
        offset = self.size
        padding = bytes(-len(content) % ALIGNMENT)
        self.sections.append(ConstantArray(comment, offset, content + padding))
        return Place(offset)

    def _values(self, model: IntegerBase) -> Fields:
        """Return the fields for a regressor's values; empty for other models."""
        values = value_format(model)
        if values is None:
            return {}
        return {
            "value_multiplier": self._add("multipliers of values", values.multiplier, 4),
            "value_shift": self._add("shifts of values", values.shift, 1),
            "value_offset": self._add("offsets of values", values.offset, 8),
        }

    def _raw(self, model: IntegerBase) -> Fields:
        """Return the fields for encoding raw codes; empty if raw codes are input codes."""
        fields: dict[str, Any] = {}
        for name, each in (("raw_offset", 4), ("raw_multiplier", 4), ("raw_shift", 1), ("raw_knee", 1)):
            if (array := getattr(model, name)) is not None:
                fields[name] = self._add(name.replace("_", " "), array, each)
        return fields


class ModelData(Constants):
    """The constants and the structs of one model.

    Args:
        packed: store each code of U and V in weight_bits; otherwise in one byte, for speed.
        lanes: use the layout for vector lanes on a host: 32-bit numbers, already shifted left. The lowest
            layer's contribution of each id is passed separately, so U and the embedding are omitted.
    """

    def __init__(self, model: IntegerModel, *, packed: bool = True, lanes: bool = False) -> None:
        super().__init__()
        if not fits_runtime(model):
            raise InputError(f"The C runtime takes at most {MAX_SIZE} units or channels, got {model!r}.")
        self.plan = make_plan(model)
        self._lanes = lanes
        self._reads_drive = lanes and model.input_kind != "dense"
        self._code_bits = LANE_BITS if lanes else model.weight_storage_bits if packed else 8
        self._value_bytes = LANE_BITS // 8 if lanes else stored_bytes(model.activation_bits)
        self._factors: dict[int, Place] = {}  # order -> its signs
        self.layers: list[Fields] = [
            self._layer(planned, f"layer {index}: " if len(model.layers) > 1 else "")
            for index, planned in enumerate(self.plan.layers)
        ]
        self.model: Fields = {
            **_numbers(model, self.plan),
            "code_bits": self._code_bits,
            "value_bytes": self._value_bytes,
            **self._readout(model),
            **self._input(model),
        }
        if self._reads_drive:
            dense = INPUT_KINDS.index("dense")
            self.model = {**self.model, "input_kind": dense, "input_size": 1, "vocabulary": 0}
            self.layers[0] = {**self.layers[0], "inputs": 1}

    @property
    def blob(self) -> bytes:
        """The model as one file for `hadamrnn_open`."""
        fields = _listed("MODEL_NUMBERS", self.model)
        fields += [("B", kind) for kind in self.model["readouts"]]
        fields += [("H", multiplier) for multiplier in self.model["multipliers"]]
        for layer in self.layers:
            fields += _listed("LAYER_NUMBERS", layer)
            for order, _, signs in layer["factors"]:
                fields += [("H", order), ("I", signs)]
            fields += _listed("LAYER_ARRAYS", layer)
        fields += _listed("MODEL_ARRAYS", self.model)
        layout = "<" + "".join(each for each, _ in fields)
        start = struct.calcsize(HEADER)
        size = -(-struct.calcsize(layout) // ALIGNMENT) * ALIGNMENT
        numbers = [start + size + value if isinstance(value, Place) else value or 0 for _, value in fields]
        body = struct.pack(layout, *numbers).ljust(size, b"\0")
        body += b"".join(section.content for section in self.sections)
        return struct.pack(HEADER, MAGIC, BLOB_VERSION, 0, start + len(body), zlib.crc32(body)) + body

    def _add_codes(self, comment: str, codes: NDArray[Any]) -> Place:
        if self._code_bits >= 8:
            return self._add(f"{comment}, {self._code_bits} bits each", codes, self._code_bits // 8)
        return self._append(f"{comment}, {self._code_bits} bits each", pack(codes, self._code_bits).tobytes())

    def _add_signs(self, comment: str, signs: NDArray[Any]) -> Place:
        rows = [pack(row, 1).tobytes() for row in np.atleast_2d(signs)]
        return self._append(f"{comment}, a bit each, 1 for -1", b"".join(rows))

    def _unit_signs(self, comment: str, layer: IntegerLayer, rows: int) -> Place:
        signs = padded_rows(layer.signs, rows)
        if self._lanes:
            return self._add(f"{comment} 2^state_shift", signs.astype(np.int32) << layer.state_shift, 4)
        return self._add_signs(comment, signs)

    def _shifted(self, name: str, comment: str, values: NDArray[Any], shift: int) -> Fields:
        """Return the fields for numbers times 2^shift; for lanes the shift is already applied."""
        if self._lanes:
            values, shift = values.astype(np.int32) << shift, 0
        return {f"{name}_shift": shift, name: self._add(comment, values, self._value_bytes)}

    def _layer(self, planned: LayerPlan, name: str) -> Fields:
        layer, rows = planned.layer, planned.rows
        fields: dict[str, Any] = {
            "units": layer.hidden_size,
            "inputs": layer.input_size,
            "block": layer.block_size,
            "cells": planned.cells,
            "sums": planned.sums,
            "stages": planned.stages,
            "in_place": planned.in_place,
            "state_shift": layer.state_shift,
            "multiplier": layer.round_multiplier,
            "round_shift": layer.round_shift,
            "output_bits": layer.output_bits or layer.activation_bits,
            "signs": self._unit_signs(f"{name}u", layer, rows),
        }
        for order, _ in planned.factors:
            if order not in self._factors:
                comment = f"a Hadamard matrix of order {order}"
                self._factors[order] = self._add_signs(comment, factor_matrix(order))
        factors = [(*factor, self._factors[factor[0]]) for factor in planned.factors]
        fields["factors"] = _padded(factors, MAX_FACTORS, (0, 0, None))
        is_driven = self._reads_drive and planned is self.plan.layers[0]
        if np.any(layer.input_weight_int) and not is_driven:
            left = max(layer.input_shift, 0) if self._lanes else 0
            fields["input_shift"] = layer.input_shift - left
            fields["weight"] = self._add_codes(f"{name}U", _input_weight(planned).astype(np.int32) << left)
        if layer.input_bias_int is not None and np.any(layer.input_bias_int) and not is_driven:
            bias = padded_rows(layer.input_bias_int, rows)
            fields |= self._shifted("bias", f"{name}b_i", bias, layer.input_bias_shift)
        return {**fields, **self._leaks(planned, name), **self._output(planned, name)}

    def _leaks(self, planned: LayerPlan, name: str) -> Fields:
        """Return the leak k of all units or, if they differ, of every group or row."""
        leaks = planned.layer.unit_leaks
        if len(set(leaks.tolist())) == 1:
            return {"leak": int(leaks[0])}
        rows = padded_rows(leaks, planned.rows)
        grouped = planned.layer.block_size % GROUP == 0
        each, stored = ("8 rows", rows[::GROUP]) if grouped else ("row", rows)
        pointer = self._add(f"{name}k of 1 - 2^-k for every {each}", stored, 1)
        return {"leak_bytes": 1 if grouped else GROUP, "leaks": pointer}

    def _output(self, planned: LayerPlan, name: str) -> Fields:
        layer = planned.layer
        fields: dict[str, Any] = {}
        if layer.gain_int is not None and layer.offset_int is not None:
            fields["gain_shift"] = layer.gain_shift
            fields["gain"] = self._add(f"{name}gains", layer.gain_int, self._value_bytes)
            fields |= self._shifted("offset", f"{name}offsets", layer.offset_int, layer.offset_shift)
        if layer.skip_shift is not None:
            fields |= {"has_skip": 1, "skip_shift": layer.skip_shift}
        return fields

    def _readout(self, model: IntegerModel) -> Fields:
        """Return V, b_o, thresholds and feature shifts, with a read-out's units padded to whole groups."""

        def by_groups(array: NDArray[Any], fill: int = 0) -> NDArray[Any]:
            blocks = array.reshape(*array.shape[:-1], -1, model.hidden_size)
            padded = padded_rows(blocks, whole_groups(model.hidden_size))
            padded[..., model.hidden_size :] = fill
            return padded

        fields: dict[str, Any] = {"output_weight": self._add_codes("V", by_groups(model.output_weight_int))}
        if np.any(model.output_bias_int):
            fields |= self._shifted("output_bias", "b_o", model.output_bias_int, model.output_bias_shift)
        if model.thresholds_int is not None:
            fields["theta"] = self._add("thresholds", by_groups(model.thresholds_int), self._value_bytes)
        if model.feature_shift is not None:
            fields["feature_shift"] = self._add("shifts of features", by_groups(model.feature_shift, 1), 1)
        return {**fields, **self._values(model)}

    def _input(self, model: IntegerModel) -> Fields:
        fields: dict[str, Any] = {}
        if model.embedding_int is not None and not self._reads_drive:
            each = stored_bytes(model.input_bits)
            fields["embedding_bytes"] = each
            fields["embedding"] = self._add("x of every id", model.embedding_int, each)
        return {**fields, **self._raw(model)}


def fits_runtime(model: IntegerModel) -> bool:
    """Return whether the sizes of a network fit the fields of `hadamrnn_model`."""
    return max(*model.network.widths, model.input_size, model.output_size) <= MAX_SIZE


def _numbers(model: IntegerModel, plan: Plan) -> Fields:
    """Return the numeric fields of `hadamrnn_model`."""
    network = model.network
    return {
        "input_kind": INPUT_KINDS.index(model.input_kind),
        "input_bits": model.input_bits,
        "activation_bits": model.activation_bits,
        "is_relu": int(network.recurrence == "relu"),
        "num_layers": len(model.layers),
        "num_readouts": len(network.readouts),
        "thresholds": max(network.thresholds, 1),
        "feature_bits": model.feature_bits or 0,
        "stride": network.stride if len(model.layers) > 1 else 1,
        "input_size": model.input_size,
        "output_size": model.output_size,
        "longest": model.longest,
        "vocabulary": model.vocabulary_size,
        "phases": plan.phases,
        "counts": plan.counts,
        "pool_wide": plan.pool_wide,
        "pool_narrow": plan.pool_narrow,
        "narrow_cells": plan.narrow_cells,
        "work_cells": plan.work_cells,
        "code_cells": plan.code_cells,
        "readouts": _padded(map(READOUT_KINDS.index, network.readouts), len(READOUT_KINDS), 0),
        "multipliers": _padded(model.feature_multiplier or (), len(READOUT_KINDS), 0),
    }


def _padded(values: Iterable[Any], count: int, fill: Any) -> tuple[Any, ...]:
    """Pad values to `count`, because C arrays are filled completely."""
    given = tuple(values)
    return (*given, *[fill] * (count - len(given)))


def _listed(name: str, fields: Fields) -> list[tuple[str, int | Place | None]]:
    """Return the fields of a list of `hadamrnn_model.h`, each with its format, in the order of a blob."""
    return [(FORMATS[kind], fields.get(field)) for kind, field in _field_list(name)]


@cache
def _field_list(name: str) -> list[tuple[str, str]]:
    _, _, after = runtime_file("hadamrnn_model.h").partition(f"#define HADAMRNN_{name}(X)")
    return re.findall(r"X\((?:(\w+), )?(\w+),", after.partition("\n\n")[0])


def _input_weight(planned: LayerPlan) -> NDArray[Any]:
    """Return U by columns `(input_size, rows)` of a one-hot input, else by groups of eight rows."""
    layer = planned.layer
    columns = padded_rows(layer.input_weight_int.T, planned.rows)
    if layer.input_kind == "one_hot":
        return columns
    return columns.reshape(layer.input_size, -1, GROUP).swapaxes(0, 1)


def padded_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Pad the last axis, the units of a layer, with zeros to whole groups."""
    return np.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, rows - array.shape[-1])])


def stored_bytes(bits: int) -> int:
    return 1 if bits <= 8 else 2
