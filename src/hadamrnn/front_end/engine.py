"""The front end on the host: `runtime/hadamrnn_front_end.h` in the native library.

Without the library the reference computes the same codes, more slowly.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.front_end.description import FrontEnd
from hadamrnn.front_end.layout import front_end_bytes, front_end_numbers
from hadamrnn.front_end.reference import reference_bands
from hadamrnn.kernels.library import FrontEndArgs, Library, load_library
from hadamrnn.kernels.slices import run_slices_on


def compute_bands(front_end: FrontEnd, samples: NDArray[np.integer]) -> NDArray[np.int16]:
    """Return the codes `(frames, bands)` of one recording; samples after its last frame are left out."""
    if samples.ndim != 1 or samples.dtype != np.int16:
        raise InputError(
            f"A front end reads one channel of int16 samples, got {samples.dtype} of shape {samples.shape}."
        )
    if not front_end.num_frames(len(samples)):
        return np.zeros((0, front_end.bands), np.int16)
    read, library = np.ascontiguousarray(samples, np.int16), load_library()
    if library is None:
        return reference_bands(front_end, read)
    return _native(front_end, read, library)


def _native(front_end: FrontEnd, samples: NDArray[np.int16], library: Library) -> NDArray[np.int16]:
    """Return the codes of contiguous samples."""
    codes = np.empty((front_end.num_frames(len(samples)), front_end.bands), np.int16)
    content, starts = front_end_bytes(front_end)
    tables = np.frombuffer(content, np.uint8)
    args = FrontEndArgs(
        count=len(samples),
        **front_end_numbers(front_end),
        **{name: tables.ctypes.data + start for name, start in starts.items()},
        samples=samples.ctypes.data,
        codes=codes.ctypes.data,
    )
    run_slices_on(1, library.kernel("front_end"), args, 1)
    return codes
