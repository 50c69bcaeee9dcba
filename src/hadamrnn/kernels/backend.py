"""Choose the backend: the C library, or plain torch.

The kernels implement forward and first-order backward on the CPU, in float32 and float64. Everything else
(forward-mode derivatives, `torch.func` transforms, other devices) uses plain torch operations.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from contextlib import AbstractContextManager, nullcontext
from typing import ParamSpec, TypeVar

import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import Parameter

from hadamrnn.errors import InputError
from hadamrnn.kernels.library import load_library

NATIVE_DTYPES = (torch.float32, torch.float64)
P = ParamSpec("P")
R = TypeVar("R")
_constants: dict[Hashable, Tensor] = {}


def constant_when_traced(function: Callable[P, R]) -> Callable[P, R]:
    """Make a tracer call `function` once and treat its result as a constant.

    `torch.compiler.assume_constant_result` does the same, but it imports the whole compiler, which would
    delay every command by seconds.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def constant_tensor(
    make: Callable[..., ArrayLike],
    arguments: tuple[Hashable, ...],
    dtype: torch.dtype,
    device: torch.device,
) -> Tensor:
    """Return `make(*arguments)` as a tensor, computed once and cached.

    The result works with autograd even if the first call was in inference mode. A FakeTensor, which
    torch.export creates, is not cached.
    """
    key = (make, arguments, dtype, device)
    if key in _constants:
        return _constants[key]
    with torch.inference_mode(False):
        tensor = torch.tensor(make(*arguments), dtype=dtype, device=device)
    if type(tensor) is Tensor:
        _constants[key] = tensor
    return tensor


@constant_when_traced
def native_is_loaded() -> bool:
    return load_library() is not None


def runs_natively(tensor: Tensor, *others: Tensor | None) -> bool:
    """Return whether the native library can run on tensors like the first, including derivatives."""
    if tensor.device.type != "cpu" or tensor.dtype not in NATIVE_DTYPES or not native_is_loaded():
        return False
    return not (is_transformed() or any(map(_has_tangent, (tensor, *others))))


def is_transformed() -> bool:
    """Return whether a `torch.func` transform (vmap, grad, jvp, ...) is active."""
    return torch._C._are_functorch_transforms_active()


def values_are_hidden() -> bool:
    """Return whether tensor values cannot be inspected because torch is tracing or transforming."""
    return torch.compiler.is_compiling() or is_transformed()


def is_traced(tensor: Tensor) -> bool:
    """Return whether C cannot read the tensor because torch is tracing or the tensor has no memory."""
    return torch.compiler.is_compiling() or (not isinstance(tensor, Parameter) and type(tensor) is not Tensor)


def is_constant(tensor: Tensor) -> bool:
    """Return whether the tensor is not differentiated, so that results computed from it may be cached."""
    return _has_values(tensor) and not (tensor.requires_grad and torch.is_grad_enabled())


def derivatives_are_off(tensor: Tensor) -> bool:
    """Return whether torch records no derivatives, so that results may be cached for the next call."""
    return _has_values(tensor) and not torch.is_grad_enabled()


def full_precision(tensor: Tensor) -> AbstractContextManager[None]:
    """Switch autocast off on the device of `tensor`."""
    return torch.autocast(tensor.device.type, enabled=False) if autocast_is_on(tensor) else nullcontext()


def autocast_is_on(tensor: Tensor) -> bool:
    kind = tensor.device.type
    return torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)


def widen(tensor: Tensor) -> Tensor:
    """Convert the tensor to float32, or leave it in float64."""
    return tensor if tensor.dtype == torch.float64 else tensor.to(torch.float32)


def check_array(name: str, tensor: Tensor, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Refuse a tensor that C could not read as expected; the last check before taking its pointer."""
    if tensor.dtype != dtype or tuple(tensor.shape) != shape:
        raise InputError(
            f"{name} must be {dtype} of shape {shape}, got {tensor.dtype} of shape {tuple(tensor.shape)}."
        )
    if tensor.device.type != "cpu" or tensor.layout != torch.strided:
        raise InputError(f"{name} must be dense and on the CPU, got {tensor.layout} on {tensor.device}.")


def check_ids(ids: Tensor, num_ids: int) -> None:
    """Refuse ids that are not int64 in 0..num_ids-1 (their values are not checked while tracing)."""
    if ids.dtype != torch.int64:
        raise InputError(f"Token ids must be int64, got {ids.dtype}. Convert them with .long().")
    if not values_are_hidden():
        check_range("Token ids", ids, num_ids, " Map unknown tokens to a reserved id first.")


def check_range(name: str, values: Tensor, limit: int, advice: str = "") -> None:
    """Refuse integers outside 0..limit - 1, which would make C read out of bounds."""
    if values.numel() == 0 or type(values) is not Tensor:
        return
    numbers = values.detach().cpu().numpy()  # numpy, because torch would wake its threads
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest < 0 or highest >= limit:
        wrong = lowest if lowest < 0 else highest
        raise InputError(f"{name} must lie in 0..{limit - 1}, got {wrong}.{advice}")


def _has_values(tensor: Tensor) -> bool:
    """Return whether the tensor's values can be inspected, and it has no tangent."""
    return not (values_are_hidden() or is_traced(tensor) or tensor.is_meta or _has_tangent(tensor))


def _has_tangent(tensor: Tensor | None) -> bool:
    if forward_ad._current_level < 0:  # no forward-mode derivative is active: most calls end here
        return False
    return tensor is not None and forward_ad.unpack_dual(tensor).tangent is not None
