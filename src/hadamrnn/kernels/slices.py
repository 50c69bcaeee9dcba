"""Run the slices of a kernel on several threads. No torch here.

A slice is a fixed part of the work, so the result does not depend on which thread takes it.
ctypes releases the interpreter's lock during a call: plain Python threads are enough. The calling
thread works too, and the helpers are dropped in a forked child, where threads do not survive.
"""

from __future__ import annotations

import os
from concurrent.futures import Future, ThreadPoolExecutor
from ctypes import Structure, byref
from threading import Lock

from hadamrnn.kernels.library import STATUS_NO_MEMORY, Kernel

_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_pool_lock = Lock()


def run_slices_on(threads: int, kernel: Kernel, args: Structure | None, num_slices: int) -> None:
    """Call `kernel(args, slice)` for every slice.

    When it returns or raises, for example at Ctrl-C, no helper is running: the caller may free their buffers.
    """
    slices = _Slices(num_slices)
    helpers = min(threads, num_slices) - 1
    jobs: list[Future[None]] = []
    try:
        for _ in range(helpers):
            jobs.append(_helpers(helpers).submit(_work, kernel, args, slices))
        pointer = None if args is None else byref(args)
        while (index := slices.take()) is not None:
            _check_status(kernel(pointer, index))
    finally:
        slices.withdraw()
        _join(jobs)
    for job in jobs:
        job.result()


def _join(jobs: list[Future[None]]) -> None:
    """Wait until all jobs are done; an interrupt is raised afterwards."""
    interrupts: list[BaseException] = []
    for job in jobs:
        while not job.done():
            try:
                job.exception()
            except BaseException as interrupt:
                interrupts.append(interrupt)
    if interrupts:
        raise interrupts[0]


class _Slices:
    """A thread-safe queue of the slices that are left."""

    def __init__(self, count: int) -> None:
        self._left = iter(range(count))
        self._lock = Lock()  # for a free-threaded Python, where threads cannot share an iterator

    def take(self) -> int | None:
        with self._lock:
            return next(self._left, None)

    def withdraw(self) -> None:
        """Hand out no more slices."""
        with self._lock:
            self._left = iter(range(0))


def _work(kernel: Kernel, args: Structure | None, slices: _Slices) -> None:
    """Take slices in a helper thread until none is left."""
    pointer = None if args is None else byref(args)
    while (index := slices.take()) is not None:
        _check_status(kernel(pointer, index))


def _check_status(status: int) -> None:
    if status == STATUS_NO_MEMORY:
        raise MemoryError("the native kernel could not allocate its work space")
    if status:
        raise ValueError(f"the native kernel refused its sizes (status {status})")


def _helpers(count: int) -> ThreadPoolExecutor:
    """Return the pool, with at least `count` threads."""
    global _pool, _pool_size
    with _pool_lock:
        if _pool is None or _pool_size < count:
            # Another thread may still use the smaller pool, which ends by itself when it is no longer used.
            _pool, _pool_size = ThreadPoolExecutor(count, thread_name_prefix="hadamrnn"), count
        return _pool


def _forget() -> None:
    global _pool, _pool_size, _pool_lock
    _pool, _pool_size, _pool_lock = None, 0, Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)
