"""The exported C at work: what it takes on each target whose tools are installed, and its answers here.

`measure` finds flash, RAM, stack and the cost of a step; `classify_on_host` reads the classes that it prints.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.export.c import render, selftest_files, source_files
from hadamrnn.export.golden import draw_golden
from hadamrnn.export.plan import make_plan
from hadamrnn.export.targets import (
    AVR_TICK,
    CALIBRATION,
    TARGETS,
    Measurement,
    Target,
    compile_object,
    link,
    numbers,
    run,
    section_sizes,
    stack_usage,
)
from hadamrnn.fixedpoint.model import IntegerModel

COMPILER = "cc"
NAME = "net"
TIMEOUT = 600  # seconds
STEPS = 8


def measure(
    model: IntegerModel,
    target: Target,
    *,
    packed: bool = True,
    flags: tuple[str, ...] = ("-O2",),
) -> Measurement:
    """Build `model` for `target`, run its self-test there, count; needs the target's tools."""
    golden = draw_golden(model, sequences=2, time=STEPS)
    plan = make_plan(model)
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        sources = source_files(model, NAME, packed=packed)
        for file, text in {**sources, **selftest_files(model, NAME, golden)}.items():
            (folder / file).write_text(text)
        device = folder / "device.c"
        device.write_text(render("device.c.j2", name=NAME, model=model))
        network = compile_object(target, folder / f"{NAME}.c", flags)
        program = link(target, [compile_object(target, device, flags), network], folder / "device.elf")
        code, flash, mutable = section_sizes(target, network)
        stack = _step_stack(stack_usage(network), NAME)
        if plan.state_bytes + stack > target.ram:  # no linker knows of the stack
            raise InputError(
                f"{target.name}: state and stack take {plan.state_bytes + stack} bytes, "
                f"too large for its {target.ram} bytes of RAM."
            )
        differences, step, readout, base = numbers(run(target, program))
    if mutable:
        raise InputError(f"An export keeps no mutable data, {target.name} found {mutable} bytes.")
    tick = AVR_TICK if target.unit == "cycles" else CALIBRATION / base
    return Measurement(
        target=target.name,
        unit=target.unit,
        code=code,
        flash=flash,
        ram=plan.state_bytes + plan.work_bytes,
        logits=4 * model.output_size,
        stack=stack,
        step=round(step * tick / STEPS),
        readout=round(readout * tick),
        differences=differences,
    )


def try_measure(model: IntegerModel, target: Target, *, packed: bool = True) -> Measurement | str:
    """Return what `measure` finds, or why it cannot: tools are missing, or there but unable."""
    if target.missing_tools:
        return f"no {', '.join(target.missing_tools)} (Debian: {' '.join(target.packages)})"
    try:
        return measure(model, target, packed=packed)
    except InputError as error:  # a compiler without its C library, a network too large for the target
        return str(error)


def _step_stack(usage: dict[str, int], name: str) -> int:
    """Return the deepest stack of a step: its own frame and its helpers', a factor calling one more."""
    public = {f"{name}_{part}" for part in ("init", "encode", "step", "logits", "classify", "logit")}
    inner, outer = 0, 0
    for function, size in usage.items():
        if function.startswith((f"{name}_conference", f"{name}_row")):
            inner = max(inner, size)
        elif function not in public:
            outer = max(outer, size)
    return usage[f"{name}_step"] + outer + inner


def measure_all(model: IntegerModel, *, packed: bool = True) -> tuple[list[Measurement], dict[str, str]]:
    """Return a measurement for every target that can be, and for every other one why not."""
    rows, skipped = [], {}
    for target in TARGETS:
        found = try_measure(model, target, packed=packed)
        if isinstance(found, str):
            skipped[target.name] = found
        else:
            rows.append(found)
    return rows, skipped


def has_compiler() -> bool:
    return shutil.which(COMPILER) is not None


def classify_on_host(model: IntegerModel, inputs: ArrayLike, *, packed: bool = True) -> NDArray[np.int64]:
    """Return the class that the compiled C finds for each sequence; needs a C compiler.

    Args:
        inputs: raw codes `(batch, time, input_size)` for dense models, `(batch, time)` ids for the others.
    """
    sequences: NDArray[Any] = np.asarray(inputs)
    if sequences.dtype.kind not in "iu" or sequences.ndim != (3 if model.input_kind == "dense" else 2):
        raise InputError(
            f"Sequences must be integer codes (batch, time, ...), got {sequences.dtype} of {sequences.shape}."
        )
    if not has_compiler():
        raise InputError(f"Running C needs a C compiler, and there is no {COMPILER}. Install gcc or clang.")
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        for file, text in source_files(model, NAME, packed=packed).items():
            (folder / file).write_text(text)
        (folder / "host.c").write_text(render("host.c.j2", name=NAME, model=model))
        _run([COMPILER, "-std=c99", "-O2", f"{NAME}.c", "host.c", "-o", "host"], folder)
        text = " ".join(map(str, sequences.reshape(-1).tolist()))
        printed = _run([str(folder / "host"), str(sequences.shape[1])], folder, text)
    return np.array(printed.split(), np.int64)


def _run(command: list[str], folder: Path, text: str = "") -> str:
    result = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if result.returncode:
        raise InputError(f"{Path(command[0]).name} failed: {result.stderr.strip()[:300] or 'no message'}.")
    return result.stdout
