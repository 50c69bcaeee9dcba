"""Recurrences with a dense d_h-by-d_h weight, linear or ReLU: the base of ORNN, QORNN and others.

    linear:  h_t = W h_(t-1) + z_t          relu:  h_t = max(0, W h_(t-1) + z_t)          z_t = U x_t + b_i

`states_loop` is the reference. `dense_states` computes the same states with an explicit adjoint, and the last
state of a linear network needs no loop at all: see `kernel_end_state` and `folded_end_state`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hadamrnn.architecture import WeightBits
from hadamrnn.nn.interface import Tokens
from hadamrnn.nn.linear import initialize_projection
from hadamrnn.nn.straight_through import quantize
from hadamrnn_paper.baselines.layer import BaselineLayer, admitted, projected


def states_loop(z: Tensor, weight: Tensor, recurrence: str) -> Tensor:
    """Return every h_t from z `(batch, time, hidden_size)`, by the reference loop."""
    h = z.new_zeros(z.shape[0], z.shape[2])
    states = []
    for z_t in z.unbind(1):
        h = torch.addmm(z_t, h, weight.T)
        h = h.relu() if recurrence == "relu" else h
        states.append(h)
    return torch.stack(states, dim=1) if states else torch.zeros_like(z)


class _DenseStates(torch.autograd.Function):
    """The loop with an explicitly written backward pass.

    g_t = m_t (dL/dh_t + W' g_(t+1)) is dL/dz_t, with m_t the ReLU's mask; then dL/dW = sum_t g_t h_(t-1)',
    one product for all steps, where autograd would need one per step.
    """

    @staticmethod
    def forward(ctx: Any, z: Tensor, weight: Tensor, relu: bool) -> Tensor:
        states = z.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        transposed = weight.T.contiguous()
        for t in range(states.shape[0]):
            if t:
                states[t].addmm_(states[t - 1], transposed)
            if relu:
                states[t].relu_()
        ctx.save_for_backward(states, weight)
        ctx.relu = relu
        return states.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor, Tensor, None]:
        states, weight = ctx.saved_tensors
        adjoint = grad_states.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        for t in reversed(range(adjoint.shape[0])):
            if t + 1 < adjoint.shape[0]:
                adjoint[t].addmm_(adjoint[t + 1], weight)
            if ctx.relu:
                adjoint[t].mul_(states[t] > 0)
        grad_weight = adjoint[1:].flatten(0, 1).T @ states[:-1].flatten(0, 1)
        return adjoint.transpose(0, 1), grad_weight, None


def dense_states(z: Tensor, weight: Tensor, recurrence: str) -> Tensor:
    """Return every h_t as `states_loop` does, with a cheaper gradient."""
    states: Tensor = _DenseStates.apply(z, weight, recurrence == "relu")  # type: ignore[no-untyped-call]
    return states


def kernel_end_state(x: Tensor, weight: Tensor, input_weight: Tensor) -> Tensor:
    """Return h_T of the linear recurrence as one product with a kernel, `(batch, hidden_size)`.

        h_T = sum_k W^k U x_(T-k)      [K_n, W^n K_n] = K_2n,  K_1 = U

    The kernel costs T d_in d_h^2 for the whole batch, the product d_in d_h a row and step.

    Args:
        x: `(batch, time, input_size)`, input_weight: U `(hidden_size, input_size)`.
    """
    batch, time, input_size = x.shape
    hidden_size = weight.shape[0]
    if time == 0:
        return x.new_zeros(batch, hidden_size)
    kernel, power, length = input_weight, weight, 1  # kernel: (hidden_size, length * input_size)
    while length < time:
        more = min(length, time - length)
        kernel = torch.cat([kernel, power @ kernel[:, : more * input_size]], dim=1)
        length += more
        power = power @ power if length < time else power
    return x.flip(1).reshape(batch, time * input_size) @ kernel.T


def folded_end_state(z: Tensor, weight: Tensor) -> Tensor:
    """Return h_T of the linear recurrence by combining pairs of steps, with log2 T products in all.

    z'_j = W z_2j + z_(2j+1) has half the steps and the weight W^2; prepending a zero changes nothing.
    """
    if z.shape[1] == 0:
        return z.new_zeros(z.shape[0], z.shape[2])
    power = weight
    while z.shape[1] > 1:
        if z.shape[1] % 2:
            z = torch.cat([torch.zeros_like(z[:, :1]), z], dim=1)
        z = z[:, 1::2] + z[:, 0::2] @ power.T
        power = power @ power if z.shape[1] > 1 else power
    return z[:, 0]


def right_aligned(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Move each row's steps to the end, after zeros, on which a linear recurrence stays at 0."""
    if lengths is None:
        return x
    time = x.shape[1]
    source = torch.arange(time, device=x.device) - (time - lengths)[:, None]
    moved = x.gather(1, source.clamp(min=0)[..., None].expand_as(x))
    return torch.where((source >= 0)[..., None], moved, 0.0)


class DenseRecurrentLayer(BaselineLayer):
    """h_t = sigma(W h_(t-1) + U x_t + b_i) with a dense W that a subclass provides."""

    def __init__(
        self, input_size: int, hidden_size: int, recurrence: str, weight_bits: WeightBits = None
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.weight_bits = weight_bits
        self.recurrence = recurrence
        self.needs_activation = recurrence == "linear"
        self.input_weight = nn.Parameter(torch.empty(hidden_size, input_size))
        self.input_bias = nn.Parameter(torch.empty(hidden_size))
        initialize_projection(self.input_weight)
        nn.init.uniform_(self.input_bias, -(hidden_size**-0.5), hidden_size**-0.5)

    @abstractmethod
    def recurrent_weight(self) -> Tensor:
        """Return the W used in the forward pass, `(hidden_size, hidden_size)`."""

    def used_input_weight(self) -> Tensor:
        """Return the U used in the forward pass, `(hidden_size, input_size)`."""
        return quantize(self.input_weight, self.weight_bits)

    def states(self, x: Tensor | Tokens, valid: Tensor | None) -> Tensor:
        z = projected(x, self.used_input_weight(), self.input_bias)
        return dense_states(z, self.recurrent_weight(), self.recurrence)

    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        if self.recurrence != "linear":
            return super().end_state(x, lengths)
        x, _ = admitted(x, lengths, self.input_weight)
        weight = self.recurrent_weight()
        if isinstance(x, Tensor) and self._kernel_pays(len(x)):
            # b_i acts as a column of U for a constant input 1.
            extended = torch.cat([x, torch.ones_like(x[..., :1])], dim=-1)
            columns = torch.cat([self.used_input_weight(), self.input_bias[:, None]], dim=1)
            return kernel_end_state(right_aligned(extended, lengths), weight, columns)
        z = projected(x, self.used_input_weight(), self.input_bias)
        return folded_end_state(right_aligned(z, lengths), weight)

    def _kernel_pays(self, batch: int) -> bool:
        """Return whether the kernel costs less per step, m d_h (d_h + batch), than folding, batch d_h^2."""
        columns = self.input_size + 1
        return columns * (self.hidden_size + batch) < batch * self.hidden_size
