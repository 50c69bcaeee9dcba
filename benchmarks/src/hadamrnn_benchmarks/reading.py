"""`hadamrnn bench reading`: peak memory and time of reading a user's own data.

Files of random values are written at the sizes asked for, and each is loaded by a process of its own, which
first loads a small one: libraries that are imported on first use do not count. Linux only: the peak is that
of the kernel.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hadamrnn.errors import InputError

FORMS = ("csv", "csv-integers", "npz")
CHANNELS, STEPS, RUN = 6, 128, 2000  # RUN: rows with one label
ROWS_AT_ONCE = 20_000

MEASURE = """
import json, re, sys, time
import torch
from pathlib import Path
from hadamrnn import load_task

def kilobytes(key):
    return int(re.search(rf"{key}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

torch.set_num_threads(1)
task, small, path = sys.argv[1:]
load_task(task, path=small)
Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
before, began = kilobytes("VmRSS"), time.perf_counter()
load_task(task, path=path)
print(json.dumps([1024 * (kilobytes("VmHWM") - before), time.perf_counter() - began]))
"""


@dataclass(frozen=True)
class ReadingRow:
    """One file: its form and size, and what loading it took."""

    shape: str
    megabytes: float
    peak_megabytes: float
    ratio: float  # peak memory to the size of the file
    seconds: float


def run_reading(sizes: tuple[int, ...], forms: tuple[str, ...] = FORMS) -> list[ReadingRow]:
    """Measure files of every form at every size in megabytes."""
    if not Path("/proc/self/clear_refs").exists():
        raise InputError("The peak memory of reading is measured by the Linux kernel, which is not here.")
    with tempfile.TemporaryDirectory() as folder:
        return [_measured(Path(folder), form, size) for form in forms for size in sizes]


def _measured(folder: Path, form: str, megabytes: int) -> ReadingRow:
    suffix = "npz" if form == "npz" else "csv"
    small, path = folder / f"small.{suffix}", folder / f"large.{suffix}"
    write_file(small, form, 1_000_000)
    write_file(path, form, 1_000_000 * megabytes)
    task = "npz" if form == "npz" else "recordings"
    command = [sys.executable, "-c", MEASURE, task, str(small), str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, seconds = json.loads(answer.stdout)
    size = path.stat().st_size
    path.unlink()
    return ReadingRow(form, size / 1e6, peak / 1e6, peak / size, seconds)


def write_file(path: Path, form: str, size: int) -> None:
    """Write about `size` bytes of random values of four classes."""
    rng = np.random.default_rng(0)
    if form == "npz":
        samples = max(40, size // (STEPS * CHANNELS * 8))
        np.savez(path, x=rng.normal(size=(samples, STEPS, CHANNELS)), y=np.arange(samples) % 4)
        return
    kind = "%d" if form == "csv-integers" else "%.5f"
    rows = 0
    with path.open("w") as file:
        file.write(",".join(["time", *(f"c{channel}" for channel in range(CHANNELS)), "label"]) + "\n")
        while file.tell() < size:
            values = rng.normal(size=(ROWS_AT_ONCE, CHANNELS)) * (1000 if kind == "%d" else 1)
            steps = np.arange(rows, rows + ROWS_AT_ONCE)
            table = np.column_stack([steps / 50, values, steps // RUN % 4])
            np.savetxt(file, table, ["%.2f", *[kind] * CHANNELS, "%d"], delimiter=",")
            rows += ROWS_AT_ONCE
