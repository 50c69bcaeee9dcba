"""Define one layer of an integer network: its weights, its shifts and its output.

One step of a layer, for b = `block_size`, the leak k of the unit's block, and the codes x that the layer
reads:

    a   = (u * H h) << state_shift                                    exact
    a   = a - round(a / 2^k)                                          if the block leaks
    acc = a + shift(U x, input_shift) + (b_i << input_bias_shift)
    h   = saturate(round(acc * round_multiplier / 2^round_shift))     to activation_bits
    h   = max(h, 0)                                                   recurrence "relu" only

In every layer except the last, the output has codes of output_bits:

    y   = max(h, 0)                                                   without gain
    y   = saturate(max(round((h * gain + (offset << offset_shift)) / 2^gain_shift), 0))
    y   = saturate(y + shift(x, skip_shift))                          if the layer has a skip

The next layer runs once every `stride` steps of this one, and reads the sum of their y.
`round` takes ties towards +infinity: (y + 2^(s-1)) >> s. A negative shift is a right shift that rounds this
way. u is `signs`, H = I kron `orders.hadamard_matrix(block_size)`. The product of acc with `round_multiplier`
needs 64 bits; everything else fits 32, which `__post_init__` proves (see `overflow`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.architecture import ACTIVATION_BITS, IntegerWeightBits, WeightBits
from hadamrnn.errors import InputError, short
from hadamrnn.fixedpoint.integers import check_integers, rounding_factor, signed_range
from hadamrnn.fixedpoint.overflow import AccumulatorOverflow, prove_input, prove_output, prove_recurrence
from hadamrnn.network import MAX_LEAK, Network, Recurrence, check_deployable
from hadamrnn.settings import OneOf, check, check_equal, check_int


class ArrayFields:
    """A dataclass that compares all fields for equality, arrays included."""

    def __eq__(self, other: object) -> bool:
        same_class = type(self) is type(other)
        return same_class and all(_same(value, vars(other)[name]) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left is not None and right is not None and np.array_equal(left, right)
    return bool(left == right)


@dataclass(frozen=True, eq=False)
class IntegerLayer(ArrayFields):
    """One layer; `IntegerLayer.of` reads its shape from a `Network`. Arrays are read-only."""

    block_size: int  # b, divides hidden_size
    weight_bits: WeightBits  # bits of U: 2..8, or "ternary" (codes -1, 0, 1)
    activation_bits: int  # p_a, 2..16, bits of states and biases
    input_bits: int  # p_i, 2..16, bits of input codes

    signs: NDArray[np.int8]  # u, +-1, (hidden_size,)
    input_weight_int: NDArray[np.int8]  # U, (hidden_size, input_size)
    hidden_shift: int  # n_h: alpha_W alpha_h = 2^n_h
    accumulator_frac_bits: int  # F: acc counts in units of 2^-F

    input_bias_int: NDArray[np.int16] | None = None  # b_i, (hidden_size,), activation_bits
    input_bias_shift: int = 0  # s3
    leak: tuple[int, ...] = ()  # k of each block, 0 if it does not leak; empty if no block leaks
    recurrence: str = "linear"
    input_kind: str = "dense"  # or "one_hot": the layer reads the index of the hot channel

    output_bits: int | None = None  # bits of y, 2..16; None in the last layer
    gain_int: NDArray[np.int16] | None = None  # (hidden_size,), activation_bits; with normalize or skip
    offset_int: NDArray[np.int16] | None = None  # (hidden_size,), activation_bits; with gain_int
    gain_shift: int = 0  # 0..30
    offset_shift: int = 0  # 0..30
    skip_shift: int | None = None  # -30..30; None without a skip

    def __post_init__(self) -> None:
        self._check_numbers()
        self._check_arrays()
        self._check_output()
        prove_input(self)
        prove_recurrence(self)
        prove_output(self)

    @classmethod
    def of(cls, network: Network, index: int, **fields: Any) -> IntegerLayer:
        """Build layer `index` of `network`, counted from 0, with these further fields."""
        return cls(**layer_fields(network, index), **fields)

    @property
    def hidden_size(self) -> int:
        return len(self.signs)

    @property
    def input_size(self) -> int:
        return int(self.input_weight_int.shape[1])

    @property
    def is_last(self) -> bool:
        """Whether this is the last layer, whose states are read out."""
        return self.output_bits is None

    @property
    def state_shift(self) -> int:
        """The left shift of the recurrent product, s1 = F - (p_a - n_h) >= 0."""
        return self.accumulator_frac_bits - (self.activation_bits - self.hidden_shift)

    @property
    def input_shift(self) -> int:
        """The left shift of U x, s2 = F - (p + p_i - 2); if negative, a rounded right shift by -s2."""
        return self.accumulator_frac_bits - (weight_frac_bits(self.weight_bits) + self.input_bits - 1)

    @property
    def input_bias(self) -> NDArray[np.int64]:
        """The shifted bias b_i << s3 `(hidden_size,)`, zeros if there is none."""
        if self.input_bias_int is None:
            return np.zeros(self.hidden_size, np.int64)
        return self.input_bias_int.astype(np.int64) << self.input_bias_shift

    @property
    def round_multiplier(self) -> int:
        """The factor for 1 / sqrt(block_size): 1 if that is a power of two, 46341 for 2^odd, else 16 bits."""
        return rounding_factor(self.block_size)[0]

    @property
    def round_shift(self) -> int:
        """The right shift after `round_multiplier`; may be 0 for a block of 1."""
        return rounding_factor(self.block_size)[1] + self.state_shift

    @property
    def unit_leaks(self) -> NDArray[np.int64]:
        """The leak k of each unit `(hidden_size,)`, 0 if it does not leak."""
        leaks = self.leak or (0,) * (self.hidden_size // self.block_size)
        return np.repeat(np.array(leaks, np.int64), self.block_size)

    def _check_numbers(self) -> None:
        check("weight_bits", self.weight_bits, IntegerWeightBits)
        check_int("activation_bits", self.activation_bits, *ACTIVATION_BITS)
        check_int("input_bits", self.input_bits, 2, 16)
        check_int("hidden_shift", self.hidden_shift, 0, 31)
        check_int("accumulator_frac_bits", self.accumulator_frac_bits, -31, 62)
        check_int("state_shift", self.state_shift, 0, 31)
        check_int("input_shift", self.input_shift, -30, 31)
        check_int("input_bias_shift", self.input_bias_shift, 0, 31)
        check("recurrence", self.recurrence, Recurrence)
        check("input_kind", self.input_kind, Annotated[str, OneOf(("dense", "one_hot"))])
        if self.input_kind == "one_hot":
            check_equal("input_bits of one-hot inputs, which are exact,", self.input_bits, 2)

    def _check_arrays(self) -> None:
        weight = np.asarray(self.input_weight_int)
        if weight.ndim != 2 or 0 in weight.shape:
            raise InputError(f"input_weight_int must be (hidden_size, input_size), got {weight.shape}.")
        hidden, bounds = weight.shape[0], signed_range(self.activation_bits)
        freeze_array(self, "input_weight_int", np.int8, weight.shape, weight_range(self.weight_bits))
        freeze_array(self, "signs", np.int8, (hidden,), (-1, 1), zero=False)
        if self.input_bias_int is not None:
            freeze_array(self, "input_bias_int", np.int16, (hidden,), bounds)
        check_int("block_size", self.block_size, 1, hidden)
        if hidden % self.block_size:
            raise InputError(
                f"block_size must divide the {hidden} units of the layer, got {self.block_size}."
            )
        if self.leak:
            check_equal("The number of values of leak", len(self.leak), hidden // self.block_size)
        for k in self.leak:
            check_int("Every k of leak", k, 0, MAX_LEAK)

    def _check_output(self) -> None:
        scaled = self.gain_int is not None
        check_presence(self, "offset_int", scaled, "layers with gain_int")
        for name in ("gain_int", "offset_int"):
            if scaled:
                freeze_array(self, name, np.int16, (self.hidden_size,), signed_range(self.activation_bits))
        for name in ("gain_shift", "offset_shift"):
            check_int(name, getattr(self, name), 0, 30 if scaled else 0)
        if self.skip_shift is not None:
            check_int("skip_shift", self.skip_shift, -30, 30)
        if self.output_bits is not None:
            check_int("output_bits", self.output_bits, 2, 16)
            if not scaled:  # the layer output is the states
                check_equal("output_bits of a layer without gains", self.output_bits, self.activation_bits)


def finest_layer(make: Callable[[int], IntegerLayer], most: int, least: int) -> IntegerLayer:
    """Return the layer with as many fractional accumulator bits as provably fit int32."""
    for frac_bits in range(most, least, -1):
        with suppress(AccumulatorOverflow):
            return make(frac_bits)
    return make(least)


def layer_fields(network: Network, index: int) -> dict[str, Any]:
    """Return the fields of layer `index` that follow from the network's description."""
    return {
        "block_size": network.widths[index] // network.num_blocks,
        "weight_bits": network.weight_bits,
        "activation_bits": network.activation_bits,
        "leak": network.block_leaks,
        "recurrence": network.recurrence,
        "input_kind": "one_hot" if index == 0 and network.input_kind == "one_hot" else "dense",
    }


