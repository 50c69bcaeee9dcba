"""Fused batch norm, ReLU and skip connection, with a plain reference beside the native code.

    y = ReLU(a (h - m) / s + c) + skip        m, s^2: mean and variance of each unit over the batch

Steps past a row's length do not count: there y is the skip alone. Start reading at `normalized`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from hadamrnn.kernels.backend import check_array, full_precision, is_traced, runs_natively
from hadamrnn.kernels.library import NormArgs, native_kernel
from hadamrnn.kernels.plain import as_leaves, gradients_again
from hadamrnn.kernels.slices import run_slices_on

MAX_SLICES = 32


def normalized(
    h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, skip: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, and the mean and the variance of each unit, which get no gradient.

    Args:
        h: states `(batch, time, size)`, zero past a row's length; some step must count.
        weight, bias: a and c, `(size,)`.
        lengths: int64 `(batch,)`, each in 0..time; None where all steps count.
        skip: the shape of h; None for zeros.
        epsilon: what is added to the variance.
    """
    if is_traced(h) or not runs_natively(h, weight, bias, skip):  # a compiler fuses plain torch itself
        return plain_normalized(h, weight, bias, lengths, skip, epsilon)
    y, mean, var = Norm.apply(h, weight, bias, lengths, skip, epsilon)  # type: ignore[no-untyped-call]
    return y, mean, var


