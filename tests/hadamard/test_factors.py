"""Factors by their generating signs: what C stores is what the matrix is made of."""

from __future__ import annotations

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import (
    Paley,
    Williamson,
    factor_matrix,
    hadamard_orders,
    has_factor,
    make_factor,
    order_factors,
)

LARGE_FACTORS = sorted({f for order in hadamard_orders(400) for f in order_factors(order) if f > 2})


@pytest.mark.parametrize("order", LARGE_FACTORS)
def test_a_factor_is_a_hadamard_matrix_of_at_most_order_signs(order: int) -> None:
    factor = make_factor(order)
    matrix = factor.matrix().astype(np.int64)

    assert len(factor.signs) <= order
    assert np.array_equal(matrix @ matrix.T, order * np.eye(order, dtype=np.int64))
    assert np.array_equal(matrix, factor_matrix(order))


@pytest.mark.parametrize(
    ("order", "kind"), [(4, 1), (12, 1), (20, 1), (28, 1), (36, 2), (52, 2), (92, None), (116, None)]
)
def test_a_factor_knows_its_construction(order: int, kind: int | None) -> None:
    factor = make_factor(order)

    assert isinstance(factor, Williamson if kind is None else Paley)
    assert kind is None or (isinstance(factor, Paley) and factor.kind == kind)


@pytest.mark.parametrize("order", [0, 1, 2, 6, 40 * 9 + 2, 188])
def test_an_order_without_a_construction_of_its_own_is_refused(order: int) -> None:
    assert not has_factor(order)
    with pytest.raises(InputError, match=f"No construction gives a Hadamard matrix of order {order}"):
        make_factor(order)
