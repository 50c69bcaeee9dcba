"""The LSTM with p-bit weights, and optionally p-bit states (He et al. 2016; Alom et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hadamrnn.baselines.gates import lstm_step, open_forget_bias
from hadamrnn.baselines.layer import BaselineLayer, dense, projected
from hadamrnn.bits import WeightBits, check_weight_bits
from hadamrnn.errors import InputError
from hadamrnn.nn.inputs import Tokens
from hadamrnn.nn.straight_through import quantize, sign


class QuantizedLSTM(BaselineLayer):
    """An LSTM that computes with q(W) and q(U); biases and cell stay in floating point.

    Args:
        weight_bits: 2..16 or "ternary", as everywhere, or 1: mean|w| times the sign.
        activation_bits: of h_t, 2..16: the grid {-n ... n} / n, n = 2^(p-1) - 1; None leaves it real.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        weight_bits: WeightBits = 4,
        activation_bits: int | None = None,
    ) -> None:
        super().__init__(input_size, hidden_size)
        if weight_bits != 1:
            check_weight_bits(weight_bits)
        if activation_bits is not None and not 2 <= activation_bits <= 16:
            raise InputError(f"activation_bits must be None or lie in 2..16, got {activation_bits}.")
        self.weight_bits = weight_bits
        self.activation_bits = activation_bits
        self.input_weight = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        self.bias = open_forget_bias(hidden_size)
        for weight in (self.input_weight, self.recurrent_weight):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)

    def quantized_weights(self) -> tuple[Tensor, Tensor]:
        """Return q(U) `(4 hidden_size, input_size)` and q(W) `(4 hidden_size, hidden_size)`."""
        return self._quantize(self.input_weight), self._quantize(self.recurrent_weight)

    def states(self, x: Tensor | Tokens, valid: Tensor | None) -> Tensor:
        return self.native_states(x) if self.activation_bits is None else self.loop_states(x)

    def native_states(self, x: Tensor | Tokens) -> Tensor:
        """Run torch's LSTM on the quantized weights."""
        rows = dense(x, self.input_size, self.bias.dtype)
        start = rows.new_zeros(1, rows.shape[0], self.hidden_size)
        input_weight, recurrent_weight = self.quantized_weights()
        parameters = [input_weight, recurrent_weight, self.bias, torch.zeros_like(self.bias)]
        output, _, _ = torch.lstm(
            rows, (start, start), parameters, True, 1, 0.0, self.training, False, batch_first=True
        )
        return output

    def loop_states(self, x: Tensor | Tokens) -> Tensor:
        """Run the equations step by step, quantizing each h_t."""
        input_weight, recurrent_weight = self.quantized_weights()
        z = projected(x, input_weight, self.bias)
        h = cell = z.new_zeros(z.shape[0], self.hidden_size)
        states = []
        for z_t in z.unbind(1):
            h, cell = lstm_step(torch.addmm(z_t, h, recurrent_weight.T), cell)
            if self.activation_bits is not None:
                h = quantize_unit(h, self.activation_bits)
            states.append(h)
        return torch.stack(states, dim=1)

    def _quantize(self, weight: Tensor) -> Tensor:
        if self.weight_bits == 1:
            return sign(weight) * weight.detach().abs().mean()
        return quantize(weight, self.weight_bits)


def quantize_unit(value: Tensor, bits: int) -> Tensor:
    """Round values of [-1, 1] to {-n ... n} / n, n = 2^(bits-1) - 1; identity gradient.

    >>> quantize_unit(torch.tensor([-0.9, 0.2, 0.6]), 2)
    tensor([-1.,  0.,  1.])
    """
    steps = float(2 ** (bits - 1) - 1)
    return (value.detach() * steps).round() / steps + (value - value.detach())
