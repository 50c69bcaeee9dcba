"""Compute a mean cross-entropy that is accurate even if it is tiny: the copy task reaches losses near 1e-8.

With d_c = l_c - l_target, the loss of a position is log(1 + sum_{c != target} exp(d_c)), computed by log1p. A
logit gap of 30 gives 1e-13, for which torch's own loss gives 0 in float32. Gradients are as accurate: the
gradient of the target's logit is minus the sum of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import softplus

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import check_range, is_traced, runs_natively, widen
from hadamrnn.kernels.call import Call
from hadamrnn.kernels.library import LossArgs

# Positions per slice depend only on the shape, so the bits do not depend on the number of threads.
_SLICE = 4096


def cross_entropy(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy, natively if possible.

    Args:
        logits: `(..., classes)`; the loss is computed at least in float32.
        targets: int64 `(...)`.

    >>> cross_entropy(torch.tensor([[40.0, 0.0]]), torch.tensor([0])) > 0
    tensor(True)
    """
    check_targets(logits, targets)
    rows, targets = widen(logits).reshape(targets.numel(), logits.shape[-1]), targets.reshape(-1)
    if is_traced(rows) or not runs_natively(rows):  # when traced, the compiler fuses plain torch
        return cross_entropy_reference(rows, targets)
    loss: Tensor = CrossEntropy.apply(rows, targets)  # type: ignore[no-untyped-call]
    return loss


def loss_and_gradient(logits: Tensor, targets: Tensor, with_gradient: bool) -> tuple[Tensor, Tensor]:
    """Return the mean loss over the positions, and its gradient.

    Args:
        logits: float32 or float64 on the CPU, `(positions, classes)`.
        targets: int64 `(positions,)`, each 0..classes-1.

    Returns:
        The loss, a scalar; the gradient of the logits (`(0,)` unless `with_gradient`).
    """
    if logits.dim() != 2 or logits.shape[1] == 0:
        raise InputError(
            f"logits must have shape (positions, classes) with at least one class, got {tuple(logits.shape)}."
        )
    positions, classes = logits.shape
    slices = max(1, -(-positions // _SLICE))
    call = Call(LossArgs(positions, classes, slices), logits.dtype)
    call.point("logits", logits, (positions, classes))
    call.point("targets", targets, (positions,), torch.int64)
    check_range("targets", targets, classes)
    losses = logits.new_zeros(slices)
    gradient = logits.new_empty(logits.shape if with_gradient else 0)
    call.keep("losses", losses)
    if with_gradient:
        call.keep("grad_logits", gradient)
    call.args.scale = 1 / positions if positions else float("nan")
    call.run("loss")
    total = losses.double().cumsum(0)[-1]  # adds in order, as all sums over slices do
    return (total / positions).to(logits.dtype), gradient


class CrossEntropy(Function):
    """The mean loss; its gradient is computed in the same pass."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor) -> Tensor:
        loss, ctx.gradient = loss_and_gradient(logits, targets, ctx.needs_input_grad[0])
        ctx.save_for_backward(logits, targets)
        return loss

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor, None]:
        logits, targets = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True: the gradient must be differentiable
            rows = logits.view_as(logits)
            loss = cross_entropy_reference(rows, targets)
            (again,) = torch.autograd.grad(loss, rows, grad_loss, create_graph=True)
            return again, None
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:  # the graph was retained, and the caller may have changed the earlier gradient
            _, gradient = loss_and_gradient(logits, targets, True)
        return _scaled(gradient, grad_loss), None


def _scaled(gradient: Tensor, factor: Tensor) -> Tensor:
    """Return factor * gradient, computed in the calling thread only.

    torch would wake its own threads, which would then spin on cores that the scan needs next.
    """
    try:
        number = factor.item()
    except RuntimeError:  # under vmap the gradient is batched
        return gradient * factor
    if number == 1:  # the usual case: the loss itself is minimised
        return gradient
    values = gradient.numpy()
    return torch.from_numpy(np.multiply(values, values.dtype.type(number)))


def cross_entropy_reference(logits: Tensor, targets: Tensor) -> Tensor:
    """Return the same loss in plain torch: softplus of the others' log-sum-exp minus the target's logit."""
    index = targets[:, None]
    others = (logits - logits.gather(1, index)).scatter(1, index, float("-inf"))
    return softplus(others.logsumexp(1), threshold=40.0).sum() / targets.numel()


def check_targets(logits: Tensor, targets: Tensor) -> None:
    if targets.shape != logits.shape[:-1] or targets.device != logits.device:
        raise InputError(
            f"The targets must have shape {tuple(logits.shape[:-1])} on {logits.device} to fit the logits, "
            f"got {tuple(targets.shape)} on {targets.device}."
        )
