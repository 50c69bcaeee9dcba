"""The C of one layer: its constants, and the expressions that the templates of `runtime/` print."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.export.plan import GROUP, LayerPlan, has_input
from hadamrnn.fixedpoint.integers import pack, signed_range
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel


@dataclass(frozen=True)
class CArray:
    """One constant array of the weights file."""

    name: str
    type: str
    comment: str
    values: NDArray[Any]

    @property
    def count(self) -> int:
        return int(self.values.size)

    @property
    def bytes(self) -> int:
        return self.count * int(self.type.removeprefix("u").removeprefix("int").removesuffix("_t")) // 8


@dataclass(frozen=True)
class Codes:
    """How the codes of U and V are stored: `bits` each, or a byte each, in groups of eight."""

    bits: int
    packed: bool

    @property
    def small(self) -> bool:
        return self.packed and self.bits < 8

    @property
    def type(self) -> str:
        return "uint8_t" if self.small else "int8_t"

    @property
    def group_bytes(self) -> int:
        return self.bits if self.small else GROUP

    @property
    def straddles(self) -> bool:
        """Whether a code may lie in two bytes."""
        return self.small and 8 % self.bits != 0

    def array(self, name: str, comment: str, values: NDArray[Any]) -> CArray:
        how = f"{self.bits} bits each" if self.small else "a byte each"
        stored = pack(values, self.bits) if self.small else values.reshape(-1)
        return CArray(name, self.type, f"{comment}, {how}", stored)

    def read(self, name: str, pointer: str, i: int) -> str:
        """Return code i of the group of eight at `pointer`."""
        if not self.small:
            return f"(int32_t){name}_small({pointer}{f' + {i}' if i else ''})"
        byte, bit = divmod(self.bits * i, 8)
        where = f"{pointer} + {byte}" if byte else pointer
        if bit + self.bits <= 8:
            return f"{name}_in_byte({where}, {8 - bit - self.bits}u)"
        return f"{name}_in_two({where}, {16 - bit - self.bits}u)"


@dataclass(frozen=True)
class LayerCode:
    """One layer as the templates see it; `name` prefixes the model's symbols."""

    model: IntegerModel
    index: int
    plan: LayerPlan
    codes: Codes
    name: str

    @property
    def layer(self) -> IntegerLayer:
        return self.model.layers[self.index]

    @property
    def own(self) -> str:
        """The prefix of the layer's own symbols: the model's where there is no other layer."""
        return f"{self.name}_layer{self.suffix}" if self.suffix else self.name

    @property
    def suffix(self) -> str:
        """What tells its fields of the state from those of other layers."""
        return str(self.index) if self.model.network.num_layers > 1 else ""

    @property
    def cell(self) -> str:
        return f"int{self.plan.cell_bits}_t"

    @property
    def reads(self) -> bool:
        return has_input(self.layer)

    @property
    def biased(self) -> bool:
        """Whether b_i is not zero; a zero one may have any shift, so it is left out."""
        return self.layer.input_bias_int is not None and bool(np.any(self.layer.input_bias_int))

    @property
    def one_column(self) -> bool:
        """Whether a step reads a single column of U."""
        return self.kind == "one_hot" or (self.kind == "dense" and self.layer.input_size == 1)

    @property
    def kind(self) -> str:
        """Of its input; above the lowest layer it is dense."""
        return self.model.input_kind if self.index == 0 else "dense"

    @property
    def code_type(self) -> str:
        """Of what it reads in flash or RAM."""
        return stored_type(self.layer.input_bits) if self.kind == "embedded" else "int16_t"

    @property
    def high(self) -> int:
        return signed_range(self.layer.activation_bits)[1]

    @property
    def leaks(self) -> NDArray[np.int64]:
        """k for each group where it is the same in every group, else for each row."""
        rows = self._rows(self.layer.unit_leaks)
        return rows[::GROUP] if self.leaks_by_group else rows

    @property
    def leaks_by_group(self) -> bool:
        return self.layer.block_size % GROUP == 0

    @property
    def leak(self) -> int | None:
        """k of all units, 0 where none leaks; None where units differ."""
        found = {int(k) for k in self.layer.unit_leaks}
        return found.pop() if len(found) == 1 else None

    def drive(self, product: str) -> str:
        """Return shift(U x, s2) + (b_i << s3) of U x 2^max(s2, 0)."""
        right = max(-self.layer.input_shift, 0)
        return f"(({product} + INT32_C({1 << right >> 1})) >> {right})" if right else product

    def bias(self, i: int) -> str:
        """Return b_i << s3 of a row of the group, behind a plus; nothing where there is none."""
        if not self.biased:
            return ""
        read = read_value(self.name, self.bias_type, f"bias + {i}" if i else "bias")
        return f" + {read}{times_power(self.layer.input_bias_shift)}"

    @property
    def bias_type(self) -> str:
        return stored_type(self.layer.activation_bits)

    def arrays(self) -> list[CArray]:
        """Return the layer's constants, rows in groups of eight; a zero U or b_i is left out."""
        layer, start = self.layer, f"{self.own}_".removeprefix(f"{self.name}_")
        signs = pack(self._rows(layer.signs), 1)
        arrays = [CArray(f"{start}signs", "uint8_t", "u, a bit each, 1 for -1", signs)]
        if self.reads:
            arrays.append(self._input_weight(f"{start}input_weight"))
        if layer.input_bias_int is not None and self.biased:
            biases = self._rows(layer.input_bias_int)
            arrays.append(CArray(f"{start}input_bias", self.bias_type, "b_i", biases))
        if self.leak is None:
            each = "for every 8 rows" if self.leaks_by_group else "for every row"
            arrays.append(CArray(f"{start}leak", "uint8_t", f"k of 1 - 2^-k, {each}", self.leaks))
        if layer.gain_int is not None and layer.offset_int is not None:
            arrays.append(CArray(f"{start}gain", "int16_t", "of what the layer above reads", layer.gain_int))
            arrays.append(CArray(f"{start}offset", "int16_t", "added to h times its gain", layer.offset_int))
        return arrays

    def _input_weight(self, name: str) -> CArray:
        """U by columns `(input_size, rows)` where a step reads one column, else by groups of eight rows."""
        columns = self._rows(self.layer.input_weight_int.T)
        if self.one_column:
            return self.codes.array(name, "U, column after column", columns)
        groups = columns.reshape(self.layer.input_size, -1, GROUP).swapaxes(0, 1)
        return self.codes.array(name, "U, (group of 8 rows, column, row)", groups)

    def _rows(self, array: NDArray[Any]) -> NDArray[Any]:
        return padded_rows(array, self.plan.rows)


def padded_rows(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Fill up the last axis, the units of a layer, with zeros to whole groups."""
    return np.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, rows - array.shape[-1])])


def stored_type(bits: int) -> str:
    return "int8_t" if bits <= 8 else "int16_t"


def read_value(name: str, kind: str, pointer: str) -> str:
    """Return a constant of flash as int32_t."""
    reader = {"int8_t": "small", "int16_t": "word"}[kind]
    return f"(int32_t){name}_{reader}({pointer})"


def times_power(shift: int) -> str:
    """Return ` * 2^shift`, a product since C leaves a left shift of negative numbers undefined."""
    return f" * INT32_C({1 << shift})" if shift > 0 else ""
