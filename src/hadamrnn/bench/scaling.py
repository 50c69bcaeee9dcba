"""`hadamrnn bench training --scaling`: how the time of a training step grows with length and hidden size.

Lengths from 1e2 to 1e6 at hidden size 128, batch 1; hidden sizes from 64 to 4096 at 200 steps, batch 8,
read out after every step, so that the scan does the work. One plot with a panel for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from hadamrnn.bench.training import Step, Workload, extra_megabytes, make_batch, make_step, milliseconds
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.pages.drawing import Canvas, styled, svg

LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
HIDDEN_SIZES = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class ScalingRow:
    """One measured training step."""

    series: str  # "length" or "hidden size"
    size: int
    milliseconds: float
    megabytes: float  # peak memory beyond the batch, of the first step


def run_scaling(
    out: str,
    *,
    threads: int,
    rounds: int,
    lengths: tuple[int, ...] = LENGTHS,
    hidden_sizes: tuple[int, ...] = HIDDEN_SIZES,
) -> list[ScalingRow]:
    """Measure both series and write the plot, an SVG file."""
    if Path(out).suffix != ".svg":
        raise InputError(f"--out must name an .svg file, got {out!r}.")
    points: list[ScalingRow] = []
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for length in lengths:
            step = _step(Network(1, 128, 10), batch=1, time=length)
            points.append(time_step("length", length, step, rounds))
        for size in hidden_sizes:
            step = _step(Network(1, size, 10, every_output=True), batch=8, time=200)
            points.append(time_step("hidden size", size, step, rounds))
    finally:
        torch.set_num_threads(before)
    Path(out).write_text(draw(points))
    return points


def time_step(series: str, size: int, step: Step, rounds: int) -> ScalingRow:
    megabytes = extra_megabytes(step)
    return ScalingRow(series, size, median(milliseconds(step) for _ in range(rounds)), megabytes)


def _step(network: Network, batch: int, time: int) -> Step:
    shape = Workload("scaling", batch, time, network, ratio=0)
    return make_step(shape, "engine", *make_batch(shape, None))


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
