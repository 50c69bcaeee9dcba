"""LSTMs with few-bit weights, which torch.nn.LSTM does not offer. Gates are in torch's order.

    i, f, g, o = split(gates)
    c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g)      h_t = sigmoid(o) tanh(c_t)

`QuantizedLSTM` has p-bit weights, and optionally p-bit states (He et al. 2016; Alom et al. 2018).
`BinaryLSTM` and `TernaryLSTM` have such weights and batch normalisation (Ardakani et al. 2018):

    gates_t = BN_t(q(W) h_(t-1)) + BN(q(U) x_t) + b

There q samples each weight from its latent value w, clipped to [-a, a]; a is the width of Glorot's
initialisation:

    binary:   a with probability (1 + w/a) / 2, else -a          deterministic: a sign(w)
    ternary:  a sign(w) with probability |w/a|, else 0           deterministic: a sign(w) if |w/a| > 1/2

Normalisation removes the effect of the scale a and reduces the noise. Outside training q is deterministic.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor, nn

from hadamrnn.architecture import WeightBits
from hadamrnn.nn.interface import Constrained, Tokens
from hadamrnn.nn.straight_through import quantize, sign
from hadamrnn_paper.baselines.layer import BaselineLayer, projected, token_vectors


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return h_t and c_t from the gates' inputs `(batch, 4 hidden_size)` and c_(t-1)."""
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


class FewBitLSTM(BaselineLayer):
    """An LSTM that computes with q(W) and q(U); a subclass defines q."""

    def __init__(self, input_size: int, hidden_size: int) -> None:
        super().__init__(input_size, hidden_size)
        self.input_weight = nn.Parameter(torch.empty(4 * hidden_size, input_size))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * hidden_size, hidden_size))
        bias = torch.zeros(4 * hidden_size)
        bias[hidden_size : 2 * hidden_size] = 1.0  # forget gates: an untrained cell remembers
        self.bias = nn.Parameter(bias)

    def quantized_weights(self) -> tuple[Tensor, Tensor]:
        """Return q(U) `(4 hidden_size, input_size)` and q(W) `(4 hidden_size, hidden_size)`."""
        return self._quantize(self.input_weight), self._quantize(self.recurrent_weight)

    @abstractmethod
    def _quantize(self, weight: Tensor) -> Tensor:
        """Return q(weight)."""


class QuantizedLSTM(FewBitLSTM):
    """An LSTM that computes with q(W) and q(U); biases and cell stay in floating point.

    Args:
        weight_bits: 2..16 or "ternary", as in `Network`, or 1: mean|w| times the sign.
        activation_bits: bits of h_t, 2..16, on the grid {-n ... n} / n, n = 2^(p-1) - 1; None for floats.
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
        self.weight_bits = weight_bits
        self.activation_bits = activation_bits
        for weight in (self.input_weight, self.recurrent_weight):
            nn.init.uniform_(weight, -(hidden_size**-0.5), hidden_size**-0.5)

    def states(self, x: Tensor | Tokens, valid: Tensor | None) -> Tensor:
        return self.native_states(x) if self.activation_bits is None else self.loop_states(x)

    def native_states(self, x: Tensor | Tokens) -> Tensor:
        """Run torch's LSTM with the quantized weights."""
        rows = token_vectors(x, self.input_size, self.bias.dtype)
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
    """Round values in [-1, 1] to {-n ... n} / n, n = 2^(bits-1) - 1, with the identity as gradient.

    >>> quantize_unit(torch.tensor([-0.9, 0.2, 0.6]), 2)
    tensor([-1.,  0.,  1.])
    """
    steps = float(2 ** (bits - 1) - 1)
    return (value.detach() * steps).round() / steps + (value - value.detach())


GAIN_AT_START = 0.1  # keeps sigmoid and tanh from saturating (Cooijmans et al. 2017)
# In training the first state is noise of this width (Cooijmans et al. 2017). Images begin with black pixels,
# so from a zero state all rows of a batch would stay equal, with variance 0, and gradients would grow at
# every step.
NOISE_AT_START = 0.1
MOMENTUM = 0.1
EPSILON = 1e-5


