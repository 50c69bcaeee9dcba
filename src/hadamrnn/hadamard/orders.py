"""Build Hadamard matrices of all orders that the classical constructions reach, with numpy only.

A Hadamard matrix H of order n has entries +-1 and H H' = n I. Every order built here is a
Kronecker product of *factors*, and a factor is the Sylvester matrix of order 2, a Paley matrix
(type I of order q + 1, type II of order 2 (q + 1), q a prime power) or a Williamson matrix:

    H_n = F_1 kron F_2 kron ... kron F_r

The factors also make a product with H fast: n (|F_1| + ... + |F_r|) operations instead
of n^2. `order_factors` therefore selects the cheapest list, and `hadamard_matrix` multiplies it out.
Start reading there; `make_factor` builds the factors from the signs that generate them.

Paley's matrices come from a conference matrix over the field with q = prime^exponent elements,

    C = [[0, 1], [e, Q]],   Q_ij = chi(x_i - x_j),   chi the quadratic character

    type one:  order q + 1,      e = -1,  H x = C x + x
    type two:  order 2 (q + 1),  e = 1,   H (a, b) = (C s + d, C d - s),  s = a + b, d = a - b

Type two interleaves them: a are the even entries, b the odd ones. Williamson's matrices are a 4 x 4 array of
circulants of side m, in which block (r, s) is +- circulant number r xor s. So q or 4 m signs determine a
factor instead of order^2, and C stores only these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, reduce
from itertools import accumulate, product
from operator import mul

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError, short

SignMatrix = NDArray[np.int8]

# Bit s of entry r: the sign of block (r, s) of Williamson's array is -1.
WILLIAMSON_NEGATIVE = (0b0000, 0b0101, 0b1001, 0b0011)

# First rows (+ = 1, - = -1) of four symmetric circulants A, B, C, D of side m with
# A^2 + B^2 + C^2 + D^2 = 4 m I, found by search, for orders 4 m without a Paley matrix.
_WILLIAMSON_ROWS = {
    23: (
        "+--++-+-+-++++-+-+-++--",
        "+--+-+-++++++++++-+-+--",
        "+++---++--++++--++---++",
        "+--+--+++------+++--+--",
    ),
    29: (
        "+--+++--++-+--++--+-++--+++--",
        "+--+-+-+++++++--+++++++-+-+--",
        "+--++----+-+-++++-+-+----++--",
        "+++-+++-+----++++----+-+++-++",
    ),
}


@dataclass(frozen=True)
class Paley:
    """A Paley matrix, given by its quadratic character."""

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
        """The entry e in the first column of the conference matrix."""
        return -1 if self.kind == 1 else 1

    def matrix(self) -> SignMatrix:
        """Return the matrix that the C of this factor multiplies with, `(order, order)`."""
        size = self.field_size
        elements = np.arange(size, dtype=np.int32)
        index = np.zeros((size, size), np.int32)
        for place in (self.prime**power for power in range(self.exponent)):
            digits = elements // place % self.prime
            index += (digits[:, None] - digits[None, :]) % self.prime * place
        conference = np.zeros((size + 1, size + 1), np.int8)
        conference[0, 1:], conference[1:, 0] = 1, self.corner
        conference[1:, 1:] = np.array(self.signs, np.int8)[index]
        eye = np.eye(size + 1, dtype=np.int8)
        if self.kind == 1:
            return conference + eye
        sums, signs = np.array([[1, 1], [1, -1]], np.int8), np.array([[1, -1], [-1, -1]], np.int8)
        blown_up: SignMatrix = np.kron(conference, sums) + np.kron(eye, signs)
        return blown_up


@dataclass(frozen=True)
class Williamson:
    """A Williamson matrix, given by the first rows of its four circulants."""

    order: int
    signs: tuple[int, ...]  # the rows of A, B, C, D, one after another

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


@cache
def make_factor(order: int) -> Factor:
    """Return the construction for this order: Paley's first type, else the second, else Williamson's.

    >>> make_factor(12).signs
    (0, 1, -1, 1, 1, 1, -1, -1, -1, 1, -1)
    """
    if found := _paley_field(order):
        kind, prime, exponent = found
        return Paley(order, kind, prime, exponent, _quadratic_character(prime, exponent))
    if not has_factor(order):
        raise InputError(f"No construction gives a Hadamard matrix of order {order} by itself.")
    rows = "".join(_WILLIAMSON_ROWS[order // 4])
    return Williamson(order, tuple(1 if sign == "+" else -1 for sign in rows))


def has_factor(order: int) -> bool:
    """Return whether `make_factor` has a construction of this order."""
    return _paley_field(order) is not None or (order % 4 == 0 and order // 4 in _WILLIAMSON_ROWS)


def _paley_field(order: int) -> tuple[int, int, int] | None:
    """Return the type of this order's Paley matrix with the prime and exponent of q, or None.

    q is 3 mod 4 in type one and 1 mod 4 in type two.
    """
    half = order // 2 - 1
    if order % 4 == 0 and (power := _prime_power(order - 1)):
        return 1, *power
    if order % 4 == 0 and half % 4 == 1 and (power := _prime_power(half)):
        return 2, *power
    return None


def _quadratic_character(prime: int, exponent: int) -> tuple[int, ...]:
    """Return chi of every element of the field: 0 for zero, 1 for squares, -1 for the others.

    An element of GF(p^e) is a polynomial of degree < e over GF(p), written as base-p digits.
    """
    digits = np.array(list(product(range(prime), repeat=exponent)), np.int64)[:, ::-1]
    place = prime ** np.arange(exponent)
    modulus = _irreducible(prime, exponent)
    squares = {int(_multiply(x, x, modulus, prime) @ place) for x in digits[1:]}
    return (0, *(1 if element in squares else -1 for element in range(1, len(digits))))


def _multiply(
    left: NDArray[np.int64], right: NDArray[np.int64], modulus: NDArray[np.int64], prime: int
) -> NDArray[np.int64]:
    """Multiply two polynomials (lowest degree first) modulo a monic one, over GF(prime)."""
    degree = len(modulus) - 1
    full = np.convolve(left, right) % prime
    full = np.pad(full, (0, max(0, degree - len(full))))
    for power in range(len(full) - 1, degree - 1, -1):
        full[power - degree : power + 1] = (full[power - degree : power + 1] - full[power] * modulus) % prime
    return full[:degree]


def _irreducible(prime: int, degree: int) -> NDArray[np.int64]:
    """Return the first irreducible monic polynomial of `degree`."""
    divisors = [divisor for lower in range(1, degree // 2 + 1) for divisor in _monic(prime, lower)]
    return next(
        polynomial
        for polynomial in _monic(prime, degree)
        if all(_multiply(np.array([1]), polynomial, divisor, prime).any() for divisor in divisors)
    )


def _monic(prime: int, degree: int) -> Iterator[NDArray[np.int64]]:
    """Yield every monic polynomial of `degree` over GF(prime), lowest coefficient first."""
    return (np.array([*tail, 1], np.int64) for tail in product(range(prime), repeat=degree))


@cache
def _prime_power(n: int) -> tuple[int, int] | None:
    """Return (p, e) with n = p^e, e >= 1, or None."""
    if n < 2:
        return None
    prime = next((p for p in range(2, int(n**0.5) + 1) if n % p == 0), n)
    exponent = 0
    while n % prime == 0:
        n //= prime
        exponent += 1
    return (prime, exponent) if n == 1 else None


def order_factors(order: int) -> tuple[int, ...]:
    """Return the orders of the Kronecker factors of `hadamard_matrix(order)`, largest first.

    >>> order_factors(512)
    (2, 2, 2, 2, 2, 2, 2, 2, 2)
    >>> order_factors(48)
    (12, 2, 2)
    """
    if not isinstance(order, int | np.integer):  # otherwise the cache would store 12.0 for 12
        raise InputError(f"The order of a Hadamard matrix must be an int, got {short(order)}.")
    factors = _cheapest_factors(int(order)) if order >= 1 else None
    if factors is None:
        below, above = nearest_orders(order)
        nearest = f"{below} and {above}" if below else f"{above}"
        raise InputError(
            f"A Hadamard matrix can be built for orders 1, 2 and most multiples of 4, got {order}. "
            f"Nearest valid orders: {nearest}."
        )
    return factors


@cache
def hadamard_matrix(order: int) -> SignMatrix:
    """Return the Hadamard matrix of `order`, entries +-1, shape `(order, order)`, read-only.

    For a power of two it is Sylvester's matrix S_{2^k}.

    >>> H = hadamard_matrix(12).astype(int)
    >>> bool((H @ H.T == 12 * np.eye(12)).all())
    True
    """
    factors = [factor_matrix(factor) for factor in order_factors(order)]
    matrix: SignMatrix = reduce(np.kron, factors, np.ones((1, 1), np.int8))
    matrix.setflags(write=False)
    return matrix


def hadamard_orders(limit: int) -> list[int]:
    """Return every order up to `limit` that `hadamard_matrix` can build, ascending.

    >>> hadamard_orders(24)
    [1, 2, 4, 8, 12, 16, 20, 24]
    """
    return [order for order in range(1, limit + 1) if _cheapest_factors(order) is not None]


def nearest_orders(order: int) -> tuple[int | None, int]:
    """Return the largest valid order below and the smallest above `order`."""
    below = next((n for n in range(order - 1, 0, -1) if _cheapest_factors(n) is not None), None)
    above = max(order + 1, 1)
    while _cheapest_factors(above) is None:
        above += 1
    return below, above


def split_order(order: int) -> tuple[int, int]:
    """Return (m, n) with H_order = H_m kron H_n and m + n as small as the factors allow.

    >>> split_order(512)
    (16, 32)
    """
    products = list(accumulate(order_factors(order), mul, initial=1))
    rows = min(products, key=lambda rows: rows + order // rows)
    return rows, order // rows


@cache
def factor_matrix(factor: int) -> SignMatrix:
    """Return the Hadamard matrix of one Kronecker factor, read-only."""
    matrix = np.array([[1, 1], [1, -1]], np.int8) if factor == 2 else make_factor(factor).matrix()
    matrix.setflags(write=False)
    return matrix


@cache
def _cheapest_factors(order: int) -> tuple[int, ...] | None:
    """Return the factors with the fewest additions per entry, sum(|F| - 1), or None if there are none."""
    if order == 1:
        return ()
    if order != 2 and order % 4:
        return None
    candidates: list[tuple[int, ...]] = [(order,)] if order == 2 or has_factor(order) else []
    for first in range(2, order // 2 + 1):
        if order % first == 0 and (first == 2 or has_factor(first)):
            rest = _cheapest_factors(order // first)
            if rest is not None:
                candidates.append(tuple(sorted((first, *rest), reverse=True)))
    return min(candidates, key=lambda factors: (sum(factors) - len(factors), factors), default=None)
