"""One scan problem: its tensors and its shape, and how it is handed to the native library.

`forward` and `backward` do the work behind the operators of `hadamrnn.kernels.scan`. Inputs wider than
`NARROW_INPUT` are projected by torch's GEMM, a chunk of time at a time, and the native code gets the
projected rows; everything else is projected inside the native loop.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import factor_matrix, order_factors
from hadamrnn.kernels.library import INPUT_DENSE, INPUT_ROWS, INPUT_TOKENS, ScanArgs, native_kernel
from hadamrnn.kernels.threads import run_slices, sum_slices

# Inputs up to this width are projected inside the native loop, step by step.
NARROW_INPUT = 16
# The private gradient sums of all slices together stay below this size (two slices are always allowed).
SUMS_BYTES = 32 << 20
MAX_SLICES = 32
# The tensors of a problem that may get a gradient, in the order of the operator's results.
DIFFERENTIABLE = ("x", "weight", "bias", "signs", "column_signs", "h_0", "output_weight", "output_bias")


@dataclass(frozen=True)
class Problem:
    """The arguments of `hadamrnn.kernels.scan.scan`, which explains them."""

    x: Tensor | None
    ids: Tensor | None
    weight: Tensor | None
    bias: Tensor | None
    signs: Tensor
    column_signs: Tensor | None
    h_0: Tensor | None
    lengths: Tensor | None
    output_weight: Tensor | None
    output_bias: Tensor | None
    block_size: int
    relu: bool
    sigma: bool
    every_output: bool
    segment: int

    @property
    def batch(self) -> int:
        return self._rows.shape[0]

    @property
    def time(self) -> int:
        return self._rows.shape[1]

    @property
    def _rows(self) -> Tensor:
        rows = self.ids if self.x is None else self.x
        assert rows is not None
        return rows

    @property
    def hidden_size(self) -> int:
        return self.signs.shape[0]

    @property
    def is_wide(self) -> bool:
        return self.x is not None and self.weight is not None and self.x.shape[2] > NARROW_INPUT

    @property
    def num_checkpoints(self) -> int:
        return max(-(-self.time // self.segment) - 1, 0)

    def empty_results(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return output (or logits, or nothing), last state and checkpoints, to be filled in."""
        width = self.hidden_size if self.output_weight is None else self.output_weight.shape[0]
        wanted = self.every_output or self.output_weight is not None
        output = self.signs.new_empty((self.batch, self.time, width) if wanted else (0,))
        last = self.signs.new_empty(self.batch, self.hidden_size)
        # A row that ends early leaves its later checkpoints as they are: they must not be garbage. numpy's
        # zeros cost nothing until they are written, and torch's threads stay asleep.
        real = np.float32 if self.signs.dtype == torch.float32 else np.float64
        checkpoints = torch.from_numpy(np.zeros((self.batch, self.num_checkpoints, self.hidden_size), real))
        return output, last, checkpoints

    def chunks(self) -> Iterator[tuple[int, int, int]]:
        """Yield (index, start, end) of the segments: the chunks of a wide input."""
        for index, start in enumerate(range(0, self.time, self.segment)):
            yield index, start, min(start + self.segment, self.time)

    def chunk(self, start: int, end: int, h_0: Tensor | None) -> Problem:
        """Return the steps start..end-1 with projected rows as input."""
        assert self.x is not None and self.weight is not None
        lengths = None if self.lengths is None else (self.lengths - start).clamp(0, end - start)
        rows = torch.nn.functional.linear(self.x[:, start:end], self.weight, self.bias)
        return replace(self, x=rows, weight=None, bias=None, h_0=h_0, lengths=lengths, segment=end - start)


