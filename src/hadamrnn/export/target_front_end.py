"""Measure a front end on microcontrollers without its network. Start reading at `measure_front_end`."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.c import FRONT_END, RUNTIME, front_end_struct, render
from hadamrnn.export.targets import (
    AVR_TICK,
    CALIBRATION,
    TARGETS,
    Board,
    compile_object,
    link,
    numbers,
    run,
    section_sizes,
    stack_frames,
)
from hadamrnn.front_end import FrontEnd, front_end_bytes
from hadamrnn.front_end.reference import compute_bands
from hadamrnn.runtime import runtime_file

FRAMES = 3  # frames in the noise; the first frame is not counted
HEADER = """#include <stdbool.h>
#include <stdint.h>
void front_end_init(void);
bool front_end_push(int16_t sample, int32_t *codes);
"""


@dataclass(frozen=True)
class FrontEndMeasurement:
    """The bytes of a front end on a target, and its cost per frame."""

    target: str
    unit: str
    code: int  # bytes of .text
    flash: int  # bytes of code and tables
    ram: int  # bytes of a stream with its buffers
    stack: int
    hop: int  # cost per frame, including the samples from one frame to the next
    differences: int  # codes that differ from the reference


def measure_front_end(
    front_end: FrontEnd,
    target: Board,
    flags: tuple[str, ...] = ("-O2",),
    signal: NDArray[np.int16] | None = None,
) -> FrontEndMeasurement:
    """Build a front end for `target`, check its codes for a signal and measure it; needs the target's tools.

    The signal must have two frames or more; the default is noise.
    """
    if signal is None:
        size = front_end.frame + (FRAMES - 1) * front_end.hop
        signal = np.random.default_rng(0).normal(0, 3000, size).round().astype(np.int16)
    count = front_end.num_frames(len(signal))
    tables, _ = front_end_bytes(front_end)
    given = {
        "front_end": front_end,
        "tables": tables,
        "fields": front_end_struct(front_end),
        "signal": signal,
        "codes": compute_bands(front_end, signal).reshape(-1),
        "frames": count,
    }
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        for file in (*RUNTIME, FRONT_END):
            (folder / file).write_text(runtime_file(file))
        (folder / "front_end.h").write_text(HEADER)
        for file, template in (("unit.c", "front_end_unit.c.j2"), ("device.c", "front_end_device.c.j2")):
            (folder / file).write_text(render(template, name="front_end", **given))
        unit, device = (compile_object(target, folder / file, flags) for file in ("unit.c", "device.c"))
        code, flash, ram = section_sizes(target, unit)
        frames = stack_frames(unit)
        differences, ticks, base = numbers(run(target, link(target, [unit, device], folder / "device.elf")))
    way = [frames.pop(name, 0) for name in ("front_end_push", "hadamrnn_push_sample")]
    tick = AVR_TICK if target.unit == "cycles" else CALIBRATION / base
    return FrontEndMeasurement(
        target=target.name,
        unit=target.unit,
        code=code,
        flash=flash,
        ram=ram,
        stack=sum(way) + max(frames.values(), default=0) + 4 * front_end.bands,
        hop=round(ticks * tick / (count - 1)),
        differences=differences,
    )


def measure_front_ends(front_end: FrontEnd) -> list[FrontEndMeasurement]:
    """Measure every target whose tools are installed."""
    rows = []
    for target in TARGETS:
        if not target.missing_tools:
            try:
                rows.append(measure_front_end(front_end, target))
            except InputError:  # the front end is too large for the target
                continue
    return rows
