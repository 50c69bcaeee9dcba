"""The quantizers: nearest grid point forward, identity backward."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from hadamrnn.architecture import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.nn.straight_through import quantization_codes, quantize, sign
from tests.strategies import tensors

bit_widths = st.one_of(st.integers(2, 16), st.just("ternary"))


def grid(weight: torch.Tensor, weight_bits: int | str) -> torch.Tensor:
    largest = weight.abs().max()
    if weight_bits == "ternary":
        return torch.tensor([-1.0, 0.0, 1.0], dtype=weight.dtype).mul(largest)
    levels = 2 ** (int(weight_bits) - 1)
    return torch.arange(-levels, levels, dtype=weight.dtype).mul(largest / levels)


@given(tensors(5, 7), bit_widths)
def test_quantize_gives_the_nearest_point_of_the_papers_grid(weight: torch.Tensor, bits: int | str) -> None:
    points = grid(weight, bits)
    quantized = quantize(weight, bits)
    distance = (weight[..., None] - points).abs().amin(dim=-1)

    torch.testing.assert_close((quantized - weight).abs(), distance)
    nearest = (quantized[..., None] - points).abs().amin(dim=-1)
    torch.testing.assert_close(nearest, torch.zeros_like(nearest))


@given(tensors(5, 7), bit_widths)
def test_quantized_weights_are_codes_times_one_step(weight: torch.Tensor, bits: int | str) -> None:
    codes, step = quantization_codes(weight, bits)

    assert torch.equal(quantize(weight, bits), codes * step)
    assert torch.equal(codes, codes.round())


@given(tensors(4, 6), tensors(4, 6), st.one_of(bit_widths, st.none()))
def test_the_gradient_of_a_quantizer_is_the_gradient_of_its_output(
    weight: torch.Tensor, upstream: torch.Tensor, bits: WeightBits
) -> None:
    weight.requires_grad_()
    quantize(weight, bits).backward(upstream)

    assert weight.grad is not None
    assert torch.equal(weight.grad, upstream)


@given(tensors(9), tensors(9))
def test_sign_is_plus_one_at_zero_and_passes_the_gradient(
    latent: torch.Tensor, upstream: torch.Tensor
) -> None:
    latent[0], latent[1] = 0.0, -0.0
    latent.requires_grad_()
    signs = sign(latent)
    signs.backward(upstream)

    assert torch.equal(signs.detach(), torch.where(latent >= 0, 1.0, -1.0).double())
    assert signs[0] == signs[1] == 1
    assert latent.grad is not None
    assert torch.equal(latent.grad, upstream)


@pytest.mark.parametrize("bits", [2, 4, 16, "ternary"])
def test_an_all_zero_matrix_is_no_division_by_zero(bits: int | str) -> None:
    weight = torch.zeros(3, 4, requires_grad=True)
    quantized = quantize(weight, bits)
    quantized.sum().backward()

    assert torch.equal(quantized, torch.zeros(3, 4))
    assert weight.grad is not None
    assert torch.equal(weight.grad, torch.ones(3, 4))


@pytest.mark.parametrize("bits", [1, 0, -3, 17, "binary", True])
def test_other_bit_widths_are_refused(bits: int | str) -> None:
    with pytest.raises(InputError, match="weight_bits must "):
        quantize(torch.ones(2, 2), bits)
