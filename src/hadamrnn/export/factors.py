"""Larger factors of a Hadamard matrix as C holds them: one bit for each element of a finite field.

Paley's matrices come from a conference matrix over the field with q = prime^exponent elements,

    C = [[0, 1], [e, Q]],   Q_ij = chi(x_i - x_j),   chi the quadratic character

    type one:  order q + 1,      e = -1,  H x = C x + x
    type two:  order 2 (q + 1),  e = 1,   H (a, b) = (C s + d, C d - s),  s = a + b, d = a - b

where type two interleaves: a are the even entries, b the odd ones. q bits instead of order^2.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.orders import SignMatrix, factor_matrix


@dataclass(frozen=True)
class Factor:
    """A Paley matrix by its quadratic character."""

    order: int
    kind: int  # 1 or 2
    prime: int
    exponent: int
    character: tuple[int, ...]  # chi of element 0, 1, ..., q - 1; element i has i's base-`prime` digits

    @property
    def field_size(self) -> int:
        return int(self.prime**self.exponent)

    @property
    def corner(self) -> int:
        """e, the first column of the conference matrix."""
        return -1 if self.kind == 1 else 1


def make_factor(order: int) -> Factor:
    """Return the factor whose `factor_as_matrix` is `orders.factor_matrix(order)`; refuse any other.

    >>> make_factor(12).character
    (0, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
    """
    matrix = factor_matrix(order).astype(np.int64)
    for kind, field_size in ((1, order - 1), (2, order // 2 - 1)):
        prime, exponent = _prime_power(field_size)
        if prime and field_size % 4 == (3 if kind == 1 else 1):
            column = matrix[1:, 1] if kind == 1 else matrix[2::2, 2]
            character = (0, *(int(entry) for entry in column[1:]))
            factor = Factor(order, kind, prime, exponent, character)
            if np.array_equal(factor_as_matrix(factor), matrix):
                return factor
    raise InputError(
        f"C holds blocks of powers of two and Paley's orders, not the factor {order}. "
        f"Choose another block_size (num_blocks)."
    )


def factor_as_matrix(factor: Factor) -> SignMatrix:
    """Return the matrix that the C of `factor` multiplies with, `(order, order)`: the check of its bits."""
    size = factor.field_size
    elements = np.arange(size)
    index = np.zeros((size, size), np.int64)
    for place in (factor.prime**power for power in range(factor.exponent)):
        digits = elements // place % factor.prime
        index += (digits[:, None] - digits[None, :]) % factor.prime * place
    conference = np.zeros((size + 1, size + 1), np.int64)
    conference[0, 1:], conference[1:, 0] = 1, factor.corner
    conference[1:, 1:] = np.array(factor.character)[index]
    return _type_one(conference) if factor.kind == 1 else _type_two(conference)


def _type_one(conference: NDArray[np.int64]) -> SignMatrix:
    return (conference + np.eye(len(conference), dtype=np.int64)).astype(np.int8)


def _type_two(conference: NDArray[np.int64]) -> SignMatrix:
    inner = np.kron(conference, np.array([[1, 1], [1, -1]]))
    matrix: SignMatrix = (inner + np.kron(np.eye(len(conference)), [[1, -1], [-1, -1]])).astype(np.int8)
    return matrix


def _prime_power(number: int) -> tuple[int, int]:
    """Return (p, e) with number = p^e, or (0, 0)."""
    prime = next((p for p in range(2, number + 1) if number % p == 0), 0)
    exponent, rest = 0, number
    while prime and rest % prime == 0:
        rest //= prime
        exponent += 1
    return (prime, exponent) if rest == 1 and exponent else (0, 0)
