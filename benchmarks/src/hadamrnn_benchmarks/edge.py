"""Write the table of `docs/edge.md`: Hadamard networks and two other cells on microcontrollers.

The comparison cells are `devices/binary.c`, the dense binary product that the paper counts, and
`devices/gru.c`, an 8-bit GRU. Compiler, flags and emulator are the same for all. Start at `run_edge`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from typing import Any

from hadamrnn.data.audio import choose_front_end
from hadamrnn.errors import InputError
from hadamrnn.export.target_front_end import measure_front_ends
from hadamrnn.export.targets import (
    AVR_TICK,
    CALIBRATION,
    TARGETS,
    Board,
    compile_object,
    link,
    measure,
    numbers,
    run,
    section_sizes,
    target_named,
)
from hadamrnn.fixedpoint.blob import ModelData
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network
from hadamrnn_benchmarks.markdown import markdown_table

# Normalised leaky layers, read out by mean and maximum, as in the recipes for sensors and keywords.
STACK: dict[str, Any] = {
    "num_blocks": 8,
    "leak": (1, 2, 3, 4, 5, 6),
    "readouts": ("mean", "max"),
    "normalize": True,
    "activation_bits": 12,
}
NETWORKS = {
    "copy 128": Network(10, 128, 9, input_kind="one_hot", activation_bits=12),
    "128, one channel": Network(1, 128, 10, activation_bits=12),
    "HAR 128, nine channels": Network(9, 128, 2, activation_bits=12),
    "pMNIST 512": Network(1, 512, 10, activation_bits=12),
    "1024 in two blocks": Network(1, 1024, 10, num_blocks=2, activation_bits=12),
    "HAR-2, 2 x 64": Network(9, layer_sizes=(64, 64), output_size=1, **STACK),
    "Google-12, 3 x 128": Network(32, layer_sizes=(128, 128, 128), output_size=12, stride=2, **STACK),
}
RIVALS = {"binary": "dense binary product", "gru": "8-bit GRU cell"}
RIVAL_SIZES = (128, 512)
KILOHERTZ, AVR_KILOHERTZ = 64_000, 16_000
TITLE = "# On microcontrollers"
INTRODUCTION = f"""\
{TITLE}

All networks have packed 4-bit weights and 12-bit states, compiled with `gcc -O2`. Flash counts the code
and constants of the network, RAM its state and work buffers, stack the stack of one step; all in bytes. A
step is counted without the read-out: as executed instructions in QEMU (which are not cycles), or as
cycles in simavr for the ATmega328P. Times assume one instruction per cycle at 64 MHz; the ATmega328P runs
at 16 MHz. Every HadamRNN row passed its self-test on the target, bit for bit.

The two stacks have leaks 1 to 6 in eight blocks and read out mean and maximum. Each layer of Google-12
steps half as often as the layer below it; its figures are means over eight steps. For comparison, the
dense binary product stores hidden size squared bits and makes as many additions. It and the GRU cell have
no read-out, and the dense product has no input either.
"""
TWO_MODELS = ("pMNIST 512", "Google-12, 3 x 128")  # in one firmware
TWO_MODELS_TEXT = """\
## Two networks in one firmware

A specialised build (`NAME.c`) compiles the program for its network. The shared build compiles the program
once, as `shared/hadamrnn_shared.c`, and every further network adds only its data. `hadamrnn_open` and its
checks take 6 kB of the runtime; the linker drops them (`--gc-sections`) if no blob is opened. Cortex-M4,
`gcc -O2`, steps in instructions.
"""
FRONT_ENDS = {  # the default front ends at these sample rates
    "mel, 16 kHz": choose_front_end("mel", 16_000),
    "bands, 12 kHz": choose_front_end("bands", 12_000),
    "bands, 48 kHz": choose_front_end("bands", 48_000),
}
FRONT_ENDS_TEXT = """\
## The signal front end

