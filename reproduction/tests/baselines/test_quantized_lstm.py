"""LSTMs with few-bit weights: their loop, their noise, their gradients."""

from __future__ import annotations

import torch

from hadamrnn_paper.baselines.quantized_lstm import BinaryLSTM, QuantizedLSTM, TernaryLSTM, glorot_width


def test_the_quantized_lstm_on_torchs_kernel_is_the_loop() -> None:
    recurrent = QuantizedLSTM(3, 8, weight_bits=4).double()
    x = torch.randn(4, 9, 3, dtype=torch.float64)

    torch.testing.assert_close(recurrent.native_states(x), recurrent.loop_states(x))


def test_inputs_that_begin_alike_leave_the_gradients_of_a_normalised_lstm_finite() -> None:
    """Every image begins with black pixels."""
    layer = BinaryLSTM(1, 16)
    x = torch.cat([torch.zeros(32, 150, 1), torch.rand(32, 20, 1)], dim=1)
    layer.states(x, None)[:, -1].sum().backward()

    assert all(float(p.grad.abs().max()) < 1e3 for p in layer.parameters() if p.grad is not None)


def test_a_drawn_weight_is_its_latent_value_on_average() -> None:
    """E q(w) = w for binary and ternary weights, so a sampled weight is unbiased."""
    for kind in (BinaryLSTM, TernaryLSTM):
        layer = kind(1, 4).train()
        draws = torch.stack([layer.quantized_weights()[1].detach() for _ in range(4000)])
        spread = glorot_width(layer.recurrent_weight) / 4000**0.5

        torch.testing.assert_close(draws.mean(0), layer.recurrent_weight.detach(), atol=5 * spread, rtol=0)
