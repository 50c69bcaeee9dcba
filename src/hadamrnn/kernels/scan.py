"""The fused scan as a torch operator: h_t = f(W h_(t-1) + z_t), on the CPU, in float32 or float64.

`hadamrnn::scan` runs the recurrence and, if it is given V, the read-out; `hadamrnn::scan_backward` is
its gradient. torch.compile takes both as they are: their fake kernels tell it the shapes.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from hadamrnn.kernels.problem import DIFFERENTIABLE, Problem, backward, forward


@torch.library.custom_op("hadamrnn::scan", mutates_args=())
def scan(
    x: Tensor | None,
    ids: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    signs: Tensor,
    column_signs: Tensor | None,
    h_0: Tensor | None,
    lengths: Tensor | None,
    output_weight: Tensor | None,
    output_bias: Tensor | None,
    block_size: int,
    relu: bool,
    sigma: bool,
    every_output: bool,
    segment: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run h_t = f(W h_(t-1) + z_t) over the rows of a batch.

    Args:
        x, weight, bias: z_t = U x_t + b with x `(batch, time, input_size)`, U `(hidden_size, input_size)`
            (an `input_size` of 0 leaves z_t = b); without weight z_t = x_t.
        ids, weight: z_t = weight[id_t] with ids int64 `(batch, time)`, weight `(num_ids, hidden_size)`.
        signs, column_signs: u and v of W(u, v), `(hidden_size,)`.
        h_0, lengths: `(batch, hidden_size)` and int64 `(batch,)`.
        output_weight, output_bias: V `(output_size, hidden_size)` and b_o: give logits instead of states.
        relu, sigma: whether f is ReLU; whether the read-out sees ReLU(h_t).
        every_output: whether the states of all steps are wanted.
        segment: steps between two states kept for the backward pass; `time` keeps none.

    Returns:
        states `(batch, time, hidden_size)` or logits `(batch, time, output_size)` or nothing `(0,)`;
        the last `(batch, hidden_size)`; the kept ones `(batch, ceil(time / segment) - 1, hidden_size)`.
    """
    return forward(
        Problem(
            x, ids, weight, bias, signs, column_signs, h_0, lengths, output_weight, output_bias,
            block_size, relu, sigma, every_output, segment,
        )
    )  # fmt: skip


@torch.library.custom_op("hadamrnn::scan_backward", mutates_args=())
def scan_backward(
    x: Tensor | None,
    ids: Tensor | None,
    weight: Tensor | None,
    bias: Tensor | None,
    signs: Tensor,
    column_signs: Tensor | None,
    h_0: Tensor | None,
    lengths: Tensor | None,
    output_weight: Tensor | None,
    output_bias: Tensor | None,
    block_size: int,
    relu: bool,
    sigma: bool,
    every_output: bool,
    segment: int,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor | None,
    last: Tensor,
    checkpoints: Tensor,
    wanted: list[bool],
) -> list[Tensor]:
    """Return the gradients of x, weight, bias, u, v, h_0, V and b_o, `(0,)` where not wanted."""
    problem = Problem(
        x, ids, weight, bias, signs, column_signs, h_0, lengths, output_weight, output_bias,
        block_size, relu, sigma, every_output, segment,
    )  # fmt: skip
    gradients = backward(problem, grad_output, grad_last, output, last, checkpoints, wanted)
    return [signs.new_empty(0) if gradient is None else gradient for gradient in gradients]


_INPUTS = tuple(Problem.__dataclass_fields__)


@scan.register_fake
def _(*inputs: Any) -> tuple[Tensor, Tensor, Tensor]:
    return Problem(*inputs).empty_results()


@scan_backward.register_fake
def _(*inputs: Any) -> list[Tensor]:
    problem, wanted = Problem(*inputs[: len(_INPUTS)]), inputs[-1]
    likes = [getattr(problem, name) for name in DIFFERENTIABLE]
    return [
        torch.empty_like(like, memory_format=torch.contiguous_format)
        if is_wanted
        else problem.signs.new_empty(0)
        for like, is_wanted in zip(likes, wanted, strict=True)
    ]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    problem = Problem(*inputs)
    tensors = inputs[: _INPUTS.index("block_size")]
    states = output[0] if problem.every_output and problem.output_weight is None else None
    ctx.save_for_backward(*tensors, states, *output[1:])
    ctx.shape = inputs[len(tensors) :]
    ctx.set_materialize_grads(False)


def _differentiate(
    ctx: Any, grad_output: Tensor | None, grad_last: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    *tensors, states, last, checkpoints = ctx.saved_tensors
    wanted = [bool(ctx.needs_input_grad[_INPUTS.index(name)]) for name in DIFFERENTIABLE]
    gradients = scan_backward(*tensors, *ctx.shape, grad_output, grad_last, states, last, checkpoints, wanted)
    found = dict(zip(DIFFERENTIABLE, gradients, strict=True))
    return tuple(
        found[name] if name in found and needed else None
        for name, needed in zip(_INPUTS, ctx.needs_input_grad, strict=True)
    )


scan.register_autograd(_differentiate, setup_context=_save)
