"""Hadamard matrices of every order that the classical constructions reach. Numpy only.

A Hadamard matrix H of order n has entries +-1 and H H' = n I. Every order built here is a
Kronecker product of *factors*, and a factor is the Sylvester matrix of order 2, a Paley matrix
(type I of order q + 1, type II of order 2 (q + 1), q a prime power) or a Williamson matrix:

    H_n = F_1 kron F_2 kron ... kron F_r

The factors are also what makes a product with H fast: n (|F_1| + ... + |F_r|) operations instead
of n^2. `order_factors` therefore picks the cheapest list, and `hadamard_matrix` multiplies it out.
Start reading there.
"""

from __future__ import annotations

from functools import cache, reduce
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError

SignMatrix = NDArray[np.int8]

# First rows (+ = 1, - = -1) of four symmetric circulants A, B, C, D of side m with
# A^2 + B^2 + C^2 + D^2 = 4 m I, found by search: orders 4 m that Paley's matrices miss.
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


def order_factors(order: int) -> tuple[int, ...]:
    """Return the orders of the Kronecker factors of `hadamard_matrix(order)`, largest first.

    >>> order_factors(512)
    (2, 2, 2, 2, 2, 2, 2, 2, 2)
    >>> order_factors(48)
    (12, 2, 2)
    """
    factors = _cheapest_factors(order) if order >= 1 else None
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
    matrix = reduce(_kron, factors, np.ones((1, 1), np.int8))
    matrix.setflags(write=False)
    return matrix


def sylvester_matrix(order: int) -> SignMatrix:
    """Return S_{2^k} of Proposition 3.2: S_2 = [[1, 1], [1, -1]], S_{2^k} = S_2 kron S_{2^(k-1)}."""
    if order < 2 or order & (order - 1):
        below = 1 << max(order.bit_length() - 1, 1) if order > 1 else 2
        nearest = f"{below}" if order < 2 else f"{below} and {2 * below}"
        raise InputError(
            f"A Sylvester block needs a power-of-two size >= 2, got {order}. Nearest valid sizes: {nearest}."
        )
    return hadamard_matrix(order)


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


