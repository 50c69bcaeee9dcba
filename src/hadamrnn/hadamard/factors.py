"""Larger factors of a Hadamard matrix as C holds them: a bit for each entry of a generating row.

Paley's matrices come from a conference matrix over the field with q = prime^exponent elements,

    C = [[0, 1], [e, Q]],   Q_ij = chi(x_i - x_j),   chi the quadratic character

    type one:  order q + 1,      e = -1,  H x = C x + x
    type two:  order 2 (q + 1),  e = 1,   H (a, b) = (C s + d, C d - s),  s = a + b, d = a - b

where type two interleaves: a are the even entries, b the odd ones. Williamson's matrices are a 4 x 4 array
of circulants of side m, where block (r, s) is +- circulant number r xor s. That is q or 4 m bits instead of
order^2. Start reading at `make_factor`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import SignMatrix, factor_matrix

# Bit s of entry r: the sign of block (r, s) of Williamson's array is -1.
WILLIAMSON_NEGATIVE = (0b0000, 0b0101, 0b1001, 0b0011)


@dataclass(frozen=True)
class Paley:
    """A Paley matrix by its quadratic character."""

    order: int
    kind: int  # 1 or 2
    prime: int
    exponent: int
    signs: tuple[int, ...]  # chi of element 0, 1, ..., q - 1; element i has i's base-`prime` digits

    @property
    def field_size(self) -> int:
        return int(self.prime**self.exponent)

    @property
    def corner(self) -> int:
        """e, the first column of the conference matrix."""
        return -1 if self.kind == 1 else 1

    def matrix(self) -> SignMatrix:
        """Return the matrix that the C of this factor multiplies with, `(order, order)`."""
        size = self.field_size
        elements = np.arange(size)
        index = np.zeros((size, size), np.int64)
        for place in (self.prime**power for power in range(self.exponent)):
            digits = elements // place % self.prime
            index += (digits[:, None] - digits[None, :]) % self.prime * place
        conference = np.zeros((size + 1, size + 1), np.int64)
        conference[0, 1:], conference[1:, 0] = 1, self.corner
        conference[1:, 1:] = np.array(self.signs)[index]
        eye = np.eye(size + 1, dtype=np.int64)
        if self.kind == 1:
            return (conference + eye).astype(np.int8)
        blown_up = np.kron(conference, [[1, 1], [1, -1]]) + np.kron(eye, [[1, -1], [-1, -1]])
        return np.asarray(blown_up, np.int8)


@dataclass(frozen=True)
class Williamson:
    """A Williamson matrix by the first rows of its four circulants."""

    order: int
    signs: tuple[int, ...]  # the rows of A, B, C, D one after the other

    @property
    def side(self) -> int:
        return self.order // 4

    def matrix(self) -> SignMatrix:
        """Return the matrix that the C of this factor multiplies with, `(order, order)`."""
        index = (np.arange(self.side)[None, :] - np.arange(self.side)[:, None]) % self.side
        circulants = np.array(self.signs).reshape(4, self.side)[:, index]
        rows = [
            [circulants[r ^ s] * (1 - 2 * (WILLIAMSON_NEGATIVE[r] >> s & 1)) for s in range(4)]
            for r in range(4)
        ]
        return np.block(rows).astype(np.int8)


Factor = Paley | Williamson


def make_factor(order: int) -> Factor:
    """Return the factor whose `matrix()` is `orders.factor_matrix(order)`; refuse any other.

    >>> make_factor(12).signs
    (0, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
    """
    matrix = factor_matrix(order).astype(np.int64)
    candidates: list[Factor] = [*_paley(matrix)]
    if order % 4 == 0:
        candidates.append(Williamson(order, tuple(matrix[0].tolist())))
    for factor in candidates:
        if np.array_equal(factor.matrix(), matrix):
            return factor
    raise InputError(
        f"C holds blocks of powers of two and of Paley's and Williamson's orders, not the factor {order}. "
        f"Choose another block_size (num_blocks)."
    )


def _paley(matrix: NDArray[np.int64]) -> list[Paley]:
    """Return the Paley matrices of this order with the character that `matrix` would have."""
    order = len(matrix)
    found = []
    for kind, field_size in ((1, order - 1), (2, order // 2 - 1)):
        prime, exponent = _prime_power(field_size)
        if prime and field_size % 4 == (3 if kind == 1 else 1):
            column = matrix[1:, 1] if kind == 1 else matrix[2::2, 2]
            found.append(Paley(order, kind, prime, exponent, (0, *column[1:].tolist())))
    return found


def _prime_power(number: int) -> tuple[int, int]:
    """Return (p, e) with number = p^e, or (0, 0)."""
    prime = next((p for p in range(2, number + 1) if number % p == 0), 0)
    exponent, rest = 0, number
    while prime and rest % prime == 0:
        rest //= prime
        exponent += 1
    return (prime, exponent) if rest == 1 and exponent else (0, 0)
