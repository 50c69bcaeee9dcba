"""The fast transform equals the matrix product."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import hadamard_orders
from hadamrnn.kernels import backend
from hadamrnn.kernels.transform import hadamard_tensor, hadamard_transform
from hadamrnn.nn.weight import recurrent_weight
from tests.strategies import Weight, weights

DTYPES = (torch.float32, torch.float64)


def hadamard_transform_reference(x: Tensor, block_size: int, *, transpose: bool = False) -> Tensor:
    """Return the transform by one dense product per block: the definition."""
    matrix = hadamard_tensor(block_size, x.dtype, x.device)
    blocks = x.reshape(*x.shape[:-1], x.shape[-1] // block_size, block_size)
    return (blocks @ (matrix if transpose else matrix.T)).reshape(x.shape)


@given(
    st.sampled_from(hadamard_orders(300)),
    st.integers(1, 3),
    st.lists(st.integers(0, 3), max_size=3),
    st.booleans(),
    st.sampled_from(DTYPES),
)
def test_the_fast_transform_is_the_reference(
    order: int, num_blocks: int, leading: list[int], transpose: bool, dtype: torch.dtype
) -> None:
    """On whole numbers floating point is exact, so the two must agree to the last bit."""
    x = torch.randint(-100, 100, (*leading, num_blocks * order)).to(dtype)
    fast = hadamard_transform(x, order, transpose=transpose)

    assert fast.dtype == dtype
    assert torch.equal(fast, hadamard_transform_reference(x, order, transpose=transpose))


@given(weights(max_blocks=3))
def test_the_transform_with_signs_and_scale_is_the_product_with_w(drawn: Weight) -> None:
    h = torch.randn(5, drawn.hidden_size, dtype=torch.float64)
    expected = h @ recurrent_weight(drawn.signs, drawn.block_size).T

    got = hadamard_transform(h, drawn.block_size) * drawn.signs / drawn.block_size**0.5
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("order", [2, 12, 20, 64, 48])
@pytest.mark.parametrize("transpose", [False, True])
def test_the_transform_is_differentiable(order: int, transpose: bool) -> None:
    x = torch.randn(2, 2 * order, dtype=torch.float64, requires_grad=True)

    assert torch.autograd.gradcheck(lambda x: hadamard_transform(x, order, transpose=transpose), (x,))


def test_a_transform_first_made_in_inference_mode_can_be_differentiated(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(backend, "_constants", {})
    with torch.inference_mode():
        hadamard_transform(torch.ones(12), 12)
    x = torch.randn(12, requires_grad=True)

    (gradient,) = torch.autograd.grad(hadamard_transform(x, 12).sum(), x)
    torch.testing.assert_close(gradient, hadamard_transform(torch.ones(12), 12, transpose=True))


def test_a_transform_first_made_of_fake_tensors_computes_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(backend, "_constants", {})
    with FakeTensorMode():
        hadamard_transform(torch.ones(12), 12)
    x = torch.ones(12)

    assert torch.equal(hadamard_transform(x, 12), hadamard_transform_reference(x, 12))


def test_an_axis_that_the_block_size_does_not_divide_is_refused() -> None:
    with pytest.raises(InputError, match="got 8 for hidden size 12"):
        hadamard_transform(torch.ones(12), 8)
