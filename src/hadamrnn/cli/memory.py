"""How a command's process treats memory that was freed."""

from __future__ import annotations

import ctypes
import sys

# What glibc's mallopt calls its two thresholds.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 256 << 20
_LARGEST_BLOCK = 32 << 20  # more is not allowed


def keep_freed_memory() -> None:
    """Let this process keep what it frees, up to 256 MB; glibc only.

    Every training step frees all its tensors and asks for as many again. glibc would give them back to the
    system in between, and each page would have to be fetched and zeroed anew: 3 to 4 ms of a step that
    takes 40 (stack and copy of `hadamrnn bench training`, one thread).
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, _LARGEST_BLOCK)
