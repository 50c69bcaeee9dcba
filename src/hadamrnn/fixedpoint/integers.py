"""Compute exactly with integer arrays: saturate, round, shift, Hadamard transform, and packing.

A batch of states is `(hidden_size, streams)`, so that a butterfly adds and subtracts whole contiguous rows.
No function rounds unless its name says so.

Packed codes of p bits form a bit string: code i takes bits p i to p (i + 1), least significant first.
Numbers are in two's complement; a sign is one bit, 1 for -1. The last byte is padded with zeros.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import factor_matrix, order_factors
from hadamrnn.settings import check_shape

Int32 = NDArray[np.int32]
Bytes = NDArray[np.uint8]

MULTIPLIER_BITS = 16
MAX_SHIFT = 62


def signed_range(bits: int) -> tuple[int, int]:
    """Return the least and the greatest number of `bits` bits.

    >>> signed_range(12)
    (-2048, 2047)
    """
    return -(1 << bits - 1), (1 << bits - 1) - 1


def rounding_factor(block_size: int) -> tuple[int, int]:
    """Return (m, e) with m / 2^e = 1 / sqrt(block_size): exactly when m is 1, else m to 16 bits.

    >>> rounding_factor(256), rounding_factor(512), rounding_factor(12)
    ((1, 4), (46341, 20), (37837, 17))
    """
    exponent = block_size.bit_length() - 1
    if block_size == 1 << exponent and exponent % 2 == 0:
        return 1, exponent // 2
    shift = MULTIPLIER_BITS + (block_size.bit_length() - 1) // 2
    # round(2^shift / sqrt(n)) without floating point: the nearest integer to the root of 4^shift / n.
    twice_root = math.isqrt((4 << 2 * shift) // block_size)
    return (twice_root + 1) // 2, shift


def scaled_integers(values: NDArray[np.float64], bits: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return integers of `bits` bits and a sign, and shifts of 1 to 62, with values ~ integer / 2^shift.

    >>> [each.tolist() for each in scaled_integers(np.array([0.75, -3.0]), 8)]
    [[192, -192], [8, 6]]
    """
    shifts = np.clip(bits - np.frexp(values)[1], 1, MAX_SHIFT)
    largest = (1 << bits) - 1
    whole = np.clip(np.rint(np.ldexp(values, shifts)), -largest, largest)
    return whole.astype(np.int64), shifts.astype(np.int64)


def saturate(values: NDArray[Any], bits: int) -> tuple[NDArray[Any], int]:
    """Clip `values` to `bits` bits in place; return them and how many were clipped.

    >>> saturate(np.array([-9, 3, 8]), bits=4)
    (array([-8,  3,  7]), 2)
    """
    low, high = signed_range(bits)
    if values.size == 0 or (values.min() >= low and values.max() <= high):
        return values, 0
    clipped = int(np.count_nonzero((values < low) | (values > high)))
    np.clip(values, low, high, out=values)
    return values, clipped


def round_shift(values: NDArray[Any], shift: int | NDArray[np.int64]) -> NDArray[Any]:
    """Return round(values / 2^shift), ties towards +infinity, without overflow in values + half.

    Shifts in an array are 1 or more.

    >>> round_shift(np.array([-3, -2, -1, 1, 2, 3]), 1)
    array([-1, -1,  0,  1,  1,  2])
    """
    if isinstance(shift, int) and shift == 0:
        return values
    return np.asarray((values >> shift) + ((values >> shift - 1) & 1))


def shift_left(values: NDArray[Any], shift: int) -> NDArray[Any]:
    """Return values * 2^shift; a negative shift rounds as `round_shift` does."""
    return np.asarray(values << shift) if shift >= 0 else round_shift(values, -shift)


def round_scale(values: Int32, multiplier: int, shift: int) -> Int32:
    """Return (values * multiplier + 2^(shift-1)) >> shift; the product needs 64 bits."""
    if multiplier == 1:
        return round_shift(values, shift)
    product = values.astype(np.int64)
    product *= multiplier
    product += (1 << shift) >> 1
    product >>= shift
    return product.astype(np.int32)


def exact_product(left: NDArray[Any], right: NDArray[Any]) -> Int32:
    """Return left @ right by float64, which is fast, and exact while every partial sum is below 2^31."""
    return np.asarray(np.asarray(left, np.float64) @ np.asarray(right, np.float64)).astype(np.int32)


def hadamard_transform(states: Int32, block_size: int) -> Int32:
    """Return (I kron H_b) states, a new array, for states `(hidden_size, streams)`.

    H_b = F_1 kron ... kron F_r is applied factor by factor: a factor of order 2 as a butterfly, any other as
    a small product.
    """
    source, target, spare = states, np.empty_like(states), np.empty_like(states)
    before, after = states.shape[0] // block_size, block_size
    for factor in order_factors(block_size):
        after //= factor
        shape = (before, factor, after, states.shape[1])
        rows, new_rows = source.reshape(shape), target.reshape(shape)
        if factor == 2:
            np.add(rows[:, 0], rows[:, 1], out=new_rows[:, 0])
            np.subtract(rows[:, 0], rows[:, 1], out=new_rows[:, 1])
        else:
            flat = (before, factor, after * states.shape[1])
            new_rows.reshape(flat)[:] = exact_product(factor_matrix(factor), rows.reshape(flat))
        before *= factor
        source, target, spare = target, spare, target
    return source if source is not states else states.copy()


def check_integers(
    name: str,
    array: NDArray[Any],
    shape: tuple[int, ...],
    bounds: tuple[int, int] | None = None,
    advice: str = "",
) -> None:
    """Refuse anything but integers of this shape within the given bounds."""
    if array.dtype.kind not in "iu" or array.shape != shape:
        got = f"{array.dtype} of {array.shape}"
        raise InputError(f"{name} must hold integers of shape {shape}, got {got}.{advice}")
    if bounds and array.size and (array.min() < bounds[0] or array.max() > bounds[1]):
        raise InputError(
            f"{name} must lie in {bounds[0]}..{bounds[1]}, got {array.min()}..{array.max()}.{advice}"
        )


def pack(codes: NDArray[Any], bits: int) -> Bytes:
    """Pack `codes` into bytes, row by row; codes of one bit are signs.

    >>> pack(np.array([-1, 1]), bits=4).tolist()
    [31]
    """
    if bits == 1:
        return np.packbits(codes < 0, bitorder="little")
    flat = codes.astype(np.uint32).reshape(-1, 1)  # two's complement, truncated to `bits` bits below
    return np.packbits((flat >> np.arange(bits, dtype=np.uint32)) & 1, bitorder="little")


def unpack(data: Bytes, count: int, bits: int) -> NDArray[np.int64]:
    """Unpack `count` codes of `bits` bits; refuse data of another length or with nonzero padding.

    >>> unpack(np.array([31], np.uint8), count=2, bits=4).tolist()
    [-1, 1]
    """
    size = (count * bits + 7) // 8
    check_shape(f"The bytes of {count} codes of {bits} bits", data, size)
    stream = np.unpackbits(data, bitorder="little")
    if stream[count * bits :].any():
        raise InputError("The bits after the last code must be zero.")
    codes = np.zeros(count, np.int64)
    for bit, column in enumerate(stream[: count * bits].reshape(count, bits).T):
        place = -(1 << bit) if bit == bits - 1 else 1 << bit  # the last bit is the sign
        codes += place * column.astype(np.int64)
    return 1 + 2 * codes if bits == 1 else codes  # a single bit is the sign: 0 or -1