def forward(problem: Problem) -> tuple[Tensor, Tensor, Tensor]:
    """Return output, last state and checkpoints."""
    output, last, checkpoints = problem.empty_results()
    if problem.is_wide:
        state = problem.h_0
        for index, start, end in problem.chunks():
            part, state, _ = forward(problem.chunk(start, end, state))
            if output.dim() == 3:
                output[:, start:end] = part
            if end < problem.time:
                checkpoints[:, index] = state
        last = problem.signs.new_zeros(last.shape) if state is None else state.clone()
        return output, last, checkpoints
    call = _Call(problem, MAX_SLICES)
    if output.dim() == 3:
        call.point("output" if problem.output_weight is None else "logits", output)
    call.point("last", last)
    call.point("checkpoints", checkpoints if problem.num_checkpoints else None)
    call.run("scan_forward")
    return output, last, checkpoints


def backward(
    problem: Problem,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor | None,
    last: Tensor,
    checkpoints: Tensor,
    wanted: Sequence[bool],
) -> list[Tensor | None]:
    """Return the gradients of `DIFFERENTIABLE`, None where not wanted.

    `output` holds the states of all steps, where they were kept; else they are rebuilt.
    """
    if grad_output is not None and grad_output.dim() != 3:
        grad_output = None  # the gradient of the output that was not asked for
    names = {name for name, is_wanted in zip(DIFFERENTIABLE, wanted, strict=True) if is_wanted}
    if problem.is_wide:
        gradients = _wide_backward(problem, grad_output, grad_last, output, last, checkpoints, names)
    else:
        gradients = _native_backward(problem, grad_output, grad_last, output, last, checkpoints, names)
    return [gradients.get(name) for name in DIFFERENTIABLE]


def _native_backward(
    problem: Problem,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor | None,
    last: Tensor,
    checkpoints: Tensor,
    wanted: set[str],
) -> dict[str, Tensor]:
    slices = _backward_slices(problem)
    call = _Call(problem, slices)
    for name, tensor in (("output", output), ("last", last), ("grad_last", grad_last)):
        call.point(name, tensor)
    call.point("checkpoints", checkpoints if problem.num_checkpoints else None)
    call.point("grad_output" if problem.output_weight is None else "grad_logits", grad_output)
    own: dict[str, Tensor] = {}
    summed: dict[str, Tensor] = {}
    for name in wanted:
        like = call.tensors[name]
        if name in ("x", "h_0"):
            own[name] = torch.empty_like(like)
        else:
            summed[name] = like.new_empty(call.num_slices, *like.shape)
        call.point(f"grad_{name}", own[name] if name in own else summed[name])
    call.run("scan_backward")
    gradients = own | {name: sum_slices(parts) for name, parts in summed.items()}
    if "weight" in gradients and problem.ids is None:
        gradients["weight"] = gradients["weight"].T.contiguous()
    return gradients


