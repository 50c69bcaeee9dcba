"""Torch operators with their own gradient, for less than `torch.library.custom_op` costs a call.

`custom_op` reads the whole schema again for every argument of every call, about 0.2 ms for a
recurrence. Here the kernel, its shapes (for torch.compile) and its gradient are registered one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.autograd import Function

from hadamrnn.errors import InputError

Operator = Callable[..., Any]


def define_operator(
    name: str,
    schema: str,
    compute: Operator,
    shapes: Operator,
    save: Operator | None = None,
    differentiate: Operator | None = None,
) -> OpOverload[..., Any]:
    """Return the operator `name`.

    Args:
        compute: the operator on CPU tensors.
        shapes: tensors like its results, of any values.
        save: called with ctx, inputs and results, keeps what `differentiate` needs.
        differentiate: called with ctx and the gradients of the results, returns those of the inputs. Without
            it a gradient through the operator raises; it is never silently zero.
    """
    torch.library.define(name, schema)
    torch.library.impl(name, "CPU")(compute)
    torch.library.register_fake(name)(shapes)
    space, _, short = name.partition("::")
    operator: OpOverload[..., Any] = getattr(getattr(torch.ops, space), short).default

    def below(*arguments: Any) -> Any:
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)

    def forward(ctx: Any, *arguments: Any) -> Any:
        results = below(*arguments)
        if save is not None:
            save(ctx, arguments, results)
        return results

    methods = {"forward": staticmethod(forward), "backward": differentiate and staticmethod(differentiate)}
    function: Any = type(f"{short}_function", (Function,), methods)

    def with_gradient(*arguments: Any) -> Any:
        if not (torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments)):
            return below(*arguments)
        if differentiate is None:
            raise InputError(f"{name} has no gradient. Detach its tensors, or use torch.no_grad().")
        return function.apply(*arguments)

    torch.library.impl(name, "Autograd")(with_gradient)
    return operator


def keep_arguments(ctx: Any, arguments: Sequence[Any], *more: Tensor | None) -> None:
    """Keep an operator's arguments, and more tensors, for its gradient; see `kept_arguments`."""
    ctx.others = [None if isinstance(value, Tensor) else value for value in arguments]
    ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in arguments), *more)
    ctx.set_materialize_grads(False)


def kept_arguments(ctx: Any) -> tuple[list[Any], list[Tensor | None]]:
    """Return the arguments that `keep_arguments` has kept, and the tensors beside them."""
    saved = list(ctx.saved_tensors)
    count = len(ctx.others)
    pairs = zip(saved[:count], ctx.others, strict=True)
    return [other if tensor is None else tensor for tensor, other in pairs], saved[count:]


def empty_gradients(tensors: Sequence[Tensor | None], wanted: Sequence[bool], like: Tensor) -> list[Tensor]:
    """Return tensors like those whose gradient is wanted; `(0,)`, of the type of `like`, for the others."""
    return [
        torch.empty_like(tensor, memory_format=torch.contiguous_format)
        if is_wanted and tensor is not None
        else like.new_empty(0)
        for tensor, is_wanted in zip(tensors, wanted, strict=True)
    ]