@cache
def factor_matrix(factor: int) -> SignMatrix:
    """Return the Hadamard matrix of one Kronecker factor, read-only."""
    if factor == 2:
        matrix = np.array([[1, 1], [1, -1]], np.int8)
    elif _prime_power(factor - 1) and factor % 4 == 0:
        matrix = _paley_one(factor - 1)
    elif factor % 4 == 0 and _prime_power(factor // 2 - 1) and (factor // 2 - 1) % 4 == 1:
        matrix = _paley_two(factor // 2 - 1)
    elif factor % 4 == 0 and factor // 4 in _WILLIAMSON_ROWS:
        matrix = _williamson(factor // 4)
    else:
        raise InputError(f"No construction gives a Hadamard matrix of order {factor} by itself.")
    matrix.setflags(write=False)
    return matrix


@cache
def _cheapest_factors(order: int) -> tuple[int, ...] | None:
    """Return the factors with the fewest additions per entry, sum(|F| - 1), or None if there are none."""
    if order == 1:
        return ()
    if order != 2 and order % 4:
        return None
    candidates: list[tuple[int, ...]] = [(order,)] if _has_own_matrix(order) else []
    for first in range(2, order // 2 + 1):
        if order % first == 0 and _has_own_matrix(first):
            rest = _cheapest_factors(order // first)
            if rest is not None:
                candidates.append(tuple(sorted((first, *rest), reverse=True)))
    return min(candidates, key=lambda factors: (sum(factors) - len(factors), factors), default=None)


def _has_own_matrix(order: int) -> bool:
    if order == 2:
        return True
    if order % 4:
        return False
    half = order // 2 - 1
    paley = bool(_prime_power(order - 1)) or bool(half % 4 == 1 and _prime_power(half))
    return paley or order // 4 in _WILLIAMSON_ROWS


def _kron(left: SignMatrix, right: SignMatrix) -> SignMatrix:
    return np.kron(left, right).astype(np.int8)


def _paley_one(q: int) -> SignMatrix:
    """Return Paley's matrix of order q + 1, q = 3 mod 4: I + [[0, 1], [-1, Q]]."""
    jacobsthal = _jacobsthal(q)
    skew = np.zeros((q + 1, q + 1), np.int8)
    skew[0, 1:] = 1
    skew[1:, 0] = -1
    skew[1:, 1:] = jacobsthal
    return (skew + np.eye(q + 1, dtype=np.int8)).astype(np.int8)


def _paley_two(q: int) -> SignMatrix:
    """Return Paley's matrix of order 2 (q + 1), q = 1 mod 4.

    The symmetric conference matrix C = [[0, 1], [1, Q]] is blown up: +-1 becomes +-[[1, 1], [1, -1]],
    and the zeros of its diagonal become [[1, -1], [-1, -1]].
    """
    conference = np.zeros((q + 1, q + 1), np.int8)
    conference[0, 1:] = conference[1:, 0] = 1
    conference[1:, 1:] = _jacobsthal(q)
    off_diagonal = np.kron(conference, np.array([[1, 1], [1, -1]], np.int8))
    diagonal = np.kron(np.eye(q + 1, dtype=np.int8), np.array([[1, -1], [-1, -1]], np.int8))
    return (off_diagonal + diagonal).astype(np.int8)


def _williamson(side: int) -> SignMatrix:
    """Return Williamson's array [[A, B, C, D], [-B, A, -D, C], [-C, D, A, -B], [-D, -C, B, A]]."""
    index = (np.arange(side)[None, :] - np.arange(side)[:, None]) % side
    rows = [np.array([1 if sign == "+" else -1 for sign in row], np.int8) for row in _WILLIAMSON_ROWS[side]]
    a, b, c, d = (row[index] for row in rows)
    return np.block([[a, b, c, d], [-b, a, -d, c], [-c, d, a, -b], [-d, -c, b, a]]).astype(np.int8)


def _jacobsthal(q: int) -> SignMatrix:
    """Return Q with Q_ij = chi(x_i - x_j), chi the quadratic character of the field with q elements."""
    subtract, squares = _field(q)
    chi = np.full(q, -1, np.int8)
    chi[list(squares)] = 1
    chi[0] = 0
    return chi[subtract]


def _field(q: int) -> tuple[NDArray[np.int64], set[int]]:
    """Return the subtraction table of GF(q), element 0 first, and the set of its non-zero squares.

    An element of GF(p^e) is a polynomial of degree < e over GF(p), written as base-p digits.
    """
    prime, exponent = _prime_power(q) or (q, 1)
    digits = np.array(list(product(range(prime), repeat=exponent)), np.int64)[:, ::-1]
    place = prime ** np.arange(exponent)
    difference = (digits[:, None, :] - digits[None, :, :]) % prime
    modulus = _irreducible(prime, exponent)
    if exponent == 1:
        return difference[:, :, 0], {x * x % prime for x in range(1, prime)}
    squares = {int(_multiply(x, x, modulus, prime) @ place) for x in digits[1:]}
    return difference @ place, squares


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
    """Return a monic irreducible polynomial of `degree` over GF(prime), lowest coefficient first."""
    for tail in product(range(prime), repeat=degree):
        candidate = np.array([*tail, 1], np.int64)
        if _is_irreducible(candidate, prime):
            return candidate
    raise AssertionError(f"GF({prime}) has irreducible polynomials of every degree")


def _is_irreducible(polynomial: NDArray[np.int64], prime: int) -> bool:
    """Try every monic divisor of at most half the degree; the fields here are small."""
    degree = len(polynomial) - 1
    for divisor_degree in range(1, degree // 2 + 1):
        for tail in product(range(prime), repeat=divisor_degree):
            divisor = np.array([*tail, 1], np.int64)
            if not _multiply(np.array([1]), polynomial, divisor, prime).any():
                return False
    return True


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
