"""Project the inputs of all steps at once, U x_t + b_i, with gradients.

The native product uses the slices and threads of the other kernels. Start reading at `project`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function
from torch.nn.functional import linear

from hadamrnn.kernels.backend import is_traced, runs_natively
from hadamrnn.kernels.call import Call, count_slices, sum_slices
from hadamrnn.kernels.library import ProductArgs
from hadamrnn.kernels.recurrence import Recurrence

# Multiply-adds per slice, about 50 microseconds of work.
GRAIN = 1 << 23
# Limit on the total size of the matrices that the slices of one sum produce.
SUMS_BYTES = 8 << 20


def project(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """Return `torch.nn.functional.linear(x, weight, bias)`, natively if possible."""
    if is_traced(x) or not runs_natively(weight, x, bias) or not x.numel():
        return linear(x, weight, bias)
    projected: Tensor = Project.apply(x, weight, bias)  # type: ignore[no-untyped-call]
    return projected


def with_rows(recurrence: Recurrence) -> Recurrence:
    """Return the same recurrence with every z_t as input, instead of x or ids with a weight."""
    x, weight = recurrence.x, recurrence.weight
    if x is None or weight is None:
        rows = recurrence.projected()
    else:
        rows = project(x, weight, recurrence.bias)
    return replace(recurrence, x=rows, ids=None, weight=None, bias=None)


class Project(Function):
    """`project` in C, with its gradient."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return product(x.reshape(-1, x.shape[-1]), weight.T, bias).reshape(*x.shape[:-1], len(weight))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        rows, seen = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
        wants_x, wants_weight, wants_bias = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True
            grad_x, grad_weight, grad_bias = rows @ weight, rows.T @ seen, rows.sum(0)
            return grad_x.reshape(x.shape), grad_weight, grad_bias if wants_bias else None
        grad_x = product(rows, weight).reshape(x.shape) if wants_x else None
        if not (wants_weight or wants_bias):
            return grad_x, None, None
        found = sum_of_products(seen, rows)
        return grad_x, found[:-1].T.contiguous(), found[-1].clone() if wants_bias else None


def product(a: Tensor, b: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return a b + bias for matrices."""
    rows, depth, columns = *a.shape, b.shape[1]
    slices = count_slices(rows, rows * columns * depth, GRAIN)
    call = Call(ProductArgs(rows, columns, depth, depth, 1, slices), a.dtype)
    call.point("a", a, (rows, depth))
    call.point("b", b, (depth, columns))
    call.point("bias", bias, (columns,))
    c = a.new_empty(rows, columns)
    call.keep("c", c)
    call.run("product")
    return c


def sum_of_products(a: Tensor, b: Tensor) -> Tensor:
    """Return a' b, the sum over rows of the outer products of two matrices' rows; the last row is b's sum."""
    depth, rows, columns = *a.shape, b.shape[1]
    most = max(2, SUMS_BYTES // max(1, rows * columns * a.element_size()))
    slices = count_slices(min(depth, most), rows * columns * depth, GRAIN)
    call = Call(ProductArgs(rows, columns, depth, 1, rows, slices), a.dtype)
    call.point("a", a, (depth, rows))
    call.point("b", b, (depth, columns))
    c = a.new_empty(slices, rows + 1, columns)
    call.keep("c", c)
    call.run("product_terms")
    return sum_slices(c)