class StepNorm(nn.Module):
    """Batch normalisation without shift, with separate running statistics for the first `steps` steps.

    Later steps share the last statistics: a recurrent network has a transient, then settles.
    """

    running_mean: Tensor
    running_variance: Tensor

    def __init__(self, features: int, steps: int) -> None:
        super().__init__()
        self.gain = nn.Parameter(torch.full((features,), GAIN_AT_START))
        self.register_buffer("running_mean", torch.zeros(steps, features))
        self.register_buffer("running_variance", torch.ones(steps, features))

    def forward(self, x: Tensor, step: int, valid: Tensor | None) -> Tensor:
        """Normalise x `(batch, features)` by its rows where `valid`, or by the running statistics."""
        step = min(step, len(self.running_mean) - 1)
        rows = x if valid is None else x[valid]
        if self.training and len(rows):
            variance, mean = torch.var_mean(rows, dim=0, correction=0)
            self.running_mean[step].lerp_(mean.detach(), MOMENTUM)
            self.running_variance[step].lerp_(variance.detach(), MOMENTUM)
        else:
            variance, mean = self.running_variance[step], self.running_mean[step]
        return (x - mean) * (self.gain * (variance + EPSILON).rsqrt())


class BinaryLSTM(FewBitLSTM, Constrained):
    """An LSTM with weights -a and a.

    Args:
        stochastic: sample weights during training; False rounds them.
        norm_steps: steps with separate running statistics.
    """

    ternary = False

    def __init__(
        self, input_size: int, hidden_size: int, *, stochastic: bool = True, norm_steps: int = 128
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.stochastic = stochastic
        self.input_norm = StepNorm(4 * hidden_size, 1)
        self.recurrent_norm = StepNorm(4 * hidden_size, norm_steps)
        for weight in (self.input_weight, self.recurrent_weight):
            nn.init.uniform_(weight, -glorot_width(weight), glorot_width(weight))

    def states(self, x: Tensor | Tokens, valid: Tensor | None) -> Tensor:
        input_weight, recurrent_weight = self.quantized_weights()
        z = projected(x, input_weight, None)
        flat = None if valid is None else valid.flatten()
        z = self.input_norm(z.flatten(0, 1), 0, flat).view_as(z) + self.bias
        h = cell = z.new_zeros(z.shape[0], self.hidden_size)
        if self.training:
            h = NOISE_AT_START * torch.randn_like(h)
        states = []
        for t, z_t in enumerate(z.unbind(1)):
            product = self.recurrent_norm(h @ recurrent_weight.T, t, None if valid is None else valid[:, t])
            h, cell = lstm_step(z_t + product, cell)
            states.append(h)
        return torch.stack(states, dim=1)

    @torch.no_grad()
    def constrain(self, progress: float) -> None:
        for weight in (self.input_weight, self.recurrent_weight):
            weight.clamp_(-glorot_width(weight), glorot_width(weight))

    def _quantize(self, weight: Tensor) -> Tensor:
        width = glorot_width(weight)
        share = (weight.detach() / width).clamp(-1, 1)
        # Comparing a latent value with 1/2 rounds it; comparing it with uniform noise samples it.
        drawn = self.training and self.stochastic
        threshold = torch.empty_like(share).uniform_() if drawn else torch.full_like(share, 0.5)
        if self.ternary:
            codes = share.sign() * (share.abs() > threshold)
        else:
            codes = torch.where((1 + share) / 2 >= threshold, 1.0, -1.0)
        return codes.to(weight.dtype) * width + (weight - weight.detach())


class TernaryLSTM(BinaryLSTM):
    """An LSTM with weights -a, 0 and a."""

    ternary = True


def glorot_width(weight: Tensor) -> float:
    """Return a = sqrt(6 / (rows + columns))."""
    return float((6 / (weight.shape[0] + weight.shape[1])) ** 0.5)