def plain_normalized(
    h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, skip: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same in plain torch."""
    rows = valid_rows(h, lengths)
    normal, mean, inverse = torch.native_batch_norm(rows, weight, bias, None, None, True, 0.0, epsilon)
    if lengths is None:
        y = normal.reshape(h.shape).relu()
    else:
        y = torch.zeros_like(h).masked_scatter(counted(h, lengths)[:, :, None], normal.relu())
    var = (inverse.detach() ** -2 - epsilon).clamp(min=0)
    return (y if skip is None else y + skip), mean.detach(), var


def counted(rows: Tensor, lengths: Tensor) -> Tensor:
    """Return which steps of `(batch, time, ...)` lie within the lengths, `(batch, time)`."""
    return torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]


def valid_rows(values: Tensor, lengths: Tensor | None) -> Tensor:
    """Return all `(..., size)` values as rows `(n, size)`, without those past a row's length."""
    if lengths is None:
        return values.reshape(-1, values.shape[-1])
    return values[counted(values, lengths)]


class _Call:
    """A filled-in `NormArgs`, and the tensors that keep its pointers alive."""

    def __init__(self, h: Tensor, lengths: Tensor | None) -> None:
        self.shape, self.dtype = tuple(h.shape), h.dtype
        batch, time, size = self.shape
        self.num_slices = max(1, min(batch, MAX_SLICES))
        self.args = NormArgs(batch, time, size, self.num_slices)
        self.steps = batch * time if lengths is None else int(lengths.sum())
        self.tensors: list[Tensor] = []
        self.point("h", h)
        if lengths is not None:
            check_array("lengths", lengths, torch.int64, (batch,))
            self._keep("lengths", lengths.contiguous())

    def point(self, name: str, tensor: Tensor | None) -> None:
        """Point the field `name` at a tensor `(batch, time, size)`."""
        if tensor is not None:
            check_array(name, tensor, self.dtype, self.shape)
            self._keep(name, tensor.contiguous())

    def point_vector(self, name: str, values: NDArray[np.float64]) -> None:
        """Point the field `name` at a vector `(size,)`, rounded to the type of the states."""
        rounded = torch.from_numpy(values).to(self.dtype)
        check_array(name, rounded, self.dtype, self.shape[2:])
        self._keep(name, rounded)

    def run(self, kernel: str) -> None:
        kernel_call = native_kernel(kernel, self.dtype)
        run_slices_on(torch.get_num_threads(), kernel_call, self.args, self.num_slices)

    def sums(self, kernel: str) -> NDArray[np.float64]:
        """Return what a kernel sums, slice by slice, `(num_slices, 2, size)`."""
        sums = torch.empty(self.num_slices, 2, self.shape[2], dtype=self.dtype)
        self._keep("sums", sums)
        self.run(kernel)
        return sums.numpy().astype(np.float64)

    def _keep(self, name: str, tensor: Tensor) -> None:
        self.tensors.append(tensor)
        setattr(self.args, name, tensor.data_ptr())


class _Units(NamedTuple):
    """What a unit's states are multiplied with, in full precision: y = ReLU(scale h + shift)."""

    mean: NDArray[np.float64]
    inverse: NDArray[np.float64]  # 1 / s
    scale: NDArray[np.float64]
    shift: NDArray[np.float64]


def _units(weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float) -> _Units:
    a, c, m, v = (tensor.detach().numpy().astype(np.float64) for tensor in (weight, bias, mean, var))
    inverse = 1 / np.sqrt(v + epsilon)
    return _Units(m, inverse, a * inverse, c - m * a * inverse)


def _forward(
    h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, skip: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    call = _Call(h, lengths)
    call.point("skip", skip)
    for name, vector in (("weight", weight), ("bias", bias)):
        check_array(name, vector, h.dtype, (h.shape[2],))
    mean, var = (torch.from_numpy(moment).to(h.dtype) for moment in _moments(call, lengths))
    units = _units(weight, bias, mean, var, epsilon)
    y = torch.empty(h.shape, dtype=h.dtype)
    call.point("y", y)
    call.point_vector("scale", units.scale)
    call.point_vector("shift", units.shift)
    call.run("norm_forward")
    return y, mean, var


def _moments(call: _Call, lengths: Tensor | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return mean and variance, combined from those of the slices, each summed around its own mean."""
    batch, time, size = call.shape
    if call.steps == 0:
        return np.zeros(size), np.zeros(size)
    parts = call.sums("norm_moments")
    ends = np.arange(call.num_slices + 1) * batch // call.num_slices
    steps = np.full(batch, time) if lengths is None else lengths.numpy()
    counts = np.diff(np.concatenate(([0], steps)).cumsum()[ends])[:, None]
    mean = parts[:, 0].sum(0) / call.steps
    apart = parts[:, 0] / np.maximum(counts, 1) - mean
    return mean, (parts[:, 1] + counts * apart**2).sum(0) / call.steps


def _backward(
    h: Tensor,
    weight: Tensor,
    bias: Tensor,
    lengths: Tensor | None,
    epsilon: float,
    mean: Tensor,
    var: Tensor,
    grad_y: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of h, weight and bias.

    With g the gradient behind ReLU, x = (h - m) / s and means over the N counted steps:

        dL/dh = a / s (g - mean(g) - x mean(g x)),  dL/da = sum g x,  dL/dc = sum g
    """
    call = _Call(h, lengths)
    call.point("grad_y", grad_y)
    units = _units(weight, bias, mean, var, epsilon)
    for name in ("mean", "scale", "shift"):
        call.point_vector(name, getattr(units, name))
    gradients, products = call.sums("norm_sums").sum(0)
    steps = max(call.steps, 1)
    slope = -units.scale * units.inverse**2 * products / steps
    call.point_vector("slope", slope)
    call.point_vector("offset", -units.scale * gradients / steps - slope * units.mean)
    grad_h = torch.empty(h.shape, dtype=h.dtype)
    call.point("grad_h", grad_h)
    call.run("norm_backward")
    grad_weight, grad_bias = (torch.from_numpy(v).to(h.dtype) for v in (products * units.inverse, gradients))
    return grad_h, grad_weight, grad_bias


class Norm(Function):
    """`normalized` in C, with its gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        h: Tensor,
        weight: Tensor,
        bias: Tensor,
        lengths: Tensor | None,
        skip: Tensor | None,
        epsilon: float,
    ) -> tuple[Tensor, Tensor, Tensor]:
        y, mean, var = _forward(h, weight, bias, lengths, skip, epsilon)
        ctx.epsilon = epsilon
        ctx.save_for_backward(h, weight, bias, lengths, skip, mean, var)
        ctx.mark_non_differentiable(mean, var)
        ctx.set_materialize_grads(False)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        h, weight, bias, lengths, skip, mean, var = ctx.saved_tensors
        if grad_y is None:
            return (None,) * 6
        if not torch.is_grad_enabled():
            found = _backward(h, weight, bias, lengths, ctx.epsilon, mean, var, grad_y)
            return *found, None, None if skip is None else grad_y, None
        # create_graph=True: in plain torch, which can be differentiated again.
        given = {"h": h, "weight": weight, "bias": bias} | ({} if skip is None else {"skip": skip})
        leaves = as_leaves(given)
        with full_precision(h):
            y = plain_normalized(
                leaves["h"], leaves["weight"], leaves["bias"], lengths, leaves.get("skip"), ctx.epsilon
            )[0]
            again = gradients_again((y,), (grad_y,), leaves)
        return again["h"], again["weight"], again["bias"], None, again.get("skip"), None