def check_integer_network(network: Network) -> None:
    """Refuse a network without an integer form, which must be unidirectional and have few bits."""
    check_deployable(network, "An integer network")
    check("weight_bits", network.weight_bits or "none", IntegerWeightBits)
    if network.activation_bits is None:
        raise InputError("An integer network needs activation_bits, got none. Quantize with 12, for example.")


def activation_bits(network: Network) -> int:
    """Return p_a of a network that has an integer form."""
    assert network.activation_bits is not None  # see check_integer_network
    return network.activation_bits


def weight_frac_bits(bits: WeightBits) -> int:
    """Return p - 1: U = alpha_U U_int / 2^(p-1); a ternary U is alpha_U U_int."""
    return 0 if bits == "ternary" else int(bits or 0) - 1


def weight_range(bits: WeightBits) -> tuple[int, int]:
    """Return the least and the greatest code of U and V."""
    return (-1, 1) if bits == "ternary" else signed_range(int(bits or 0))


def check_scale(name: str, value: object) -> None:
    """Raise unless `value` is a finite positive float."""
    if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
        raise InputError(f"{name} must be a finite positive float, got {short(value)}.")


def freeze_array(
    owner: object,
    name: str,
    dtype: type,
    shape: tuple[int, ...],
    bounds: tuple[int, int],
    *,
    zero: bool = True,
) -> None:
    """Replace an array of a frozen dataclass by a read-only copy; it must hold integers within bounds.

    With `zero=False` the entry 0 is refused too, which leaves signs if the bounds are -1..1.
    """
    array = np.asarray(getattr(owner, name))
    check_integers(name, array, shape, bounds)
    if not zero and not array.all():
        raise InputError(f"{name} must hold +1 and -1 only, got a 0.")
    array = array.astype(dtype, copy=True, order="C")
    array.setflags(write=False)
    object.__setattr__(owner, name, array)


def check_presence(owner: object, name: str, wanted: bool, where: str) -> bool:
    """Raise unless a field is present exactly when it is expected; return whether it is."""
    if (getattr(owner, name) is not None) != wanted:
        raise InputError(f"{name} belongs to {where}, and only there.")
    return wanted
