"""How a recurrence is handed to the native library: checked pointers, slices, chunks.

`forward` and `backward` do the work behind the operators of `hadamrnn.kernels.scan`. Inputs wider than
`NARROW_INPUT` are projected by torch's GEMM, a chunk of time at a time, and the native code gets the
projected rows; everything else is projected inside the native loop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import factor_matrix, order_factors
from hadamrnn.kernels.backend import NATIVE_DTYPES, check_array, check_range
from hadamrnn.kernels.library import INPUT_DENSE, INPUT_ROWS, INPUT_TOKENS, ScanArgs, native_kernel
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, Recurrence
from hadamrnn.kernels.threads import run_slices, sum_slices
from hadamrnn.kernels.transform import count_blocks

# The private gradient sums of all slices together stay below this size (two slices are always allowed).
SUMS_BYTES = 32 << 20
MAX_SLICES = 32
INTEGERS = ("ids", "lengths")
_REAL = {torch.float32: np.float32, torch.float64: np.float64}


def empty_results(recurrence: Recurrence) -> tuple[Tensor, Tensor, Tensor]:
    """Return output (or logits, or nothing), last state and checkpoints, to be filled in."""
    batch, hidden_size = recurrence.batch, recurrence.hidden_size
    width = hidden_size if recurrence.output_weight is None else recurrence.output_weight.shape[0]
    new = recurrence.signs.new_empty
    output = new((batch, recurrence.time, width) if recurrence.has_output else (0,))
    return output, new(batch, hidden_size), new(batch, num_checkpoints(recurrence), hidden_size)


def num_checkpoints(recurrence: Recurrence) -> int:
    return max(-(-recurrence.time // recurrence.segment) - 1, 0)


def _chunks(recurrence: Recurrence) -> Iterator[tuple[int, int, int]]:
    """Yield (index, start, end) of the segments: the chunks of a wide input."""
    for index, start in enumerate(range(0, recurrence.time, recurrence.segment)):
        yield index, start, min(start + recurrence.segment, recurrence.time)


def _chunk(recurrence: Recurrence, start: int, end: int, h_0: Tensor | None) -> Recurrence:
    """Return the steps start..end-1 with projected rows as input."""
    assert recurrence.x is not None
    lengths = None if recurrence.lengths is None else (recurrence.lengths - start).clamp(0, end - start)
    rows = replace(recurrence, x=recurrence.x[:, start:end]).projected()
    return replace(recurrence, x=rows, weight=None, bias=None, h_0=h_0, lengths=lengths, segment=end - start)


def forward(recurrence: Recurrence) -> tuple[Tensor, Tensor, Tensor]:
    """Return output, last state and checkpoints."""
    check(recurrence)
    output, last, checkpoints = empty_results(recurrence)
    if checkpoints.numel():
        # A row that ends early leaves its later checkpoints as they are: they must not be garbage. numpy's
        # zeros cost nothing until they are written, and torch's threads stay asleep.
        checkpoints = torch.from_numpy(np.zeros(checkpoints.shape, _REAL[checkpoints.dtype]))
    if recurrence.is_wide:
        state = recurrence.h_0
        for index, start, end in _chunks(recurrence):
            part, state, _ = forward(_chunk(recurrence, start, end, state))
            if output.dim() == 3:
                output[:, start:end] = part
            if end < recurrence.time:
                checkpoints[:, index] = state
        last = recurrence.signs.new_zeros(last.shape) if state is None else state.clone()
        return output, last, checkpoints
    call = Call(recurrence, MAX_SLICES)
    if output.dim() == 3:
        call.point("output" if recurrence.output_weight is None else "logits", output)
    call.point("last", last)
    call.point("checkpoints", checkpoints if num_checkpoints(recurrence) else None)
    call.run("scan_forward")
    return output, last, checkpoints


def backward(
    recurrence: Recurrence,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor | None,
    last: Tensor,
    checkpoints: Tensor,
    wanted: Iterable[str],
) -> dict[str, Tensor]:
    """Return the gradients of the fields `wanted`.

    `output` holds the states of all steps, where they were kept; else they are rebuilt. The values of ids
    and lengths were checked by the forward pass.
    """
    if grad_output is not None and grad_output.dim() != 3:
        grad_output = None  # the gradient of the output that was not asked for
    if recurrence.is_wide:
        return _wide_backward(recurrence, grad_output, grad_last, output, last, checkpoints, set(wanted))
    call = Call(recurrence, backward_slices(recurrence))
    for name, tensor in (("output", output), ("last", last), ("grad_last", grad_last)):
        call.point(name, tensor)
    call.point("checkpoints", checkpoints if num_checkpoints(recurrence) else None)
    call.point("grad_output" if recurrence.output_weight is None else "grad_logits", grad_output)
    return call.gradients("scan_backward", wanted)


def _wide_backward(
    recurrence: Recurrence,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor | None,
    last: Tensor,
    checkpoints: Tensor,
    wanted: set[str],
) -> dict[str, Tensor]:
    """Go back chunk by chunk: project again, run the adjoint on the rows, and multiply out their gradient."""
    assert recurrence.x is not None and recurrence.weight is not None
    totals = {name: torch.zeros_like(getattr(recurrence, name)) for name in wanted - {"x", "h_0"}}
    grad_x = torch.empty_like(recurrence.x) if "x" in wanted else None
    end_state, adjoint = last, grad_last
    for index, start, end in reversed(list(_chunks(recurrence))):
        start_state = checkpoints[:, index - 1].contiguous() if index else recurrence.h_0
        chunk = _chunk(recurrence, start, end, start_state)
        needed = (wanted - {"weight", "bias"}) | {"x"} | ({"h_0"} if index else set())
        part = backward(
            chunk,
            None if grad_output is None else grad_output[:, start:end].contiguous(),
            adjoint,
            None if output is None else output[:, start:end].contiguous(),
            end_state,
            checkpoints[:, :0],
            needed,
        )
        rows = part.pop("x")
        adjoint = part.pop("h_0", None)
        end_state = start_state if start_state is not None else end_state
        if grad_x is not None:
            grad_x[:, start:end] = rows @ recurrence.weight
        if "weight" in wanted:
            part["weight"] = rows.flatten(0, 1).T @ recurrence.x[:, start:end].flatten(0, 1)
        if "bias" in wanted:
            part["bias"] = rows.sum((0, 1))
        for name, gradient in part.items():
            totals[name] += gradient
    if grad_x is not None:
        totals["x"] = grad_x
    if "h_0" in wanted:
        assert recurrence.h_0 is not None
        totals["h_0"] = torch.zeros_like(recurrence.h_0) if adjoint is None else adjoint.clone()
    return totals


def backward_slices(recurrence: Recurrence) -> int:
    """Return the number of slices where gradients are summed: a function of the shape only."""
    names = ("weight", "bias", "signs", "column_signs", "output_weight")
    sums = [getattr(recurrence, name) for name in names]
    itemsize = recurrence.signs.element_size()
    size = sum(0 if tensor is None else tensor.numel() for tensor in sums) * itemsize
    return min(MAX_SLICES, max(2, SUMS_BYTES // max(size, 1)))


class Call:
    """A filled-in `ScanArgs`, and the tensors that keep its pointers alive."""

    def __init__(self, recurrence: Recurrence, slices: int) -> None:
        self.args = ScanArgs()
        self.tensors: dict[str, Tensor] = {}
        self.dtype = recurrence.signs.dtype
        self.is_dense = recurrence.ids is None
        self.decay = recurrence.decay
        self.num_slices = max(1, min(recurrence.batch, slices))
        self.shapes = _shapes(recurrence, self.num_slices)
        for name in (*DIFFERENTIABLE, *INTEGERS):
            self.point(name, getattr(recurrence, name))
        if recurrence.decay is not None:  # lambda * W(u, v) h = W(lambda * u, v) h
            check_array("decay", recurrence.decay, self.dtype, self.shapes["decay"])
            self.point("signs", recurrence.signs * recurrence.decay)
        self._set_sizes(recurrence)
        self._set_transform(recurrence.block_size)

    def point(self, name: str, tensor: Tensor | None) -> None:
        """Point the field `name` at the tensor's values, which must have the type and shape that C reads."""
        if tensor is not None:
            if name == "weight" and self.is_dense:
                tensor = tensor.T
            check_array(name, tensor, torch.int64 if name in INTEGERS else self.dtype, self.shapes[name])
            tensor = self.tensors[name] = tensor.contiguous()
            setattr(self.args, name, tensor.data_ptr())

    def run(self, kernel: str) -> None:
        run_slices(native_kernel(kernel, self.dtype), self.args, self.num_slices)

    def gradients(self, kernel: str, wanted: Iterable[str]) -> dict[str, Tensor]:
        """Run a backward pass and return the gradients of the fields `wanted`."""
        own: dict[str, Tensor] = {}
        summed: dict[str, Tensor] = {}
        for name in wanted:
            like = self.tensors[name]
            if name in ("x", "h_0"):
                own[name] = torch.empty_like(like)
            else:
                summed[name] = like.new_empty(self.num_slices, *like.shape)
            self.point(f"grad_{name}", own[name] if name in own else summed[name])
        self.run(kernel)
        gradients = own | {name: sum_slices(parts) for name, parts in summed.items()}
        if "signs" in gradients and self.decay is not None:
            gradients["signs"] *= self.decay
        if "weight" in gradients and self.is_dense:
            gradients["weight"] = gradients["weight"].T.contiguous()
        return gradients

    def _set_sizes(self, recurrence: Recurrence) -> None:
        args = self.args
        args.batch, args.time, args.hidden = recurrence.batch, recurrence.time, recurrence.hidden_size
        args.output_size = self.shapes["output_weight"][0]
        args.relu, args.replay, args.sigma = recurrence.relu, recurrence.forgets, recurrence.sigma
        args.segment, args.num_slices = recurrence.segment, self.num_slices
        if recurrence.ids is not None:
            args.input_kind, args.num_ids = INPUT_TOKENS, self.shapes["weight"][0]
        elif recurrence.weight is None:
            args.input_kind = INPUT_ROWS
        else:
            args.input_kind, args.input_size = INPUT_DENSE, self.shapes["weight"][0]

    def _set_transform(self, block_size: int) -> None:
        orders, factors, transposed, sylvester = _factors(block_size, self.dtype)
        args = self.args
        args.scale, args.sylvester, args.num_factors = block_size**-0.5, sylvester, len(orders)
        args.factor_orders = ctypes.addressof(orders)
        args.factors, args.factors_transposed = factors.ctypes.data, transposed.ctypes.data


