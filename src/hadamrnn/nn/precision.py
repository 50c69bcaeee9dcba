"""Which numbers a layer takes and computes in.

Input and initial state have the weights' type, as torch.nn.RNN wants it. The recurrence runs in float32
(float64 in a float64 layer) and its result has the weights' type again: a state of a thousand steps has
no digits to lose to float16 or bfloat16. Autocast does not change that; under it, input of any type below
float64 is welcome.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import autocast_is_on

AUTOCAST_DTYPES = (torch.float16, torch.bfloat16, torch.float32)


def admit(name: str, tensor: Tensor, weight: Tensor) -> Tensor:
    """Return the tensor in the type to compute in; refuse another type or device than the weights'."""
    mixed = autocast_is_on(weight) and {tensor.dtype, weight.dtype} <= set(AUTOCAST_DTYPES)
    if tensor.dtype != weight.dtype and not mixed:
        raise InputError(
            f"{name} must be {weight.dtype} like the layer's weights, got {tensor.dtype}. "
            f"Convert it with .to({weight.dtype}), or the layer with layer.double() and the like."
        )
    if tensor.device != weight.device:
        raise InputError(
            f"{name} must be on {weight.device} like the layer's weights, got {tensor.device}. "
            "Move one of them with .to(device)."
        )
    return widen(tensor)


def widen(tensor: Tensor) -> Tensor:
    """Return the tensor in float32; float64 stays."""
    return tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)
