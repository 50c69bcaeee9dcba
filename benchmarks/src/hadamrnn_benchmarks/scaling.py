"""`hadamrnn bench training --scaling`: plot how a training step's time grows with length and hidden size.

Lengths go from 1e2 to 1e6 at hidden size 128 and batch size 1; hidden sizes from 64 to 4096 at 200 steps and
batch size 8. The network has an output at every step, so that the scan does the work. The plot has two
panels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

from hadamrnn.files import write_atomically
from hadamrnn.network import Network
from hadamrnn.pages.drawing import Canvas, styled, svg
from hadamrnn_benchmarks.training import (
    Workload,
    extra_megabytes,
    make_batch,
    make_step,
    milliseconds,
    torch_threads,
)

LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
HIDDEN_SIZES = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class ScalingRow:
    """One measured training step."""

    series: str  # "length" or "hidden size"
    size: int
    milliseconds: float
    megabytes: float  # peak memory of the first step, without the batch


def run_scaling(
    out: Path,
    *,
    threads: int,
    rounds: int,
    lengths: tuple[int, ...] = LENGTHS,
    hidden_sizes: tuple[int, ...] = HIDDEN_SIZES,
) -> list[ScalingRow]:
    """Measure both series and write the plot, an SVG file."""
    by_length = {size: Workload("length", 1, size, Network(1, 128, 10), ratio=0) for size in lengths}
    by_size = {
        size: Workload("hidden size", 8, 200, Network(1, size, 10, every_output=True), ratio=0)
        for size in hidden_sizes
    }
    with torch_threads(threads):
        points = [_measured(size, shape, rounds) for size, shape in (*by_length.items(), *by_size.items())]
    write_atomically(out, draw(points).encode())
    return points


def _measured(size: int, shape: Workload, rounds: int) -> ScalingRow:
    step = make_step(shape, "engine", *make_batch(shape, None))
    megabytes = extra_megabytes(step)
    return ScalingRow(shape.name, size, median(milliseconds(step) for _ in range(rounds)), megabytes)


def draw(points: list[ScalingRow]) -> str:
    """Return an SVG with a panel for each series, all axes logarithmic."""
    with styled():
        canvas = Canvas(figsize=(8, 3.5))
        for axes, series in zip(canvas.subplots(1, 2), ("length", "hidden size"), strict=True):
            line = [point for point in points if point.series == series]
            sizes, times = [point.size for point in line], [point.milliseconds for point in line]
            axes.loglog(sizes, times, marker="o", gid=series.replace(" ", "-"))
            axes.set_xlabel(series)
            axes.set_ylabel("milliseconds a training step")
        return svg(canvas, "scaling")
