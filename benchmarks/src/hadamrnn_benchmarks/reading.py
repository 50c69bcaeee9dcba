"""`hadamrnn bench reading` and `bench fitting`: measure peak memory and CPU time for a user's own data.

Files of random values are written at the requested sizes. For each, a new process loads it as a task, or
reads it into arrays and fits a classifier. The peak is counted from the end of the imports, after a small
file has been read to load libraries that are imported on first use. Linux only: the kernel reports the peak.
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
LONG = "npz-long"  # series of 50,000 steps
FITTED_FORMS = (*FORMS, LONG)
CHANNELS, STEPS, RUN = 6, 128, 2000  # RUN: rows with one label
LONG_STEPS = 50_000
ROWS_AT_ONCE = 20_000

MEASURE = """
import json, re, sys, time
from pathlib import Path
import numpy as np, pandas as pd, torch
from hadamrnn import HadamRNNClassifier, load_task

def kilobytes(key):
    return int(re.search(rf"{key}:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])

def load(path):
    load_task("npz" if path.endswith("npz") else "recordings", path=path)

def arrays(path):
    if path.endswith("npz"):
        file = np.load(path)
        return file["x"], file["y"]
    frame = pd.read_csv(path)
    windows = len(frame) // STEPS
    x = frame.iloc[: windows * STEPS, 1:-1].to_numpy().reshape(windows, STEPS, -1)
    return x, frame["label"].to_numpy()[: windows * STEPS : STEPS]

torch.set_num_threads(1)
work, small, path = sys.argv[1:]
load(small) if work == "load" else arrays(small)
Path("/proc/self/clear_refs").write_text("5")  # the peak starts here
before, began = kilobytes("VmRSS"), time.process_time()
load(path) if work == "load" else HadamRNNClassifier(random_state=0).fit(*arrays(path))
print(json.dumps([1024 * (kilobytes("VmHWM") - before), time.process_time() - began]))
""".replace("STEPS", str(STEPS))


@dataclass(frozen=True)
class MemoryRow:
    """The figures of one file: format, size, peak memory, and CPU time to load it or fit to it."""

    shape: str
    megabytes: float
    peak_megabytes: float
    ratio: float  # peak memory / size of the file
    seconds: float


def run_reading(sizes: tuple[int, ...], forms: tuple[str, ...] = FORMS) -> list[MemoryRow]:
    """Measure loading files of every format at every size in megabytes."""
    return _run("load", sizes, forms)


def run_fitting(sizes: tuple[int, ...], forms: tuple[str, ...] = FITTED_FORMS) -> list[MemoryRow]:
    """Measure reading files of every format at every size in megabytes and fitting a classifier to each."""
    return _run("fit", sizes, forms)


def _run(work: str, sizes: tuple[int, ...], forms: tuple[str, ...]) -> list[MemoryRow]:
    if not Path("/proc/self/clear_refs").exists():
        raise InputError("Peak memory is measured by the Linux kernel, which is not here.")
    with tempfile.TemporaryDirectory() as folder:
        return [_measured(work, Path(folder), form, size) for form in forms for size in sizes]


def _measured(work: str, folder: Path, form: str, megabytes: int) -> MemoryRow:
    suffix = form[:3]
    small, path = folder / f"small.{suffix}", folder / f"large.{suffix}"
    write_file(small, suffix, 1_000_000)
    write_file(path, form, 1_000_000 * megabytes)
    command = [sys.executable, "-c", MEASURE, work, str(small), str(path)]
    answer = subprocess.run(command, check=True, capture_output=True, text=True)
    peak, seconds = json.loads(answer.stdout)
    size = path.stat().st_size
    path.unlink()
    return MemoryRow(form, size / 1e6, peak / 1e6, peak / size, seconds)


def write_file(path: Path, form: str, size: int) -> None:
    """Write about `size` bytes of random values of four classes."""
    rng = np.random.default_rng(0)
    if form in ("npz", LONG):
        steps, channels = (LONG_STEPS, 1) if form == LONG else (STEPS, CHANNELS)
        samples = max(8, size // (steps * channels * 8))
        np.savez(path, x=rng.normal(size=(samples, steps, channels)), y=np.arange(samples) % 4)
        return
    kind = "%d" if form == "csv-integers" else "%.5f"
    rows = 0
    with path.open("w") as file:
        file.write(",".join(["time", *(f"c{channel}" for channel in range(CHANNELS)), "label"]) + "\n")
        while file.tell() < size:
            values = rng.normal(size=(ROWS_AT_ONCE, CHANNELS)) * (1000 if kind == "%d" else 1)
            numbers = np.arange(rows, rows + ROWS_AT_ONCE)
            table = np.column_stack([numbers / 50, values, numbers // RUN % 4])
            np.savetxt(file, table, ["%.2f", *[kind] * CHANNELS, "%d"], delimiter=",")
            rows += ROWS_AT_ONCE
