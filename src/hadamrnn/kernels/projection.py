"""Z = X U' + b over all positions: the dense products between two layers, on the scan's own threads.

torch's products would wake its threads, which then spin on the cores that the scan's are about to need.
Start reading at `project`; `torch.nn.functional.linear` is the plain form.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import linear

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import NATIVE_DTYPES, check_array, full_precision, runs_natively
from hadamrnn.kernels.library import ProjectArgs, native_kernel
from hadamrnn.kernels.operators import define_operator
from hadamrnn.kernels.plain import as_leaves, gradients_again
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.kernels.threads import run_slices, sum_slices

# Positions of one slice at least, and the bytes of all slices' sums at most (two slices are always allowed).
_SLICE = 512
_SUMS_BYTES = 8 << 20
_DIFFERENTIABLE = ("x", "weight", "bias")


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return z `(..., outputs)`.

    Args:
        x: `(..., inputs)`.
        weight: U `(outputs, inputs)`.
        bias: b `(outputs,)`, zeros by default.
    """
    if not runs_natively(x, weight, bias):
        return linear(x, weight, bias)
    z: Tensor = project_operator(x, weight, bias)
    return z


def with_rows(recurrence: Recurrence) -> Recurrence:
    """Return the same recurrence with every z_t as its input, in place of x or ids and their weight."""
    if recurrence.x is None or recurrence.weight is None:
        rows = recurrence.projected()
    else:
        rows = project(recurrence.x, recurrence.weight, recurrence.bias)
    return replace(recurrence, x=rows, ids=None, weight=None, bias=None)


class _Call:
    """A filled-in `ProjectArgs`, and the tensors that keep its pointers alive."""

    def __init__(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> None:
        if weight.dim() != 2 or x.dim() < 1 or weight.dtype not in NATIVE_DTYPES:
            rule = "x and weight must be float32 or float64 of shapes (..., inputs) and (outputs, inputs)"
            found = f"{x.dtype} {tuple(x.shape)} and {weight.dtype} {tuple(weight.shape)}"
            raise InputError(f"{rule}, got {found}.")
        outputs, inputs = weight.shape
        self.dtype, self.shape = weight.dtype, (*x.shape[:-1], outputs)
        self.positions = x.numel() // inputs if inputs else x.shape[:-1].numel()
        self.slices = _count_slices(self.positions, weight)
        self.args = ProjectArgs(self.positions, inputs, outputs, self.slices)
        self.tensors: list[Tensor] = []
        self.point("x", x, (*x.shape[:-1], inputs))
        self.point("weight", weight, (outputs, inputs))
        self.point("bias", bias, (outputs,))

    def point(self, name: str, tensor: Tensor | None, shape: tuple[int, ...]) -> None:
        if tensor is not None:
            check_array(name, tensor, self.dtype, shape)
            self.tensors.append(tensor.contiguous())
            setattr(self.args, name, self.tensors[-1].data_ptr())

    def run(self, kernel: str) -> None:
        run_slices(native_kernel(kernel, self.dtype), self.args, self.slices)


def _count_slices(positions: int, weight: Tensor) -> int:
    """Return the number of slices: a function of the shape only."""
    by_memory = max(2, _SUMS_BYTES // max(weight.numel() * weight.element_size(), 1))
    return max(1, min(positions // _SLICE, by_memory))


def _forward(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    call = _Call(x, weight, bias)
    z = torch.empty(call.shape, dtype=call.dtype)
    call.point("z", z, call.shape)
    call.run("project_forward")
    return z


def _backward(x: Tensor, weight: Tensor, grad_z: Tensor, wanted: list[bool]) -> list[Tensor]:
    """Return the gradients of x, weight and bias, `(0,)` where not wanted."""
    call = _Call(x, weight, None)
    call.point("grad_z", grad_z, call.shape)
    shapes = (x.shape, (call.slices, *weight.shape), (call.slices, weight.shape[0]))
    found = [
        torch.empty(shape if is_wanted else 0, dtype=call.dtype)
        for shape, is_wanted in zip(shapes, wanted, strict=True)
    ]
    for name, gradient, is_wanted in zip(_DIFFERENTIABLE, found, wanted, strict=True):
        call.point(f"grad_{name}", gradient if is_wanted else None, tuple(gradient.shape))
    call.run("project_backward")
    return [found[0], *(sum_slices(parts) if parts.dim() > 1 else parts for parts in found[1:])]


def _forward_shapes(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    return x.new_empty((*x.shape[:-1], weight.shape[0]))


def _backward_shapes(x: Tensor, weight: Tensor, grad_z: Tensor, wanted: list[bool]) -> list[Tensor]:
    shapes = (x.shape, weight.shape, weight.shape[:1])
    return [x.new_empty(shape if is_wanted else 0) for shape, is_wanted in zip(shapes, wanted, strict=True)]


def _save(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor | None], _: Tensor) -> None:
    ctx.save_for_backward(*inputs)


def _differentiate(ctx: Any, grad_z: Tensor) -> tuple[Tensor | None, ...]:
    x, weight, _ = ctx.saved_tensors
    wanted = list(ctx.needs_input_grad)
    if not torch.is_grad_enabled():
        results = project_backward_operator(x, weight, grad_z, wanted)
        return tuple(
            gradient if is_wanted else None for gradient, is_wanted in zip(results, wanted, strict=True)
        )
    # create_graph=True: in plain torch, which can be differentiated again.
    given = dict(zip(_DIFFERENTIABLE, ctx.saved_tensors, strict=True))
    leaves = as_leaves({name: tensor for name, tensor in given.items() if tensor is not None})
    with full_precision(x):
        z = linear(leaves["x"], leaves["weight"], leaves.get("bias"))
        found = gradients_again((z,), (grad_z,), leaves)
    return tuple(found.get(name) for name in _DIFFERENTIABLE)


project_operator = define_operator(
    "hadamrnn::project",
    "(Tensor x, Tensor weight, Tensor? bias) -> Tensor",
    _forward,
    _forward_shapes,
    _save,
    _differentiate,
)
project_backward_operator = define_operator(
    "hadamrnn::project_backward",
    "(Tensor x, Tensor weight, Tensor grad_z, bool[] wanted) -> Tensor[]",
    _backward,
    _backward_shapes,
)
