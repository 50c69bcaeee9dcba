"""`hadamrnn bench training --scaling`: how a training step grows with length and with hidden size.

Lengths from 1e2 to 1e6 at hidden size 128, batch 1; hidden sizes from 64 to 4096 at 200 steps, batch 8,
read out after every step, so that the scan does the work. One plot with a line for each.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log10
from pathlib import Path
from statistics import median

import torch

from hadamrnn.benchmarks.training import Step, extra_megabytes, milliseconds
from hadamrnn.errors import InputError
from hadamrnn.layers.model import ModelConfig, build_model

LENGTHS = (100, 1_000, 10_000, 100_000, 1_000_000)
HIDDEN_SIZES = (64, 128, 256, 512, 1024, 2048, 4096)


@dataclass(frozen=True)
class Point:
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
) -> list[Point]:
    """Measure both series and write the plot, an SVG file."""
    if Path(out).suffix != ".svg":
        raise InputError(f"--out must name an .svg file, got {out!r}.")
    if rounds < 1 or threads < 1:
        raise InputError(f"rounds and threads must be at least 1, got {rounds} and {threads}.")
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        points = [measure("length", length, _length_step(length), rounds) for length in lengths]
        points += [measure("hidden size", size, _hidden_step(size), rounds) for size in hidden_sizes]
    finally:
        torch.set_num_threads(before)
    Path(out).write_text(draw(points))
    return points


def measure(series: str, size: int, step: Step, rounds: int) -> Point:
    megabytes = extra_megabytes(step)
    return Point(series, size, median(milliseconds(step) for _ in range(rounds)), megabytes)


def _length_step(length: int) -> Step:
    return _step(ModelConfig(input_size=1, hidden_size=128, output_size=10), batch=1, time=length)


def _hidden_step(hidden_size: int) -> Step:
    config = ModelConfig(input_size=1, hidden_size=hidden_size, output_size=10, every_output=True)
    return _step(config, batch=8, time=200)


def _step(config: ModelConfig, batch: int, time: int) -> Step:
    torch.manual_seed(0)
    model = build_model(config)
    optimizer = torch.optim.Adam(model.parameters())
    x = torch.rand(batch, time, config.input_size)
    target = torch.randint(config.output_size, (batch, time) if config.every_output else (batch,))

    def step() -> None:
        optimizer.zero_grad()
        model.loss(x, target).backward()
        optimizer.step()

    return step


def draw(points: list[Point], width: int = 640, height: int = 400, margin: int = 60) -> str:
    """Return an SVG with both axes logarithmic: size to the right, milliseconds upwards."""
    right, top = (max(log10(value) for value in values) for values in _columns(points))
    left, bottom = (min(log10(value) for value in values) for values in _columns(points))

    def place(point: Point) -> tuple[float, float]:
        across = (log10(point.size) - left) / max(right - left, 1e-9)
        up = (log10(point.milliseconds) - bottom) / max(top - bottom, 1e-9)
        return margin + across * (width - 2 * margin), height - margin - up * (height - 2 * margin)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="11"><title>Milliseconds of a training step against its size</title>',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for series, colour in (("length", "#1f77b4"), ("hidden size", "#d62728")):
        line = [point for point in points if point.series == series]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in map(place, line))
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        for point in line:
            x, y = place(point)
            parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>')
            label = f"{point.size:,}: {point.milliseconds:.3g} ms"
            parts.append(f'<text x="{x:.1f}" y="{y - 8:.1f}" text-anchor="middle">{label}</text>')
        if line:
            x, y = place(line[-1])
            parts.append(
                f'<text x="{x:.1f}" y="{y - 22:.1f}" text-anchor="middle" fill="{colour}">{series}</text>'
            )
    return "\n".join([*parts, "</svg>\n"])


def _columns(points: list[Point]) -> tuple[list[float], list[float]]:
    return [float(point.size) for point in points], [point.milliseconds for point in points]