@cache
def _factors(
    block_size: int, dtype: torch.dtype
) -> tuple[ctypes.Array[ctypes.c_int64], NDArray[Any], NDArray[Any], int]:
    """Return the orders above 2 of H_b's factors, the factors, their transposes, and the Sylvester order."""
    orders = [order for order in order_factors(block_size) if order > 2]
    sylvester = block_size // int(np.prod(orders, dtype=np.int64))
    real = _REAL[dtype]
    matrices = [factor_matrix(order) for order in orders]
    empty = np.zeros(0, real)
    factors = np.concatenate([empty, *(matrix.ravel() for matrix in matrices)]).astype(real)
    transposed = np.concatenate([empty, *(matrix.T.ravel() for matrix in matrices)]).astype(real)
    return (ctypes.c_int64 * len(orders))(*orders), factors, transposed, sylvester


def _shapes(recurrence: Recurrence, num_slices: int) -> dict[str, tuple[int, ...]]:
    """Return the shapes that C takes its arrays to have, by the names in `ScanArgs`; U is transposed."""
    batch, time, hidden = recurrence.batch, recurrence.time, recurrence.hidden_size
    outputs = 0 if recurrence.output_weight is None else recurrence.output_weight.shape[0]
    width = hidden if recurrence.weight is None else recurrence.rows.shape[-1]
    weight_rows = width
    if recurrence.ids is not None and recurrence.weight is not None:
        weight_rows = recurrence.weight.shape[0]
    inputs: dict[str, tuple[int, ...]] = {
        "x": (batch, time, width),
        "weight": (weight_rows, hidden),
        "bias": (hidden,),
        "signs": (hidden,),
        "column_signs": (hidden,),
        "decay": (hidden,),
        "h_0": (batch, hidden),
        "output_weight": (outputs, hidden),
        "output_bias": (outputs,),
    }
    results = {
        "output": (batch, time, hidden),
        "logits": (batch, time, outputs),
        "last": (batch, hidden),
    }
    gradients = {
        f"grad_{name}": shape if name in ("x", "h_0", *results) else (num_slices, *shape)
        for name, shape in (inputs | results).items()
    }
    kept = {"checkpoints": (batch, num_checkpoints(recurrence), hidden)}
    return {**inputs, "ids": (batch, time), "lengths": (batch,), **results, **kept, **gradients}


