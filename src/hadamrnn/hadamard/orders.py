"""Hadamard matrices of every order that the classical constructions reach. Numpy only.

A Hadamard matrix H of order n has entries +-1 and H H' = n I. Every order built here is a
Kronecker product of *factors*, and a factor is the Sylvester matrix of order 2, a Paley matrix
(type I of order q + 1, type II of order 2 (q + 1), q a prime power) or a Williamson matrix:

    H_n = F_1 kron F_2 kron ... kron F_r

The factors are also what makes a product with H fast: n (|F_1| + ... + |F_r|) operations instead
of n^2. `order_factors` therefore picks the cheapest list, and `hadamard_matrix` multiplies it out.
Start reading there; `hadamrnn.hadamard.factors` makes the factors.
"""

from __future__ import annotations

from functools import cache, reduce
from itertools import accumulate
from operator import mul

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.hadamard.factors import SignMatrix, has_factor, make_factor


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
