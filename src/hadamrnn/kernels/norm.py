"""Compute batch norm, ReLU and a skip connection in one pass, in C with a reference in torch.

    y = ReLU(a (h - m) / s + c) + skip        m, s^2: mean and variance of each unit over the batch

Steps past a row's length are ignored, and y is only the skip there. Start reading at `normalized`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.autograd import Function

from hadamrnn.kernels.backend import check_array, full_precision, is_traced, runs_natively
from hadamrnn.kernels.call import Call, count_slices
from hadamrnn.kernels.library import NormArgs
from hadamrnn.kernels.recurrence import as_leaves, gradients_again

# Numbers per slice, for which a pass takes about 20 microseconds.
GRAIN = 1 << 17
Floats = NDArray[np.float64]


def normalized(
    h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, skip: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return y, and each unit's mean and variance, which have no gradient.

    Args:
        h: states `(batch, time, size)`, zero past a row's length; at least one step must be valid.
        weight, bias: a and c, each `(size,)`.
        lengths: int64 `(batch,)`, each in 0..time; None if all steps are valid.
        skip: x in the formula, of the shape of h; None for zeros.
        epsilon: added to the variance.
    """
    if is_traced(h) or not runs_natively(h, weight, bias, skip):  # when traced, the compiler fuses torch
        return plain_normalized(h, weight, bias, lengths, skip, epsilon)
    y, mean, var = Norm.apply(h, weight, bias, lengths, skip, epsilon)  # type: ignore[no-untyped-call]
    return y, mean, var