def check(recurrence: Recurrence) -> None:
    """Refuse a recurrence that the native code cannot run, or with which it would read out of bounds."""
    x, ids, weight, signs = recurrence.x, recurrence.ids, recurrence.weight, recurrence.signs
    if (x is None) == (ids is None) or (ids is not None and weight is None):
        raise InputError("A recurrence needs either x, or ids with their weight, got both or neither.")
    dimensions = {"signs": 1, "x": 3, "ids": 2, "weight": 2, "output_weight": 2}
    for name, count in dimensions.items():
        tensor = getattr(recurrence, name)
        if tensor is not None and tensor.dim() != count:
            raise InputError(f"{name} must have {count} dimensions, got shape {tuple(tensor.shape)}.")
    if signs.dtype not in NATIVE_DTYPES:
        raise InputError(f"The native scan computes in float32 or float64, got signs of {signs.dtype}.")
    if recurrence.segment < 1:
        raise InputError(f"segment must be at least 1, got {recurrence.segment}.")
    count_blocks(recurrence.hidden_size, recurrence.block_size)
    if recurrence.is_wide:  # before it is projected; everything else is checked where its pointer is taken
        Call(recurrence, 1)
    if ids is not None and weight is not None:
        check_array("ids", ids, torch.int64, (recurrence.batch, recurrence.time))
        check_range("ids", ids, weight.shape[0])
    if recurrence.lengths is not None:
        check_array("lengths", recurrence.lengths, torch.int64, (recurrence.batch,))
        check_range("lengths", recurrence.lengths, recurrence.time + 1)
