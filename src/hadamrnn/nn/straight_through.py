"""Quantize with straight-through gradients: to signs, p-bit weights or ternary weights.

In the forward pass, a quantizer returns exactly the nearest point of its grid. In the backward pass it is the
identity: dL/dw = dL/dq for every entry. The scale max|w| is treated as a constant, and gradients are not
clipped (Section 3.5 and the appendix on the straight-through estimator).
"""

from __future__ import annotations

import torch
from torch import Tensor

from hadamrnn.architecture import WeightBits
from hadamrnn.settings import check


def sign(latent: Tensor) -> Tensor:
    """Return +1 where latent >= 0 (so sign(0) = +1) and -1 elsewhere, with the identity as gradient.

    >>> sign(torch.tensor([-0.5, 0.0, 2.0]))
    tensor([-1.,  1.,  1.])
    """
    ones = torch.ones_like(latent)
    return _pass_gradient(latent, torch.where(latent >= 0, ones, -ones))


def quantize(weight: Tensor, weight_bits: WeightBits) -> Tensor:
    """Return the nearest point of the grid of `weight_bits`, with the identity as gradient.

        p bits:   max|w| / 2^(p-1) * {-2^(p-1), ..., 2^(p-1) - 1}
        ternary:  max|w| * {-1, 0, 1}
        None:     w itself

    >>> quantize(torch.tensor([1.0, -0.9, 0.2, 0.0]), 2)
    tensor([ 0.5000, -1.0000,  0.0000,  0.0000])
    """
    if not torch.compiler.is_compiling():  # otherwise the compiler would trace the check
        check("weight_bits", weight_bits, WeightBits)
    if weight_bits is None or weight.numel() == 0:
        return weight
    codes, scale = quantization_codes(weight.detach(), weight_bits)
    return _pass_gradient(weight, codes * scale)


def quantization_codes(weight: Tensor, weight_bits: int | str) -> tuple[Tensor, Tensor]:
    """Return integer codes (in the weight's dtype) and the grid's resolution: `weight ~ codes * step`.

    An all-zero matrix has codes 0 and step 1 / 2^(p-1), so nothing is divided by zero.
    """
    largest = weight.abs().amax()
    largest = torch.where(largest > 0, largest, torch.ones_like(largest))
    if weight_bits == "ternary":
        return (weight / largest).round().clamp(-1, 1), largest
    levels = 2 ** (int(weight_bits) - 1)
    return (weight * (levels / largest)).round().clamp(-levels, levels - 1), largest / levels


def _pass_gradient(latent: Tensor, quantized: Tensor) -> Tensor:
    """Return `quantized` with the gradient of `latent`.

    It computes q + (w - w), which is q to the last bit; the more common w + (q - w) is not.
    """
    return quantized + (latent - latent.detach())