def plain_normalized(
    h: Tensor, weight: Tensor, bias: Tensor, lengths: Tensor | None, skip: Tensor | None, epsilon: float
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the same as `normalized`, computed in plain torch."""
    rows = valid_rows(h, lengths)
    normal, mean, inverse = torch.native_batch_norm(rows, weight, bias, None, None, True, 0.0, epsilon)
    if lengths is None:
        y = normal.reshape(h.shape).relu()
    else:
        y = torch.zeros_like(h).masked_scatter(counted(h, lengths)[:, :, None], normal.relu())
    var = (inverse.detach() ** -2 - epsilon).clamp(min=0)
    return (y if skip is None else y + skip), mean.detach(), var


def counted(rows: Tensor, lengths: Tensor) -> Tensor:
    """Return a mask `(batch, time)` of the steps within the lengths."""
    return torch.arange(rows.shape[1], device=rows.device) < lengths[:, None]


def valid_rows(values: Tensor, lengths: Tensor | None) -> Tensor:
    """Return all values `(..., size)` as rows `(n, size)`, without steps past a row's length."""
    if lengths is None:
        return values.reshape(-1, values.shape[-1])
    return values[counted(values, lengths)]


def _call(h: Tensor, lengths: Tensor | None) -> Call:
    """Return a call of one of the kernels in native/norm.h on these states."""
    batch, time, size = h.shape
    call = Call(NormArgs(batch, time, size, count_slices(batch, h.numel(), GRAIN)), h.dtype)
    call.point("h", h, (batch, time, size))
    call.point("lengths", lengths, (batch,), torch.int64)
    return call


def _sums(call: Call, kernel: str) -> Floats:
    """Return the sums of a kernel per slice, `(num_slices, 2, size)`."""
    sums = call.tensors["h"].new_empty(call.args.num_slices, 2, call.args.size)
    call.keep("sums", sums)
    call.run(kernel)
    return sums.numpy().astype(np.float64)


def _moments(call: Call, lengths: Tensor | None) -> tuple[Floats, Floats]:
    """Combine the slices' sums, each about its own mean, to mean and variance."""
    batch, slices = call.args.batch, call.args.num_slices
    steps = np.full(batch, call.args.time) if lengths is None else lengths.numpy()
    count = steps.sum()
    parts = _sums(call, "norm_moments") if count else np.zeros((slices, 2, call.args.size))
    ends = np.arange(slices + 1) * batch // slices
    counts = np.diff(np.concatenate(([0], steps)).cumsum()[ends])[:, None]
    mean = parts[:, 0].sum(0) / max(count, 1)
    apart = parts[:, 0] / np.maximum(counts, 1) - mean
    return mean, (parts[:, 1] + counts * apart**2).sum(0) / max(count, 1)


def _affine(weight: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float) -> dict[str, Floats]:
    """Return m, 1 / s, and the scale a / s and shift c - m a / s of y = ReLU(scale h + shift)."""
    a, c, m, v = (tensor.detach().numpy().astype(np.float64) for tensor in (weight, bias, mean, var))
    inverse = 1 / np.sqrt(v + epsilon)
    return {"mean": m, "inverse": inverse, "scale": a * inverse, "shift": c - m * a * inverse}


def _gradients(
    h: Tensor, lengths: Tensor | None, affine: dict[str, Floats], grad_y: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of h, weight and bias.

    If g is the gradient behind the ReLU, x = (h - m) / s, and means are over the N counted steps:

        dL/dh = a / s (g - mean(g) - x mean(g x)),  dL/da = sum g x,  dL/dc = sum g
    """
    call = _call(h, lengths)
    call.point("grad_y", grad_y, h.shape)
    mean, inverse, scale = affine["mean"], affine["inverse"], affine["scale"]
    for name in ("mean", "scale", "shift"):
        call.keep(name, torch.from_numpy(affine[name]).to(h.dtype))
    gradients, products = _sums(call, "norm_sums").sum(0)
    steps = max(h.shape[0] * h.shape[1] if lengths is None else int(lengths.sum()), 1)
    slope = -scale * inverse**2 * products / steps
    offset = -scale * gradients / steps - slope * mean
    call.keep("slope", torch.from_numpy(slope).to(h.dtype))
    call.keep("offset", torch.from_numpy(offset).to(h.dtype))
    grad_h = h.new_empty(h.shape)
    call.keep("grad_h", grad_h)
    call.run("norm_backward")
    grad_weight, grad_bias = (torch.from_numpy(v).to(h.dtype) for v in (products * inverse, gradients))
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
        call = _call(h, lengths)
        call.point("skip", skip, h.shape)
        for name, vector in (("weight", weight), ("bias", bias)):
            check_array(name, vector, h.dtype, (h.shape[2],))
        mean, var = (torch.from_numpy(moment).to(h.dtype) for moment in _moments(call, lengths))
        affine = _affine(weight, bias, mean, var, epsilon)
        y = h.new_empty(h.shape)
        call.keep("y", y)
        for name in ("scale", "shift"):
            call.keep(name, torch.from_numpy(affine[name]).to(h.dtype))
        call.run("norm_forward")
        ctx.epsilon, ctx.affine = epsilon, affine
        ctx.save_for_backward(h, weight, bias, lengths, skip)
        ctx.mark_non_differentiable(mean, var)
        ctx.set_materialize_grads(False)
        return y, mean, var

    @staticmethod
    def backward(ctx: Any, grad_y: Tensor | None, *_: Any) -> tuple[Tensor | None, ...]:
        h, weight, bias, lengths, skip = ctx.saved_tensors
        if grad_y is None:
            return (None,) * 6
        if not torch.is_grad_enabled():
            found = _gradients(h, lengths, ctx.affine, grad_y)
            return *found, None, None if skip is None else grad_y, None
        # create_graph=True: use plain torch, whose gradient can be differentiated.
        given = {"h": h, "weight": weight, "bias": bias} | ({} if skip is None else {"skip": skip})
        leaves = as_leaves(given)
        with full_precision(h):
            y = plain_normalized(
                leaves["h"], leaves["weight"], leaves["bias"], lengths, leaves.get("skip"), ctx.epsilon
            )[0]
            again = gradients_again((y,), (grad_y,), leaves)
        return again["h"], again["weight"], again["bias"], None, again.get("skip"), None
