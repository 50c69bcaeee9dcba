"""A lower bound of an integer step: the vector additions of its transform, at the rate that the core adds.

    additions of a row's step = d_h (narrow stages + 2 wide stages) / rows of a tile

A 16-bit stage adds all rows of a tile in one vector, a wider one takes two. Where `fits_narrow_step` says so,
only the last stage is wide. Loads and stores, the input, rounding and saturation are left out, so nothing
reaches the bound.
"""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.native import NativeNetwork, fits_narrow_step, narrow_stages

_ADDITIONS = """
#include <stdint.h>
#include <time.h>
typedef uint16_t vector __attribute__((vector_size(VECTOR_BYTES)));
static volatile uint16_t sink;
double additions_per_second(long turns);
double additions_per_second(long turns)
{
    vector a[8];
    struct timespec start, end;
    for (int i = 0; i < 8; i++) a[i] = (vector){0} + (uint16_t)(i + turns);
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &start);
    for (long t = 0; t < turns; t++)
        for (int stride = 1; stride < 8; stride *= 2)
            for (int i = 0; i < 8; i++)
                if (!(i & stride)) {
                    vector difference = a[i] - a[i + stride];
                    a[i] += a[i + stride];
                    a[i + stride] = difference;
                }
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &end);
    for (int i = 0; i < 8; i++) sink = a[i][0];
    double seconds = (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec);
    return 24.0 * (double)turns / seconds;
}
"""
_TURNS = 2_000_000


def least_seconds(network: NativeNetwork, model: IntegerModel, folder: Path) -> float:
    """Return the bound of a row's step on this core; needs a C compiler."""
    rate = _addition_rate(2 * network.tile_rows, folder)
    vectors = 0
    for layer in model.layers:
        stages = layer.block_size.bit_length() - 1
        narrow = narrow_stages(layer, layer.block_size & -layer.block_size)
        if network.lanes == "float" and fits_narrow_step(layer):
            narrow = stages - 1
        vectors += layer.hidden_size * (narrow + 2 * (stages - narrow))
    return vectors / network.tile_rows / rate


def _addition_rate(vector_bytes: int, folder: Path) -> float:
    """Return how many vectors of so many bytes this core adds in a second."""
    (folder / "additions.c").write_text(_ADDITIONS)
    measure = compiled(folder, f"additions.c -DVECTOR_BYTES={vector_bytes}").additions_per_second
    measure.argtypes, measure.restype = [ctypes.c_long], ctypes.c_double
    return max(float(measure(_TURNS)) for _ in range(5))


def compiled(folder: Path, sources: str) -> ctypes.CDLL:
    """Return C files of a folder as a library, compiled for this core."""
    library = folder / f"{sources.partition('.')[0]}.so"
    command = f"cc -std=gnu99 -O3 -march=native -shared -fPIC {sources} -o {library.name}"
    built = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True)
    if built.returncode:
        raise InputError(f"cc failed: {built.stderr[:200]}")
    return ctypes.CDLL(str(library))