The front end computes 32 bands from int16 samples before the network reads them: mel bands of 25 ms every
10 ms, or bands of frames without overlap. Flash counts code and tables, RAM the stream with its buffers.
A hop is all the work from one frame to the next; the load is its share of a 64 MHz core, counted as
above. The codes on each target are those of Python. The ATmega328P has too little RAM.
"""
ORIGIN = "Written by `hadamrnn bench edge --out docs/edge.md`; do not edit."


@dataclass(frozen=True)
class EdgeRow:
    """The figures of one network on one target; None where a comparison cell has no such figure."""

    network: str
    target: str
    unit: str
    flash: int
    ram: int
    stack: int | None
    code: int
    step: int
    readout: int | None


def run_edge() -> tuple[list[EdgeRow], list[str]]:
    """Measure every target whose tools are installed; also return the skipped targets with the reasons."""
    rows, left_out = [], []
    for target in TARGETS:
        if target.missing_tools:
            left_out.append(f"{target.name}: no {', '.join(target.missing_tools)}")
            continue
        for name, network in NETWORKS.items():
            try:
                figures = measure(draw_model(network, name), target)
            except InputError as error:
                left_out.append(f"{name} on {target.name}: {_reason(error)}")
                continue
            if figures.differences:
                raise AssertionError(f"{name} on {target.name} is not bit-exact")
            shared = {each.name: getattr(figures, each.name) for each in fields(EdgeRow)[1:]}
            rows.append(EdgeRow(f"HadamRNN {name}", **shared))
        for rival in RIVALS:
            for hidden_size in RIVAL_SIZES:
                try:
                    rows.append(measure_rival(rival, hidden_size, target))
                except InputError as error:
                    left_out.append(f"{RIVALS[rival]} {hidden_size} on {target.name}: {_reason(error)}")
    return rows, left_out


def run_two_models() -> list[tuple[str, ...]]:
    """Measure two networks on a Cortex-M4 with specialised and shared code; no rows without its tools."""
    target = target_named("cortex-m4")
    if target.missing_tools:
        return []
    rows, totals = [], {"specialised": 0, "shared": 0}
    for number, name in enumerate(TWO_MODELS):
        model = draw_model(NETWORKS[name], name)
        alone, shared = measure(model, target), measure(model, target, shared=True)
        blob = len(ModelData(model).blob)
        totals["specialised"] += alone.flash
        totals["shared"] += blob + (shared.code if number == 0 else 0)
        rows.append((name, f"{alone.flash:,}", f"{alone.step:,}", f"{blob:,}", f"{shared.step:,}"))
    rows.append(("runtime", "-", "-", f"{shared.code:,}", "-"))
    return [*rows, ("together", f"{totals['specialised']:,}", "-", f"{totals['shared']:,}", "-")]


def run_front_ends() -> list[tuple[str, ...]]:
    """Measure the front ends on every target that has room for them and whose tools are installed."""
    rows = []
    for name, front_end in FRONT_ENDS.items():
        for found in measure_front_ends(front_end):
            if found.differences:
                raise AssertionError(f"{name} on {found.target} is not bit-exact")
            sizes = (found.flash, found.ram, found.stack, found.hop)
            milliseconds = found.hop / (AVR_KILOHERTZ if found.unit == "cycles" else KILOHERTZ)
            load = milliseconds * front_end.rate / front_end.hop / 1000
            rows.append((name, found.target, *(f"{size:,}" for size in sizes), f"{load:.1%}"))
    return rows


def measure_rival(rival: str, hidden_size: int, target: Board) -> EdgeRow:
    """Build a comparison cell and count one of its steps."""
    flags = ("-O2", f"-DHIDDEN={hidden_size}")
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        sources = files("hadamrnn_benchmarks") / "devices"
        for name in (f"{rival}.c", "main.c"):
            (folder / name).write_text((sources / name).read_text())
        counter = files("hadamrnn.export") / "runtime" / "counter.h"
        (folder / "counter.h").write_text(counter.read_text())
        cell = compile_object(target, folder / f"{rival}.c", flags)
        program = link(target, [cell, compile_object(target, folder / "main.c", flags)], folder / "a.elf")
        code, flash, _ = section_sizes(target, cell)
        step, base = numbers(run(target, program))
    tick = AVR_TICK if target.unit == "cycles" else CALIBRATION / base
    buffers = {"binary": 4 * hidden_size, "gru": 5 * hidden_size}[rival]  # the arrays in the cell's C file
    name = f"{RIVALS[rival]} {hidden_size}"
    return EdgeRow(name, target.name, target.unit, flash, buffers, None, code, round(step * tick), None)


def edge_page(
    rows: list[EdgeRow],
    left_out: list[str],
    two_models: Sequence[tuple[str, ...]] = (),
    front_ends: Sequence[tuple[str, ...]] = (),
) -> str:
    """Return the Markdown of the page."""
    lines = [INTRODUCTION]
    for target in TARGETS:
        mine = [row for row in rows if row.target == target.name]
        if not mine:
            continue
        unit = target.unit
        sizes = ("flash", "code", "RAM", "stack")
        header = ("network", *sizes, f"step, {unit}", f"read-out, {unit}", "step, ms")
        table = markdown_table(header, map(_cells, mine), numbers=7)
        lines += [f"## {target.name}", "", table, ""]
    if two_models:
        columns = ("network", "specialised flash", "step", "shared flash", "step")
        lines += [TWO_MODELS_TEXT, markdown_table(columns, two_models, numbers=4), ""]
    if front_ends:
        titles = ("front end", "target", "flash", "RAM", "stack", "hop, instructions", "load")
        lines += [FRONT_ENDS_TEXT, markdown_table(titles, front_ends, numbers=5), ""]
    if left_out:
        lines += ["## Left out", "", *(f"- {line}" for line in left_out), ""]
    return "\n".join([*lines, ORIGIN, ""])


def _cells(row: EdgeRow) -> tuple[str, ...]:
    figures = (row.flash, row.code, row.ram, row.stack, row.step, row.readout)
    counts = ("-" if figure is None else f"{figure:,}" for figure in figures)
    milliseconds = row.step / (AVR_KILOHERTZ if row.unit == "cycles" else KILOHERTZ)
    return row.network, *counts, f"{milliseconds:.2f}"


def _reason(error: InputError) -> str:
    """Return the reason why a program could not be built; linkers report a lack of memory in several ways."""
    too_big = ("overflowed", "region", "too large", "ld returned")
    return "does not fit" if any(word in str(error) for word in too_big) else str(error)[:120]