def _wide_backward(
    problem: Problem,
    grad_output: Tensor | None,
    grad_last: Tensor | None,
    output: Tensor | None,
    last: Tensor,
    checkpoints: Tensor,
    wanted: set[str],
) -> dict[str, Tensor]:
    """Go back chunk by chunk: project again, run the adjoint on the rows, and multiply out their gradient."""
    assert problem.x is not None and problem.weight is not None
    totals = {name: torch.zeros_like(getattr(problem, name)) for name in wanted - {"x", "h_0"}}
    grad_x = torch.empty_like(problem.x) if "x" in wanted else None
    end_state, adjoint = last, grad_last
    for index, start, end in reversed(list(problem.chunks())):
        start_state = checkpoints[:, index - 1].contiguous() if index else problem.h_0
        chunk = problem.chunk(start, end, start_state)
        needed = (wanted - {"weight", "bias"}) | {"x"} | ({"h_0"} if index else set())
        part = _native_backward(
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
            grad_x[:, start:end] = rows @ problem.weight
        if "weight" in wanted:
            part["weight"] = rows.flatten(0, 1).T @ problem.x[:, start:end].flatten(0, 1)
        if "bias" in wanted:
            part["bias"] = rows.sum((0, 1))
        for name, gradient in part.items():
            totals[name] += gradient
    if grad_x is not None:
        totals["x"] = grad_x
    if "h_0" in wanted:
        assert problem.h_0 is not None
        totals["h_0"] = torch.zeros_like(problem.h_0) if adjoint is None else adjoint.clone()
    return totals


def _backward_slices(problem: Problem) -> int:
    """Return the number of slices where gradients are summed: a function of the shape only."""
    sums = (problem.weight, problem.bias, problem.signs, problem.column_signs, problem.output_weight)
    itemsize = problem.signs.element_size()
    size = sum(0 if tensor is None else tensor.numel() for tensor in sums) * itemsize
    return min(MAX_SLICES, max(2, SUMS_BYTES // max(size, 1)))


class _Call:
    """A filled-in `ScanArgs`, and the tensors that keep its pointers alive."""

    def __init__(self, problem: Problem, slices: int) -> None:
        self.args = ScanArgs()
        self.tensors: dict[str, Tensor] = {}
        self.dtype = problem.signs.dtype
        self.num_slices = max(1, min(problem.batch, slices))
        for name in (*DIFFERENTIABLE, "ids", "lengths"):
            self.point(name, getattr(problem, name))
        self._set_shape(problem)
        self._set_input(problem)
        self._set_transform(problem.block_size)

    def point(self, name: str, tensor: Tensor | None) -> None:
        """Let the field `name` point at the tensor's values, dense and row-major."""
        if tensor is not None:
            tensor = self.tensors[name] = tensor.contiguous()
            setattr(self.args, name, tensor.data_ptr())

    def run(self, kernel: str) -> None:
        run_slices(native_kernel(kernel, self.dtype), self.args, self.num_slices)

    def _set_shape(self, problem: Problem) -> None:
        args = self.args
        args.batch, args.time, args.hidden = problem.batch, problem.time, problem.hidden_size
        args.output_size = 0 if problem.output_weight is None else problem.output_weight.shape[0]
        args.relu, args.sigma = problem.relu, problem.sigma
        args.segment, args.num_slices = max(problem.segment, 1), self.num_slices
        if problem.lengths is not None:
            _check_range("lengths", problem.lengths, problem.time + 1)

    def _set_input(self, problem: Problem) -> None:
        args = self.args
        if problem.ids is not None:
            assert problem.weight is not None
            args.input_kind, args.num_ids = INPUT_TOKENS, problem.weight.shape[0]
            _check_range("ids", problem.ids, problem.weight.shape[0])
        elif problem.x is not None and problem.weight is None:
            args.input_kind = INPUT_ROWS
        else:
            args.input_kind = INPUT_DENSE
            assert problem.x is not None and problem.weight is not None
            args.input_size = problem.x.shape[2]
            self.point("weight", problem.weight.T)

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
    real = np.float32 if dtype == torch.float32 else np.float64
    matrices = [factor_matrix(order) for order in orders]
    empty = np.zeros(0, real)
    factors = np.concatenate([empty, *(matrix.ravel() for matrix in matrices)]).astype(real)
    transposed = np.concatenate([empty, *(matrix.T.ravel() for matrix in matrices)]).astype(real)
    return (ctypes.c_int64 * len(orders))(*orders), factors, transposed, sylvester


def _check_range(name: str, values: Tensor, limit: int) -> None:
    """Refuse integers that would make the native code read out of bounds."""
    if values.dtype != torch.int64:
        raise InputError(f"{name} must be int64, got {values.dtype}. Convert them with .long().")
    if values.numel() == 0:
        return
    numbers = values.numpy()  # torch would wake its threads for this
    lowest, highest = int(numbers.min()), int(numbers.max())
    if lowest < 0 or highest >= limit:
        raise InputError(f"{name} must lie in 0..{limit - 1}, got {lowest if lowest < 0 else highest}.")
