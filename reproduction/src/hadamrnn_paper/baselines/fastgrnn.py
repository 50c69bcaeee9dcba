"""FastGRNN (Kusupati et al. 2018): a gated network whose gate and candidate share their matrices.

    s_t = W x_t + U h_(t-1)      z_t = sigmoid(s_t + b_z)      c_t = tanh(s_t + b_c)
    h_t = (zeta (1 - z_t) + nu) c_t + z_t h_(t-1)

zeta and nu are sigmoids of two learnt numbers; W and U may be low rank, sparse and quantized. `states_loop`
is the reference; `fast_states` computes the same states with an explicitly written backward pass.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hadamrnn.architecture import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.nn.interface import Constrained, Tokens
from hadamrnn.nn.straight_through import quantize
from hadamrnn_paper.baselines.layer import BaselineLayer, projected

# Fractions of a run: dense at first, then thresholded after every step, then with a fixed support.
THRESHOLD_FROM, FREEZE_FROM = 1 / 3, 2 / 3


class FactoredWeight(nn.Module):
    """A `(rows, columns)` matrix q(A), or q(A) q(B) with A `(rows, rank)`, B `(rank, columns)`.

    Args:
        rank: None for a single factor.
        density: fraction of each factor's entries that may be nonzero. Training is iterative hard
            thresholding: dense for a third of the run, then only the largest entries survive a step, and in
            the last third the support is fixed. Outside training the matrix is always sparse.
        weight_bits: bits of q, as in `hadamrnn.Network`.
    """

    def __init__(
        self, rows: int, columns: int, *, rank: int | None, density: float, weight_bits: WeightBits
    ) -> None:
        super().__init__()
        if rank is not None and not 1 <= rank <= min(rows, columns):
            raise InputError(
                f"The rank of a {rows} x {columns} matrix must lie in 1..{min(rows, columns)}, got {rank}."
            )
        self.density = density
        self.weight_bits = weight_bits
        shapes = [(rows, columns)] if rank is None else [(rows, rank), (rank, columns)]
        self.factors = nn.ParameterList(torch.empty(shape) for shape in shapes)
        for factor in self.factors:
            nn.init.xavier_uniform_(factor)
        if density < 1:
            self.supports = nn.ParameterList(
                nn.Parameter(torch.ones(shape, dtype=torch.bool), requires_grad=False) for shape in shapes
            )

    def used_factors(self) -> list[Tensor]:
        """Return the quantized, masked factors used in the forward pass."""
        factors = list(self.factors)
        if self.density < 1 and not self.training:
            factors = [factor * largest(factor, self.density) for factor in factors]
        return [quantize(factor, self.weight_bits) for factor in factors]

    def forward(self) -> Tensor:
        """Return the matrix, `(rows, columns)`."""
        first, *others = self.used_factors()
        return first @ others[0] if others else first

    @torch.no_grad()
    def constrain(self, progress: float) -> None:
        """Set the entries outside the support to zero."""
        if self.density == 1 or progress <= THRESHOLD_FROM:
            return
        for factor, support in zip(self.factors, self.supports, strict=True):
            if progress <= FREEZE_FROM:
                support.copy_(largest(factor, self.density))
            factor.mul_(support)


def largest(weight: Tensor, density: float) -> Tensor:
    """Return a mask of the largest entries: a fraction `density` of all entries, and at least one.

    >>> largest(torch.tensor([[3.0, -1.0], [0.5, -4.0]]), 0.5)
    tensor([[ True, False],
            [False,  True]])
    """
    count = max(1, round(density * weight.numel()))
    kept = torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device)
    kept[weight.detach().abs().flatten().topk(count).indices] = True
    return kept.view_as(weight)


STEPS_AT_ONCE = 16  # steps per pass of the adjoint: few enough that the operands stay in the cache
Parameters = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]  # U, b_z, b_c, zeta, nu


class FastGRNN(BaselineLayer, Constrained):
    """A FastGRNN layer.

    Args:
        weight_bits: bits of W and U; the paper's networks have 8.
        input_rank, recurrent_rank: ranks of W and U; None for full rank.
        input_density, recurrent_density: fraction of nonzero entries, see `FactoredWeight`.
        memory_steps: untrained units remember for 1 to this many steps; None for the original
            initialisation, about four steps. Sequences longer than a few hundred steps need a value.
        piecewise: piecewise linear sigmoid and tanh, which suit integer arithmetic.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        weight_bits: WeightBits = 8,
        input_rank: int | None = None,
        recurrent_rank: int | None = None,
        input_density: float = 1.0,
        recurrent_density: float = 1.0,
        memory_steps: int | None = None,
        piecewise: bool = False,
    ) -> None:
        super().__init__(input_size, hidden_size)
        self.piecewise = piecewise
        self.input_weight = FactoredWeight(
            hidden_size, input_size, rank=input_rank, density=input_density, weight_bits=weight_bits
        )
        self.recurrent_weight = FactoredWeight(
            hidden_size, hidden_size, rank=recurrent_rank, density=recurrent_density, weight_bits=weight_bits
        )
        self.gate_bias = nn.Parameter(torch.ones(hidden_size))
        self.candidate_bias = nn.Parameter(torch.ones(hidden_size))
        self.zeta_logit = nn.Parameter(torch.tensor(1.0))
        self.nu_logit = nn.Parameter(torch.tensor(-4.0))
        if memory_steps is not None:
            self._remember(memory_steps)

    @torch.no_grad()
    def _remember(self, steps: int) -> None:
        """Bias the gates to remember 1 to `steps` steps, log-spaced; a gate of m / (m + 1) remembers m steps.

        Every step adds nu c_t whatever the gate is. nu must start small, or this term drowns out the input.
        """
        self.gate_bias.copy_(torch.linspace(0.0, math.log(steps), self.hidden_size))
        self.candidate_bias.zero_()
        self.nu_logit.fill_(-math.log(steps))

    def states(self, x: Tensor | Tokens, valid: Tensor | None) -> Tensor:
        inputs = projected(x, self.input_weight(), None)
        zeta, nu = self.zeta_logit.sigmoid(), self.nu_logit.sigmoid()
        parameters = (self.recurrent_weight(), self.gate_bias, self.candidate_bias, zeta, nu)
        return fast_states(inputs, parameters, self.piecewise)

    def constrain(self, progress: float) -> None:
        self.input_weight.constrain(progress)
        self.recurrent_weight.constrain(progress)


