"""Bound the time of an integer step from below by the vector additions of its transform.

    additions of a row's step = d_h (narrow stages / 2 + wide stages) / rows of a tile

A 32-bit stage adds all rows of a tile in one vector, a 16-bit one in half a vector. Loads and stores, the
input, rounding and saturation are ignored, so no implementation reaches the bound.
"""

from __future__ import annotations

import ctypes
import subprocess
from importlib.resources import files
from pathlib import Path

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.engine import NativeNetwork
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.plan import make_plan

_TURNS = 2_000_000


def least_seconds(network: NativeNetwork, model: IntegerModel, folder: Path) -> float:
    """Return the least seconds for one row and step on this core; needs a C compiler."""
    rate = _addition_rate(4 * network.tile_rows, folder)
    vectors = 0.0
    for planned in make_plan(model).layers:
        stages = planned.layer.block_size.bit_length() - 1
        narrow = planned.in_place
        vectors += planned.layer.hidden_size * (stages - narrow / 2)
    return vectors / network.tile_rows / rate


def _addition_rate(vector_bytes: int, folder: Path) -> float:
    """Measure how many vectors of `vector_bytes` bytes this core adds per second."""
    measure = compiled(folder, "additions.c", f"-DVECTOR_BYTES={vector_bytes}").additions_per_second
    measure.argtypes, measure.restype = [ctypes.c_long], ctypes.c_double
    return max(float(measure(_TURNS)) for _ in range(5))


def compiled(folder: Path, source: str, *options: str) -> ctypes.CDLL:
    """Compile a C file of `devices/` for this core, in `folder`, and load it as a library."""
    library = folder / f"{source}.so"
    code = files("hadamrnn_benchmarks") / "devices" / source
    (folder / source).write_text(code.read_text())
    command = ["cc", "-std=gnu99", "-O3", "-march=native", "-shared", "-fPIC", *options, source]
    built = subprocess.run([*command, "-o", library.name], cwd=folder, capture_output=True, text=True)
    if built.returncode:
        raise InputError(f"cc failed: {built.stderr[:200]}")
    return ctypes.CDLL(str(library))
