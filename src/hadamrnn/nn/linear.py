"""Provide linear layers: the quantized projections U and V, and an orthogonal layer of one bit per unit."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hadamrnn.architecture import WeightBits
from hadamrnn.kernels.backend import autocast_is_on, full_precision
from hadamrnn.kernels.transform import hadamard_transform
from hadamrnn.network import Network
from hadamrnn.nn.straight_through import quantize, sign
from hadamrnn.settings import check


class QuantizedLinear(nn.Module):
    """y = q(weight) x + bias, with q(weight) on the grid of `weight_bits`.

    Use it in place of `torch.nn.Linear`. The optimizer updates the full-precision `weight`; the forward pass
    uses `quantized_weight()`.

    >>> layer = QuantizedLinear(3, 2, weight_bits="ternary")
    >>> layer(torch.ones(5, 3)).shape
    torch.Size([5, 2])
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        weight_bits: WeightBits = 4,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        check("weight_bits", weight_bits, WeightBits)
        self.in_features = in_features
        self.out_features = out_features
        self.weight_bits = weight_bits
        self.weight = nn.Parameter(torch.empty(out_features, in_features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(out_features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise weight (orthogonal if square, else Glorot) and bias (within +-1/sqrt(in_features))."""
        initialize_projection(self.weight)
        if self.bias is not None:
            bound = self.in_features**-0.5 if self.in_features else 0.0
            nn.init.uniform_(self.bias, -bound, bound)

    def quantized_weight(self) -> Tensor:
        return quantize(self.weight, self.weight_bits)

    def forward(self, x: Tensor) -> Tensor:
        # Autocast would round the grid points of q(weight).
        if not autocast_is_on(self.weight):
            return nn.functional.linear(x, self.quantized_weight(), self.bias)
        with full_precision(self.weight):
            return nn.functional.linear(x.to(self.weight.dtype), self.quantized_weight(), self.bias)

    def extra_repr(self) -> str:
        return f"{self.in_features}, {self.out_features}, weight_bits={self.weight_bits!r}"


class HadamardLinear(nn.Module):
    """y = W(u) x + bias by the fast transform, with the orthogonal W(u) of a `HadamRNN`: `features` bits.

    >>> layer = HadamardLinear(8, bias=False)
    >>> x = torch.randn(5, 8)
    >>> torch.allclose(layer(x).norm(dim=1), x.norm(dim=1))
    True
    """

    def __init__(
        self,
        features: int,
        bias: bool = True,
        *,
        num_blocks: int = 1,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.features = features
        self.num_blocks = num_blocks
        self.block_size = Network(hidden_size=features, num_blocks=num_blocks).block_size  # checks both
        self.latent_signs = nn.Parameter(torch.empty(features, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.empty(features, device=device, dtype=dtype)) if bias else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialise the latent signs by Glorot's rule, the bias within +-1/sqrt(features)."""
        nn.init.xavier_uniform_(self.latent_signs.detach()[None])
        if self.bias is not None:
            nn.init.uniform_(self.bias, -(self.features**-0.5), self.features**-0.5)

    def forward(self, x: Tensor) -> Tensor:
        signs: Tensor = sign(self.latent_signs) / self.block_size**0.5
        y = hadamard_transform(x, self.block_size) * signs
        return y if self.bias is None else y + self.bias

    def extra_repr(self) -> str:
        return f"{self.features}, bias={self.bias is not None}, num_blocks={self.num_blocks}"


def initialize_projection(weight: Tensor) -> None:
    """Initialise U or V as the authors' code does: orthogonal if square, Glorot uniform otherwise."""
    if weight.shape[0] == weight.shape[1]:
        wide = torch.promote_types(weight.dtype, torch.float32)  # float16 has no QR decomposition
        drawn = nn.init.orthogonal_(torch.empty_like(weight, dtype=wide))
        with torch.no_grad():
            weight.copy_(drawn)
    else:
        nn.init.xavier_uniform_(weight)
