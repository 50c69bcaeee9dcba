"""FastGRNN: its fast form equals its definition; its matrices have the stated size."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn_paper.baselines.fastgrnn import (
    STEPS_AT_ONCE,
    FactoredWeight,
    FastGRNN,
    Parameters,
    fast_states,
    largest,
    states_loop,
)
from hadamrnn_paper.baselines.networks import FastGRNNNetwork


def parameters(hidden_size: int) -> Parameters:
    def leaf(value: Tensor) -> Tensor:
        return value.double().requires_grad_()

    bias = torch.randn(2, hidden_size)
    weight = 0.4 * torch.randn(hidden_size, hidden_size)
    return leaf(weight), leaf(bias[0]), leaf(bias[1]), leaf(torch.tensor(0.7)), leaf(torch.tensor(0.1))


@pytest.mark.parametrize("piecewise", [False, True])
@pytest.mark.parametrize("time", [1, 5, STEPS_AT_ONCE, STEPS_AT_ONCE + 1, 3 * STEPS_AT_ONCE + 7])
def test_the_written_out_adjoint_is_autograds(time: int, piecewise: bool) -> None:
    inputs = torch.randn(3, time, 4, dtype=torch.float64, requires_grad=True)
    given = parameters(4)
    pull = torch.randn(3, time, 4, dtype=torch.float64)
    plain, fast = states_loop(inputs, given, piecewise), fast_states(inputs, given, piecewise)

    torch.testing.assert_close(fast, plain)
    expected = torch.autograd.grad(plain, (inputs, *given), pull)
    torch.testing.assert_close(torch.autograd.grad(fast, (inputs, *given), pull), expected)


def test_the_gradient_is_the_derivative() -> None:
    inputs = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(
        lambda inputs, *given: fast_states(inputs, given, False), (inputs, *parameters(3))
    )


def test_a_low_rank_weight_has_that_rank() -> None:
    layer = FastGRNN(6, 16, weight_bits=None, input_rank=2, recurrent_rank=3)

    assert int(torch.linalg.matrix_rank(layer.input_weight())) == 2
    assert int(torch.linalg.matrix_rank(layer.recurrent_weight())) == 3


def test_thresholding_has_three_stages() -> None:
    weight = FactoredWeight(10, 10, rank=None, density=0.3, weight_bits=8).train()
    factor = weight.factors[0]
    weight.constrain(0.2)
    assert factor.count_nonzero() == 100

    weight.constrain(0.5)
    assert factor.count_nonzero() == 30
    support = factor != 0

    with torch.no_grad():
        factor.add_(1.0)
    weight.constrain(0.9)
    assert torch.equal(factor != 0, support)  # the support is fixed, the values are not
    assert weight().count_nonzero() <= 30


def test_out_of_training_the_matrix_is_sparse_from_the_start() -> None:
    weight = FactoredWeight(8, 6, rank=4, density=0.25, weight_bits=8).eval()

    first, second = (int(factor.count_nonzero()) for factor in weight.used_factors())
    assert 0 < first <= 8 and 0 < second <= 6  # rounding may add zeros within the quarter that is kept


def test_quantized_factors_hold_at_most_256_values() -> None:
    first, second = FactoredWeight(64, 64, rank=32, density=1.0, weight_bits=8).used_factors()

    for factor in (first, second):
        codes = factor / factor.abs().max() * 128
        assert torch.allclose(codes, codes.round(), atol=1e-3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"recurrent_rank": 9}, "must lie in 1..8, got 9"),
        ({"input_density": 0.0}, "input_density must lie in"),
        ({"weight_bits": 1}, "weight_bits must lie in"),
    ],
)
def test_impossible_factors_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        FastGRNNNetwork(4, 8, 2, **settings).recurrent_layer()  # type: ignore[arg-type]


def test_the_largest_entries_are_kept_whatever_their_sign() -> None:
    assert largest(torch.tensor([1.0, -5.0, 3.0, 0.0]), 0.5).tolist() == [False, True, True, False]
