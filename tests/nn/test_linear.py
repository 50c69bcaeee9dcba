"""QuantizedLinear."""

from __future__ import annotations

import pytest
import torch

from hadamrnn.nn.linear import QuantizedLinear


def test_quantized_linear_is_linear_with_quantized_weights() -> None:
    layer = QuantizedLinear(5, 3, weight_bits=3)
    x = torch.randn(2, 5)
    codes = layer.quantized_weight() / layer.weight.abs().max() * 4

    assert layer.bias is not None
    torch.testing.assert_close(codes, codes.round())
    torch.testing.assert_close(layer(x), x @ layer.quantized_weight().T + layer.bias)
    assert QuantizedLinear(5, 3, bias=False).bias is None


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
def test_quantized_linear_of_no_features_gives_its_bias() -> None:
    layer = QuantizedLinear(0, 3)

    assert layer.bias is not None
    assert torch.equal(layer(torch.zeros(2, 0)), layer.bias.expand(2, 3))
