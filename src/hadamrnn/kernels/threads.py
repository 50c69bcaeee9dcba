"""Run the slices of a kernel on as many threads as torch uses, and add them up."""

from __future__ import annotations

from ctypes import Structure

import torch
from torch import Tensor

from hadamrnn.kernels.library import Kernel, native_kernel
from hadamrnn.kernels.slices import run_slices_on

# Sums longer than this are cut into pieces that threads share.
_SUM_SIZE = 1 << 18
_SUM_PIECES = 16


def run_slices(kernel: Kernel, args: Structure | None, num_slices: int) -> None:
    """Call `kernel(args, slice)` for every slice."""
    run_slices_on(torch.get_num_threads(), kernel, args, num_slices)


def sum_slices(parts: Tensor) -> Tensor:
    """Return parts[0] + parts[1] + ..., added in this order whatever the number of threads.

    Args:
        parts: `(num_slices, ...)`.
    """
    total = parts.new_empty(parts.shape[1:])
    size, reduce = total.numel(), native_kernel("reduce", parts.dtype)
    bounds = (
        [size * piece // _SUM_PIECES for piece in range(_SUM_PIECES + 1)] if size > _SUM_SIZE else [0, size]
    )

    def add(_: object, piece: int) -> int:
        start, end = bounds[piece], bounds[piece + 1]
        return reduce(parts.shape[0], size, start, end, parts.data_ptr(), total.data_ptr())

    run_slices(add, None, len(bounds) - 1)
    return total
