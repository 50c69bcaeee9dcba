"""W(u): orthogonal, binary or sparse ternary, whatever the signs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given

from hadamrnn.errors import InputError
from hadamrnn.nn.weight import recurrent_weight
from tests.strategies import Weight, powers_of_two, weights


@given(weights())
def test_recurrent_weight_is_orthogonal_whatever_the_signs(drawn: Weight) -> None:
    for column_signs in (None, drawn.column_signs):
        weight = recurrent_weight(drawn.signs, drawn.block_size, column_signs)
        identity = torch.eye(drawn.hidden_size, dtype=torch.float64)

        torch.testing.assert_close(weight @ weight.T, identity)
        torch.testing.assert_close(weight.T @ weight, identity)


@given(weights())
def test_recurrent_weight_is_ternary_with_density_one_over_q(drawn: Weight) -> None:
    weight = recurrent_weight(drawn.signs, drawn.block_size)

    assert weight.count_nonzero() == drawn.hidden_size * drawn.block_size
    magnitudes = weight[weight != 0].abs()
    torch.testing.assert_close(magnitudes, torch.full_like(magnitudes, drawn.block_size**-0.5))


@given(weights(orders=powers_of_two, max_blocks=1))
def test_one_block_of_a_power_of_two_is_equation_3(drawn: Weight) -> None:
    size = drawn.hidden_size
    entries = [[(-1.0) ** bin(i & j).count("1") for j in range(size)] for i in range(size)]
    sylvester = torch.tensor(entries, dtype=torch.float64)

    expected = torch.diag(drawn.signs) @ sylvester / size**0.5
    torch.testing.assert_close(recurrent_weight(drawn.signs, size), expected)


def test_the_block_size_must_divide_the_hidden_size() -> None:
    with pytest.raises(InputError, match="got 8 for hidden size 12"):
        recurrent_weight(torch.ones(12), 8)
