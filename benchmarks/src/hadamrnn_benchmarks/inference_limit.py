"""A lower bound of an integer step: the vector additions of its transform, at the rate that the core adds.

    additions of a row's step = d_h (narrow stages + 2 wide stages) / rows of a tile

A 16-bit stage adds all rows of a tile in one vector, a wider one takes two. Where `fits_narrow_step` says so,
only the last stage is wide. Loads and stores, the input, rounding and saturation are left out, so nothing
reaches the bound.
"""

from __future__ import annotations

import ctypes
import subprocess
from importlib.resources import files
from pathlib import Path

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.native import NativeNetwork, fits_narrow_step, narrow_stages

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
    measure = compiled(folder, "additions.c", f"-DVECTOR_BYTES={vector_bytes}").additions_per_second
    measure.argtypes, measure.restype = [ctypes.c_long], ctypes.c_double
    return max(float(measure(_TURNS)) for _ in range(5))


def compiled(folder: Path, source: str, *options: str) -> ctypes.CDLL:
    """Return a C file of `devices/` as a library, compiled in `folder` for this core."""
    library = folder / f"{source}.so"
    code = files("hadamrnn_benchmarks") / "devices" / source
    (folder / source).write_text(code.read_text())
    command = ["cc", "-std=gnu99", "-O3", "-march=native", "-shared", "-fPIC", *options, source]
    built = subprocess.run([*command, "-o", library.name], cwd=folder, capture_output=True, text=True)
    if built.returncode:
        raise InputError(f"cc failed: {built.stderr[:200]}")
    return ctypes.CDLL(str(library))
