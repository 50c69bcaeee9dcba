"""Codes of p bits as a string of bits: code i takes bits p i to p (i + 1), least significant first.

Numbers are in two's complement; a sign is one bit, 1 for -1. The last byte is filled up with zeros.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError

Bytes = NDArray[np.uint8]


def packed_size(count: int, bits: int) -> int:
    """Return the whole bytes that `count` codes of `bits` bits take.

    >>> packed_size(10, 12)
    15
    """
    return (count * bits + 7) // 8


def pack(codes: NDArray[Any], bits: int) -> Bytes:
    """Return the bits of `codes`, row by row.

    >>> pack(np.array([-1, 1]), bits=4).tolist()
    [31]
    """
    flat = codes.astype(np.uint32).reshape(-1, 1)  # two's complement, cut to `bits` bits below
    return np.packbits((flat >> np.arange(bits, dtype=np.uint32)) & 1, bitorder="little")


def unpack(data: Bytes, count: int, bits: int) -> NDArray[np.int64]:
    """Return `count` codes of `bits` bits; refuse data of another length or with padding that is not zero.

    >>> unpack(np.array([31], np.uint8), count=2, bits=4).tolist()
    [-1, 1]
    """
    if data.size != packed_size(count, bits):
        raise InputError(
            f"{count} codes of {bits} bits take {packed_size(count, bits)} bytes, got {data.size}."
        )
    stream = np.unpackbits(data, bitorder="little")
    if stream[count * bits :].any():
        raise InputError("The bits after the last code must be zero.")
    codes = np.zeros(count, np.int64)
    for bit, column in enumerate(stream[: count * bits].reshape(count, bits).T):
        place = -(1 << bit) if bit == bits - 1 else 1 << bit  # the last one is the sign's place
        codes += place * column.astype(np.int64)
    return codes


def unpack_unsigned(data: Bytes, count: int, bits: int) -> NDArray[np.int64]:
    """Return `count` codes of `bits` bits without a sign.

    >>> unpack_unsigned(np.array([31], np.uint8), count=2, bits=4).tolist()
    [15, 1]
    """
    return unpack(data, count, bits) & (1 << bits) - 1


def pack_signs(signs: NDArray[Any]) -> Bytes:
    """Return one bit a sign, 1 for -1."""
    return np.packbits(signs < 0, bitorder="little")


def unpack_signs(data: Bytes, count: int) -> NDArray[np.int64]:
    """Return `count` signs."""
    return 1 + 2 * unpack(data, count, bits=1)  # the one bit is its own sign's place: 0 or -1
