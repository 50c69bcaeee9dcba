"""Run the slices of a kernel on as many threads as torch uses.

A slice is a fixed part of the work, whoever takes it, so the result does not depend on the threads.
ctypes releases the interpreter's lock during a call: plain Python threads are enough. The calling
thread works too, and the helpers are dropped in a forked child, where threads do not survive.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from ctypes import Structure, byref

import torch
from torch import Tensor

from hadamrnn.kernels.library import Kernel, native_kernel

# Sums longer than this are cut into pieces that threads share.
_SUM_SIZE = 1 << 18
_SUM_PIECES = 16

_pool: ThreadPoolExecutor | None = None
_pool_size = 0


def run_slices(kernel: Kernel, args: Structure | None, num_slices: int) -> None:
    """Call `kernel(args, slice)` for every slice."""
    slices = iter(range(num_slices))  # next() is atomic: each slice is taken once
    helpers = min(torch.get_num_threads(), num_slices) - 1
    if helpers <= 0:
        _work(kernel, args, slices)
        return
    jobs = [_helpers(helpers).submit(_work, kernel, args, slices) for _ in range(helpers)]
    _work(kernel, args, slices)
    for job in jobs:
        job.result()


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


def _work(kernel: Kernel, args: Structure | None, slices: Iterator[int]) -> None:
    pointer = None if args is None else byref(args)
    for index in slices:
        if kernel(pointer, index) != 0:
            raise MemoryError("the native kernel could not allocate its work space")


def _helpers(count: int) -> ThreadPoolExecutor:
    """Return the pool, grown to `count` threads where it was smaller."""
    global _pool, _pool_size
    if _pool is None or _pool_size < count:
        # A smaller pool may still be in use by another thread; without users it ends by itself.
        _pool, _pool_size = ThreadPoolExecutor(count, thread_name_prefix="hadamrnn"), count
    return _pool


def _forget() -> None:
    global _pool, _pool_size
    _pool, _pool_size = None, 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
