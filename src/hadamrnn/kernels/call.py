"""Call the native library with checked pointers and sizes, slice by slice, and sum over slices.

`Call` serves every kernel, and `ScanCall` fills in the arguments of a recurrence. Pools are computed in
tiles, each with as many rows of the batch as a vector has lanes.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import factor_matrix, order_factors
from hadamrnn.kernels.backend import check_array, check_ids, check_range, constant_when_traced
from hadamrnn.kernels.library import (
    INPUT_DENSE,
    INPUT_ROWS,
    INPUT_TOKENS,
    ScanArgs,
    native_kernel,
    run_slices_on,
)
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, Recurrence
from hadamrnn.kernels.transform import count_blocks
from hadamrnn.settings import check_equal

POOLS = ("mean", "positive", "max")
INTEGERS = ("ids", "lengths")
# Sums longer than this are divided among threads.
_SUM_SIZE = 1 << 18
_SUM_PIECES = 16
MAX_SLICES = 32
# State entries per slice, about 50 microseconds of work.
GRAIN = 1 << 16
REAL = {torch.float32: np.float32, torch.float64: np.float64}


class Results(NamedTuple):
    """The outputs of a forward pass, and tensors for its backward pass; `(0,)` if not requested.

    The shapes are in `ScanArgs` in native/arguments.h; data kept for the pools are stored in tiles, flat
    here.
    """

    output: Tensor  # h_t or y_t
    last: Tensor
    mean: Tensor
    positive: Tensor
    max: Tensor
    checkpoints: Tensor
    mean_bits: Tensor
    positive_bits: Tensor
    max_steps: Tensor


def empty_results(recurrence: Recurrence) -> Results:
    """Return empty results to fill in."""
    batch, time, hidden = recurrence.batch, recurrence.time, recurrence.hidden_size
    new, dtype = recurrence.signs.new_empty, recurrence.signs.dtype
    integer = torch.int32 if dtype == torch.float32 else torch.int64
    results = Results(*(new(0) for _ in range(6)), *(new(0, dtype=integer) for _ in range(3)))
    if not recurrence.pools:
        width = hidden if recurrence.output_weight is None else recurrence.output_weight.shape[0]
        if recurrence.has_output:
            results = results._replace(output=new(batch, time, width))
        kept = new(batch, num_checkpoints(recurrence), hidden)
        return results._replace(last=new(batch, hidden), checkpoints=kept)
    assert recurrence.thresholds is not None
    lanes, count = tile_rows(dtype), recurrence.thresholds.shape[0]
    tiles, words = -(-batch // lanes), -(-hidden // (8 * dtype.itemsize))
    kept = new(tiles * num_checkpoints(recurrence) * hidden * lanes)
    results = results._replace(last=new(batch, hidden), checkpoints=kept)
    for name in ("mean", "positive"):
        if name in recurrence.pools:
            results = results._replace(**{name: new(batch, count, hidden)})
        if name in recurrence.pools and recurrence.keep_bits:
            bits = new(tiles * time * count * words * lanes, dtype=integer)
            results = results._replace(**{f"{name}_bits": bits})
    if "max" in recurrence.pools:
        steps = new(tiles * hidden * lanes, dtype=integer)
        results = results._replace(max=new(batch, hidden), max_steps=steps)
    return results


@constant_when_traced
def tile_rows(dtype: torch.dtype) -> int:
    """Return the number of batch rows in the lanes of a vector."""
    return native_kernel("tile_rows", dtype)()


def num_checkpoints(recurrence: Recurrence) -> int:
    if recurrence.segment is recurrence.time:  # in an export with dynamic lengths, the length is a symbol
        return 0
    return max(-(-recurrence.time // recurrence.segment) - 1, 0)


def count_slices(parts: int, work: int, grain: int) -> int:
    """Return the number of slices for `parts` rows: a power of two, or `parts` itself if that is less.

    Args:
        work: amount of work in the whole call, in any unit.
        grain: amount of work that takes much longer than starting a slice, which takes microseconds.
    """
    wanted = 1
    while wanted < MAX_SLICES and wanted * grain < work:
        wanted *= 2
    return max(1, min(parts, wanted))


class Call:
    """A structure of arguments for C, and the tensors behind its pointers."""

    def __init__(self, args: ctypes.Structure, dtype: torch.dtype) -> None:
        self.args, self.dtype = args, dtype
        self.tensors: dict[str, Tensor] = {}

    def point(
        self, name: str, tensor: Tensor | None, shape: tuple[int, ...], dtype: torch.dtype | None = None
    ) -> None:
        """Point the field `name` at the tensor's values, checking the dtype and shape that C expects."""
        if tensor is not None:
            check_array(name, tensor, dtype or self.dtype, shape)
            self.keep(name, tensor)

    def keep(self, name: str, tensor: Tensor) -> None:
        """Point the field `name` at the values of a tensor of this package."""
        tensor = self.tensors[name] = tensor.contiguous()
        setattr(self.args, name, tensor.data_ptr())

    def run(self, kernel: str) -> None:
        """Run every slice of a kernel."""
        found = native_kernel(kernel, self.dtype)
        run_slices_on(torch.get_num_threads(), found, self.args, self.args.num_slices)


