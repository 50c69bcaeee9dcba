"""Hadamard matrices: the propositions of the paper, and the orders that can be reached."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import (
    Paley,
    Williamson,
    factor_matrix,
    hadamard_matrix,
    hadamard_orders,
    has_factor,
    make_factor,
    nearest_orders,
    order_factors,
    split_order,
)

valid_orders = st.sampled_from(hadamard_orders(400))


def is_hadamard(matrix: np.ndarray[tuple[int, int], np.dtype[np.int8]]) -> bool:
    order = len(matrix)
    wide = matrix.astype(np.int64)
    return bool(np.isin(matrix, (-1, 1)).all() and (wide @ wide.T == order * np.eye(order)).all())


@given(st.integers(2, 9))
def test_proposition_3_2_sylvester_matrices_are_hadamard_and_follow_the_recursion(exponent: int) -> None:
    half, whole = hadamard_matrix(2 ** (exponent - 1)), hadamard_matrix(2**exponent)

    assert is_hadamard(whole)
    np.testing.assert_array_equal(whole, np.block([[half, half], [half, -half]]))


@given(valid_orders)
@settings(max_examples=40)
def test_every_listed_order_has_a_hadamard_matrix(order: int) -> None:
    assert is_hadamard(hadamard_matrix(order))


@given(valid_orders)
def test_the_matrix_is_the_kronecker_product_of_its_factors(order: int) -> None:
    product = np.ones((1, 1), np.int8)
    for factor in order_factors(order):
        product = np.kron(product, factor_matrix(factor)).astype(np.int8)

    np.testing.assert_array_equal(hadamard_matrix(order), product)


@given(valid_orders)
def test_a_split_is_a_kronecker_product_of_two_hadamard_matrices(order: int) -> None:
    left, right = split_order(order)

    np.testing.assert_array_equal(
        hadamard_matrix(order), np.kron(hadamard_matrix(left), hadamard_matrix(right))
    )
    assert left * right == order and left + right <= order + 1


@given(st.sampled_from(hadamard_orders(200)), st.data())
def test_proposition_3_3_row_switches_are_injective_and_keep_the_hadamard_property(
    order: int, data: st.DataObject
) -> None:
    signs = st.lists(st.sampled_from([-1, 1]), min_size=order, max_size=order).map(np.array)
    u, other = data.draw(signs), data.draw(signs)
    switched = (u[:, None] * hadamard_matrix(order)).astype(np.int8)

    assert is_hadamard(switched)
    assert np.array_equal(switched, other[:, None] * hadamard_matrix(order)) == np.array_equal(u, other)


@given(st.integers(1, 5), st.integers(1, 6), st.integers(1, 5), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_kronecker_products_keep_rows_pairwise_orthogonal(
    rows: int, extra: int, other_rows: int, other_extra: int, seed: int
) -> None:
    """The Kronecker proposition, for real matrices of any shape with pairwise orthogonal rows."""
    generator = np.random.default_rng(seed)

    def orthogonal_rows(count: int, width: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
        basis, _ = np.linalg.qr(generator.standard_normal((width, count)))
        return np.asarray(generator.uniform(0.5, 2.0, (count, 1)) * basis.T)

    a = orthogonal_rows(rows, rows + extra)
    b = orthogonal_rows(other_rows, other_rows + other_extra)
    gram = np.kron(a, b) @ np.kron(a, b).T

    np.testing.assert_allclose(gram, np.diag(np.diag(gram)), atol=1e-12)


def test_368_of_the_500_multiples_of_four_up_to_2000_are_reached() -> None:
    """Sylvester, Kronecker products and Paley alone reach 364."""
    orders = hadamard_orders(2000)

    assert sum(order % 4 == 0 for order in orders) == 368
    assert {92, 116, 184, 232} <= set(orders)
    assert orders[:8] == [1, 2, 4, 8, 12, 16, 20, 24]


@pytest.mark.slow
def test_every_order_up_to_700_that_needs_its_own_construction_is_hadamard() -> None:
    for order in hadamard_orders(700):
        if order_factors(order) == (order,):
            assert is_hadamard(factor_matrix(order)), order


@given(st.sampled_from(hadamard_orders(500)))
def test_the_chosen_factors_are_never_dearer_than_a_dense_product(order: int) -> None:
    factors = order_factors(order)

    assert np.prod(factors, initial=1) == order
    assert sum(factors) - len(factors) <= order - 1
    assert list(factors) == sorted(factors, reverse=True)


@pytest.mark.parametrize("order", [0, -4, 3, 6, 10, 188])
def test_an_order_that_cannot_be_built_names_the_nearest_ones(order: int) -> None:
    with pytest.raises(InputError, match=rf"got {order}\. Nearest valid orders: .*\d") as caught:
        hadamard_matrix(order)

    below = max((n for n in hadamard_orders(200) if n < order), default=None)
    above = min(n for n in hadamard_orders(200) if n > order)
    assert nearest_orders(order) == (below, above)
    assert str(above) in str(caught.value)
    assert below is None or str(below) in str(caught.value)


@pytest.mark.parametrize("order", [36.0, 36.5, "36", None])
def test_an_order_that_is_no_int_is_refused_and_does_no_harm(order: object) -> None:
    with pytest.raises(InputError, match="must be an int, got"):
        order_factors(order)  # type: ignore[arg-type]

    assert order_factors(np.int64(36)) == (36,) and is_hadamard(hadamard_matrix(36))  # type: ignore[arg-type]


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
    with pytest.raises(InputError, match=f"order {order}"):
        make_factor(order)
