"""Mean cross-entropy that stays exact when it is tiny, as a torch operator.

With d_c = l_c - l_target the loss of a position is log(1 + sum_{c != target} exp(d_c)), by log1p: a
logit gap of 30 gives 1e-13 where torch's own gives 0 in float32. The gradients are as exact: that of
the target's logit is minus the sum of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import NATIVE_DTYPES, check_array, values_are_hidden
from hadamrnn.kernels.library import LossArgs, native_kernel
from hadamrnn.kernels.operators import define_operator
from hadamrnn.kernels.threads import run_slices

# Positions of one slice: a function of the shape only, so the bits do not depend on the threads.
_SLICE = 4096


def _forward(
    logits: Tensor, targets: Tensor, ignore_index: int, with_gradient: bool
) -> tuple[Tensor, Tensor]:
    """Return the mean loss over the positions whose target is not `ignore_index`, and its gradient.

    Args:
        logits: float32 or float64 on the CPU, `(positions, classes)`.
        targets: int64 `(positions,)`, each 0..classes-1 or `ignore_index`.

    Returns:
        The loss, a scalar; the gradient of the logits (`(0,)` unless `with_gradient`).
    """
    if logits.dim() != 2 or logits.dtype not in NATIVE_DTYPES or logits.shape[1] == 0:
        raise InputError(
            "logits must be float32 or float64 of shape (positions, classes) with at least one class, "
            f"got {logits.dtype} of shape {tuple(logits.shape)}."
        )
    positions, classes = logits.shape
    check_array("logits", logits, logits.dtype, (positions, classes))
    check_array("targets", targets, torch.int64, (positions,))
    logits, targets = logits.contiguous(), targets.contiguous()
    count = _count_targets(targets, classes, ignore_index)
    slices = max(1, -(-positions // _SLICE))
    losses = logits.new_zeros(slices)
    gradient = torch.empty_like(logits) if with_gradient else logits.new_empty(0)
    args = LossArgs(
        positions, classes, ignore_index, slices, logits.data_ptr(), targets.data_ptr(),
        losses.data_ptr(), gradient.data_ptr() if with_gradient else None,
        1 / count if count else float("nan"),
    )  # fmt: skip
    run_slices(native_kernel("loss", logits.dtype), args, slices)
    total = losses.double().cumsum(0)[-1]  # in order, like every sum over slices
    return (total / count).to(logits.dtype), gradient


def _forward_shapes(
    logits: Tensor, targets: Tensor, ignore_index: int, with_gradient: bool
) -> tuple[Tensor, Tensor]:
    gradient = torch.empty_like(logits, memory_format=torch.contiguous_format)
    return logits.new_empty(()), gradient if with_gradient else logits.new_empty(0)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor]) -> None:
    logits, targets, ctx.ignore_index, _ = inputs
    ctx.save_for_backward(logits, targets)
    ctx.gradient = output[1]
    ctx.mark_non_differentiable(output[1])
    ctx.set_materialize_grads(False)  # of the gradient itself: zeros as large as the logits


def _differentiate(ctx: Any, grad_loss: Tensor, _: Tensor) -> tuple[Tensor, None, None, None]:
    logits, targets = ctx.saved_tensors
    if not torch.is_grad_enabled():
        gradient, ctx.gradient = ctx.gradient, None
        if gradient is None:  # the graph was retained, and the caller may have changed what it got before
            with torch._C._AutoDispatchBelowAutograd():
                _, gradient = cross_entropy(logits, targets, ctx.ignore_index, True)
        return gradient if _is_one(grad_loss) else scale(gradient, grad_loss), None, None, None
    # create_graph=True: a gradient that can be differentiated again.
    rows = logits.view_as(logits)
    loss = cross_entropy_reference(rows, targets, ctx.ignore_index)
    (again,) = torch.autograd.grad(loss, rows, grad_loss, create_graph=True)
    return again, None, None, None


def _is_one(gradient: Tensor) -> bool:
    """Whether this is the gradient of a loss that is minimised itself; those of a tracer have no value."""
    hidden = values_are_hidden() or torch._C._functorch.is_legacy_batchedtensor(gradient)
    return type(gradient) is Tensor and not hidden and gradient.item() == 1


def _scaled(values: Tensor, factor: Tensor) -> Tensor:
    """Return factor * values, in this thread alone.

    torch would wake its own threads, which then spin on the cores that the scan's are about to need.
    """
    return torch.from_numpy(np.multiply(values.numpy(), values.numpy().dtype.type(factor.item())))


cross_entropy = define_operator(
    "hadamrnn::cross_entropy",
    "(Tensor logits, Tensor targets, int ignore_index, bool with_gradient) -> (Tensor, Tensor)",
    _forward,
    _forward_shapes,
    _save,
    _differentiate,
)
scale = define_operator(
    "hadamrnn::scale",
    "(Tensor values, Tensor factor) -> Tensor",
    _scaled,
    lambda values, factor: torch.empty_like(values),
)


def cross_entropy_reference(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Return the same in plain torch: softplus of the others' log-sum-exp against the target's logit."""
    counted = targets != ignore_index
    index = torch.where(counted, targets, 0)[:, None]
    others = (logits - logits.gather(1, index)).scatter(1, index, float("-inf"))
    losses = softplus(others.logsumexp(1), threshold=40.0)
    return torch.where(counted, losses, torch.zeros_like(losses)).sum() / counted.sum()


def _count_targets(targets: Tensor, classes: int, ignore_index: int) -> int:
    """Return how many targets count; refuse those that would make the native code read out of bounds."""
    positions = targets.shape[0]
    values = targets.numpy()
    if positions == 0 or (0 <= values.min() and values.max() < classes and not 0 <= ignore_index < classes):
        return positions
    wrong = targets[((targets < 0) | (targets >= classes)) & (targets != ignore_index)]
    if wrong.numel():
        raise InputError(f"targets must lie in 0..{classes - 1} or be {ignore_index}, got {int(wrong[0])}.")
    return int((targets != ignore_index).sum())
