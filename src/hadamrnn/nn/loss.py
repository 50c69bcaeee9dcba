"""Cross-entropy that keeps its precision when it is tiny.

The copy task is learnt to losses around 1e-8, where float32's log-softmax is exactly zero and so is
its gradient. Here a position's loss is log(1 + sum_{c != target} exp(l_c - l_target)), by log1p.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import check_range, values_are_hidden
from hadamrnn.kernels.loss import cross_entropy as flat_cross_entropy
from hadamrnn.nn.inputs import widen


def target_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean loss that the targets ask for.

    Real targets: squared error. Integer ones: cross-entropy, binary where there is a single logit.

    Args:
        logits: `(..., output_size)`.
        target: integers `(...)`, or reals of the shape of the logits, whose last dimension may be left out
            if it is 1.
    """
    is_single = logits.shape[-1] == 1
    if target.is_floating_point():
        if target.shape != logits.shape:
            _check_shape(logits if is_single else logits[..., None], target)
        return mse_loss(logits.reshape(target.shape), target)
    if not is_single:
        return cross_entropy(logits, target)
    _check_shape(logits, target)
    if target.device.type == "cpu" and not values_are_hidden():
        check_range("Binary targets", target, 2)
    return binary_cross_entropy_with_logits(logits.squeeze(-1), target.to(logits.dtype))


def cross_entropy(logits: Tensor, targets: Tensor, ignore_index: int = -100) -> Tensor:
    """Return the mean cross-entropy; positions whose target is `ignore_index` do not count.

    Args:
        logits: `(..., classes)`; the loss is computed in float32 at least.
        targets: int64 `(...)`.

    >>> import torch
    >>> cross_entropy(torch.tensor([[40.0, 0.0]]), torch.tensor([0])) > 0
    tensor(True)
    """
    _check_shape(logits, targets)
    logits = widen(logits)
    rows = logits.reshape(targets.numel(), logits.shape[-1])
    return flat_cross_entropy(rows, targets.reshape(-1), ignore_index)


def _check_shape(logits: Tensor, targets: Tensor) -> None:
    if targets.shape != logits.shape[:-1] or targets.device != logits.device:
        raise InputError(
            f"The targets must have shape {tuple(logits.shape[:-1])} on {logits.device} to fit the logits, "
            f"got {tuple(targets.shape)} on {targets.device}."
        )