def states_loop(inputs: Tensor, parameters: Parameters, piecewise: bool) -> Tensor:
    """Return every h_t from W x_t `(batch, time, hidden_size)`, by the reference loop."""
    weight, gate_bias, candidate_bias, zeta, nu = parameters
    h = inputs.new_zeros(inputs.shape[0], inputs.shape[2])
    states = []
    for input_t in inputs.unbind(1):
        total = input_t + h @ weight.T
        gate = ((total + gate_bias + 1) / 2).clamp(0, 1) if piecewise else (total + gate_bias).sigmoid()
        candidate = (total + candidate_bias).clamp(-1, 1) if piecewise else (total + candidate_bias).tanh()
        h = (zeta * (1 - gate) + nu) * candidate + gate * h
        states.append(h)
    return torch.stack(states, dim=1)


def fast_states(inputs: Tensor, parameters: Parameters, piecewise: bool) -> Tensor:
    """Return every h_t as `states_loop` does, with a cheaper gradient."""
    states: Tensor = _FastStates.apply(inputs, *parameters, piecewise)  # type: ignore[no-untyped-call]
    return states


class _FastStates(torch.autograd.Function):
    """The loop with an explicitly written backward pass, time first.

        dL/ds_t = g_t a_t      g_(t-1) = dL/dh_(t-1) + z_t g_t + U' dL/ds_t
        a_t = (h_(t-1) - zeta c_t) z'_t + (zeta (1 - z_t) + nu) c'_t

    All a_t are computed at once, and so are the gradients of the parameters. A step of the loop is then one
    product and three elementwise passes.
    """

    @staticmethod
    def forward(
        ctx: Any,
        inputs: Tensor,
        weight: Tensor,
        gate_bias: Tensor,
        candidate_bias: Tensor,
        zeta: Tensor,
        nu: Tensor,
        piecewise: bool,
    ) -> Tensor:
        gates = (inputs + gate_bias).transpose(0, 1).contiguous()
        candidates, states = torch.empty_like(gates), torch.empty_like(gates)
        transposed, shift = weight.T.contiguous(), candidate_bias - gate_bias
        h = torch.zeros_like(gates[0])
        for gate, candidate, state in zip(gates, candidates, states, strict=True):
            gate.addmm_(h, transposed)
            torch.add(gate, shift, out=candidate)
            if piecewise:
                gate.add_(1).mul_(0.5).clamp_(0, 1)
                candidate.clamp_(-1, 1)
            else:
                gate.sigmoid_()
                candidate.tanh_()
            torch.mul(gate, -zeta, out=state).add_(zeta + nu).mul_(candidate).addcmul_(gate, h)
            h = state
        ctx.save_for_backward(gates, candidates, states, weight, zeta, nu)
        ctx.piecewise = piecewise
        return states.transpose(0, 1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_states: Tensor) -> tuple[Tensor | None, ...]:
        gates, candidates, states, weight, zeta, nu = ctx.saved_tensors
        adjoint = grad_states.transpose(0, 1).clone(memory_format=torch.contiguous_format)
        grad_inputs = torch.empty_like(adjoint)
        start = torch.zeros_like(states[:1])
        sums: list[list[Tensor]] = []
        for first in reversed(range(0, len(states), STEPS_AT_ONCE)):
            steps = slice(first, first + STEPS_AT_ONCE)
            gate, candidate = gates[steps], candidates[steps]
            last = first + len(gate) - 1
            before = states[first - 1 : last] if first else torch.cat([start, states[:last]])
            gate_slope, candidate_slope = _slopes(gate, candidate, ctx.piecewise)
            by_gate = (before - zeta * candidate).mul_(gate_slope)
            by_candidate = (zeta + nu - zeta * gate).mul_(candidate_slope)
            slope = by_gate + by_candidate
            for t in reversed(range(first, first + len(gate))):
                torch.mul(adjoint[t], slope[t - first], out=grad_inputs[t])
                if t:
                    adjoint[t - 1].addcmul_(gates[t], adjoint[t]).addmm_(grad_inputs[t], weight)
            mixed = adjoint[steps] * candidate
            sums.append(
                [
                    grad_inputs[steps].flatten(0, 1).T @ before.flatten(0, 1),
                    by_gate.mul_(adjoint[steps]).sum((0, 1)),
                    by_candidate.mul_(adjoint[steps]).sum((0, 1)),
                    mixed.sum() - (mixed * gate).sum(),
                    mixed.sum(),
                ]
            )
        totals = [torch.stack(parts).sum(0) for parts in zip(*sums, strict=True)]
        return grad_inputs.transpose(0, 1), *totals, None


def _slopes(gate: Tensor, candidate: Tensor, piecewise: bool) -> tuple[Tensor, Tensor]:
    """Return the derivatives of the two nonlinearities, computed from their outputs."""
    if piecewise:
        return 0.5 * ((gate > 0) & (gate < 1)), (candidate.abs() < 1).to(gate.dtype)
    return gate * (1 - gate), 1 - candidate.square()