class ScanCall(Call):
    """A call of the recurrence.

    Args:
        results: the result of `empty_results`.
        most: the largest allowed number of slices.
    """

    def __init__(self, recurrence: Recurrence, results: Results, most: int = MAX_SLICES) -> None:
        super().__init__(ScanArgs(), recurrence.signs.dtype)
        self.is_dense = recurrence.ids is None
        self.decay = recurrence.decay
        rows = -(-recurrence.batch // tile_rows(self.dtype)) if recurrence.pools else recurrence.batch
        numbers = recurrence.batch * recurrence.time * recurrence.hidden_size
        self.args.num_slices = count_slices(min(rows, most), numbers, GRAIN)
        self.shapes = _shapes(recurrence)
        for name in (*DIFFERENTIABLE, *INTEGERS, "thresholds"):
            self.point_field(name, getattr(recurrence, name))
        if recurrence.decay is not None:  # lambda * W(u) h = W(lambda * u) h
            check_array("decay", recurrence.decay, self.dtype, self.shapes["decay"])
            self.keep("signs", recurrence.signs * recurrence.decay)
        self.point_field("last", results.last)
        for name in ("checkpoints", "mean_bits", "positive_bits", "max_steps"):
            if getattr(results, name).numel():
                self.keep(name, getattr(results, name))
        self._set_sizes(recurrence)
        self._set_transform(recurrence.block_size)

    def point_field(self, name: str, tensor: Tensor | None) -> None:
        """Point the field `name` at a tensor of the shape in `_shapes`; U is transposed first."""
        if tensor is not None and name == "weight" and self.is_dense:
            tensor = tensor.T
        self.point(name, tensor, self.shapes[name], torch.int64 if name in INTEGERS else None)

    def gradients(self, kernel: str, wanted: Iterable[str]) -> dict[str, Tensor]:
        """Run the backward pass and return the gradients of the fields `wanted`."""
        found: dict[str, Tensor] = {}
        for name in wanted:
            like = self.tensors[name]
            own = name in ("x", "h_0")  # these gradients are not summed over slices
            found[name] = torch.empty_like(like) if own else like.new_empty(self.args.num_slices, *like.shape)
            self.keep(f"grad_{name}", found[name])
        self.run(kernel)
        for name in found.keys() - {"x", "h_0"}:
            found[name] = sum_slices(found[name])
        if "signs" in found and self.decay is not None:
            found["signs"] *= self.decay
        if "weight" in found and self.is_dense:
            found["weight"] = found["weight"].T.contiguous()
        return found

    def _set_sizes(self, recurrence: Recurrence) -> None:
        args = self.args
        args.batch, args.time, args.hidden = recurrence.batch, recurrence.time, recurrence.hidden_size
        args.output_size = self.shapes["output_weight"][0]
        args.num_thresholds = self.shapes["thresholds"][0]
        args.relu, args.replay, args.sigma = recurrence.relu, recurrence.is_irreversible, recurrence.sigma
        args.segment = recurrence.segment
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


def sum_slices(parts: Tensor) -> Tensor:
    """Return parts[0] + parts[1] + ..., added in this order for any number of threads.

    Args:
        parts: `(num_slices, ...)`.
    """
    total = parts.new_empty(parts.shape[1:])
    size, reduce = total.numel(), native_kernel("reduce", parts.dtype)
    pieces = _SUM_PIECES if size > _SUM_SIZE else 1

    def add(_: object, piece: int) -> int:
        start, end = size * piece // pieces, size * (piece + 1) // pieces
        return reduce(parts.shape[0], size, start, end, parts.data_ptr(), total.data_ptr())

    run_slices_on(torch.get_num_threads(), add, None, pieces)
    return total


@cache
def _factors(
    block_size: int, dtype: torch.dtype
) -> tuple[ctypes.Array[ctypes.c_int64], NDArray[Any], NDArray[Any], int]:
    """Return H_b's factors of order above 2: orders, matrices, transposes; and the Sylvester order."""
    orders = [order for order in order_factors(block_size) if order > 2]
    sylvester = block_size // int(np.prod(orders, dtype=np.int64))
    real = REAL[dtype]
    matrices = [factor_matrix(order) for order in orders]
    empty = np.zeros(0, real)
    factors = np.concatenate([empty, *(matrix.ravel() for matrix in matrices)]).astype(real)
    transposed = np.concatenate([empty, *(matrix.T.ravel() for matrix in matrices)]).astype(real)
    return (ctypes.c_int64 * len(orders))(*orders), factors, transposed, sylvester


def _shapes(recurrence: Recurrence) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the arrays that C expects, by the names in `ScanArgs`; U is transposed."""
    batch, time, hidden = recurrence.batch, recurrence.time, recurrence.hidden_size
    outputs = 0 if recurrence.output_weight is None else recurrence.output_weight.shape[0]
    count = 0 if recurrence.thresholds is None else recurrence.thresholds.shape[0]
    width = hidden if recurrence.weight is None else recurrence.rows.shape[-1]
    weight_rows = width
    if recurrence.ids is not None and recurrence.weight is not None:
        weight_rows = recurrence.weight.shape[0]
    inputs: dict[str, tuple[int, ...]] = {
        "x": (batch, time, width),
        "weight": (weight_rows, hidden),
        "bias": (hidden,),
        "signs": (hidden,),
        "decay": (hidden,),
        "h_0": (batch, hidden),
        "output_weight": (outputs, hidden),
        "output_bias": (outputs,),
        "thresholds": (count, hidden),
    }
    results = {
        "output": (batch, time, hidden),
        "logits": (batch, time, outputs),
        "last": (batch, hidden),
        "mean": (batch, count, hidden),
        "positive": (batch, count, hidden),
        "max": (batch, hidden),
    }
    gradients = {f"grad_{name}": shape for name, shape in results.items()}
    return {**inputs, "ids": (batch, time), "lengths": (batch,), **results, **gradients}


def check(recurrence: Recurrence) -> None:
    """Refuse a recurrence that the native code cannot run, or that would make it read out of bounds."""
    x, ids, weight, thresholds = recurrence.x, recurrence.ids, recurrence.weight, recurrence.thresholds
    dimensions = {"signs": 1, "x": 3, "ids": 2, "weight": 2, "output_weight": 2, "thresholds": 2}
    for name, count in dimensions.items():
        tensor = getattr(recurrence, name)
        if tensor is not None:
            check_equal(f"The number of dimensions of {name}", tensor.dim(), count)
    tiled = x is not None and thresholds is not None and recurrence.h_0 is None and not recurrence.is_wide
    rules = {
        "either x, or ids with their weight": (x is None) != (ids is None)
        and (x is not None or weight is not None),
        "at least one step in a segment": recurrence.segment >= 1,
        "for pools thresholds, narrow dense inputs or rows, and no h_0": tiled or not recurrence.pools,
    }
    for rule, is_kept in rules.items():
        if not is_kept:
            raise InputError(f"A native recurrence needs {rule}.")
    native_kernel("scan_forward", recurrence.signs.dtype)  # raises for dtypes without a kernel
    count_blocks(recurrence.hidden_size, recurrence.block_size)
    if ids is not None and weight is not None:
        check_array("ids", ids, ids.dtype, (recurrence.batch, recurrence.time))
        check_ids(ids, weight.shape[0])
    if recurrence.lengths is not None:
        check_array("lengths", recurrence.lengths, torch.int64, (recurrence.batch,))
        check_range("lengths", recurrence.lengths, recurrence.time + 1)
