"""How a command's process treats freed memory, waiting threads, and output that nobody takes."""

from __future__ import annotations

import ctypes
import os
import sys

# What glibc's mallopt calls its two thresholds.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 256 << 20
_LARGEST_BLOCK = 32 << 20  # more is not allowed
_SPINS = 20_000
_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def let_waiting_threads_sleep() -> None:
    """Have torch's threads sleep after a tenth of a millisecond without work; GNU's OpenMP only.

    By default they spin 300,000 times, which is milliseconds, on cores that the kernels' own threads need. A
    step of the copy task takes 21 ms instead of 30 on two cores, and plain torch is as quick as before. Call
    it before torch is loaded. A setting of the user's own is left as it is.
    """
    if not any(name in os.environ for name in _WAITING):
        os.environ["GOMP_SPINCOUNT"] = str(_SPINS)


def keep_freed_memory() -> None:
    """Let this process keep what it frees, up to 256 MB; glibc only.

    Every training step frees all its tensors and asks for as many again. glibc would give them back to the
    system in between, and each page would have to be fetched and zeroed again: 3 to 4 ms of a step that
    takes 40 (stack and copy of `hadamrnn bench training`, one thread).
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, _LARGEST_BLOCK)


def drop_unwritable_output() -> None:
    """Forget buffered output that cannot be written; the interpreter would try again when it exits."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
