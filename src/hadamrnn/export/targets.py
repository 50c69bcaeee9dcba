"""Run exported C: measure it on microcontrollers whose tools are installed, or get its classes on the host.

Cortex-M and RV32 run in QEMU, which counts executed instructions (not cycles); the ATmega328P runs in simavr,
which counts cycles. All tools are Debian packages; `missing_tools` lists those that are not installed.
`measure` finds flash, RAM, stack and the cost of a step. `classify_on_host` compiles the C for this machine
and reads the classes that it prints. Start reading at `measure`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError, check_name
from hadamrnn.export.c import (
    SHARED_RUNTIME,
    AnyModel,
    memory_plan,
    render,
    selftest_files,
    source_files,
)
from hadamrnn.export.golden import draw_golden
from hadamrnn.fixedpoint.integers import check_integers, signed_range
from hadamrnn.runtime import runtime_file
from hadamrnn.settings import check_int, check_shape

COMPILER = "cc"
NAME = "net"
STEPS = 8
CALIBRATION = 20_000  # in instructions, as in runtime/counter.h
AVR_TICK = 8  # in cycles
_TIMEOUT = 600  # in seconds, for a compiler or a program on this machine
_EMULATOR_TIMEOUT = 300
_QEMU = (
    *("-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=s0"),
    *("-semihosting-config", "enable=on,target=native,chardev=s0"),
    *("-icount", "shift=6,align=off,sleep=off", "-kernel"),
)
_PICOLIBC = "--specs=picolibc.specs"  # also selects its headers, so it is needed for compiling too
_SEMIHOST = ("--oslib=semihost", "--crt0=semihost")


@dataclass(frozen=True)
class Board:
    """One processor: how to compile for it and how to run the result."""

    name: str
    prefix: str  # prefix of the cross-compiler's tools
    flags: tuple[str, ...]
    link: tuple[str, ...]
    emulator: tuple[str, ...]
    unit: str  # unit of a step's cost: instructions, or cycles if the emulator counts them
    packages: tuple[str, ...]
    ram: int  # bytes

    @property
    def missing_tools(self) -> tuple[str, ...]:
        tools = (f"{self.prefix}gcc", f"{self.prefix}size", self.emulator[0])
        return tuple(tool for tool in tools if shutil.which(tool) is None)


@dataclass(frozen=True)
class Measurement:
    """The bytes of a network on a target, and the cost of one step and of one read-out."""

    target: str
    unit: str
    code: int  # bytes of .text
    flash: int  # code and constants
    ram: int  # state struct and work buffers
    logits: int  # bytes of the caller's buffer for a read-out
    stack: int  # bytes of stack for one step, work buffers included
    step: int
    readout: int
    differences: int  # outputs that differ from the golden vectors


def _arm(name: str, machine: str, flash: int, ram: int) -> Board:
    layout = (("__flash", 0), ("__flash_size", flash), ("__ram", 0x20000000), ("__ram_size", ram))
    return Board(
        name,
        "arm-none-eabi-",
        (f"-mcpu={name}", "-mthumb", _PICOLIBC),
        (*_SEMIHOST, *(f"-Wl,--defsym={symbol}={value:#x}" for symbol, value in layout)),
        ("qemu-system-arm", "-M", machine, *_QEMU),
        "instructions",
        ("gcc-arm-none-eabi", "picolibc-arm-none-eabi", "qemu-system-arm"),
        ram,
    )


TARGETS = (
    _arm("cortex-m0", "microbit", 0x40000, 0x4000),
    _arm("cortex-m3", "mps2-an385", 0x400000, 0x400000),
    _arm("cortex-m4", "mps2-an386", 0x400000, 0x400000),
    Board(
        "rv32imac",
        "riscv64-unknown-elf-",
        ("-march=rv32imac", "-mabi=ilp32", "-mcmodel=medany", _PICOLIBC),
        (
            *_SEMIHOST,
            *("-Wl,--defsym=__flash=0x80000000", "-Wl,--defsym=__flash_size=0x400000"),
            *("-Wl,--defsym=__ram=0x80400000", "-Wl,--defsym=__ram_size=0x400000"),
        ),
        ("qemu-system-riscv32", "-M", "virt", "-bios", "none", *_QEMU),
        "instructions",
        ("gcc-riscv64-unknown-elf", "picolibc-riscv64-unknown-elf", "qemu-system-misc"),
        0x400000,
    ),
    Board(
        "atmega328p",
        "avr-",
        ("-mmcu=atmega328p",),
        (),
        ("simavr", "-m", "atmega328p", "-f", "16000000"),
        "cycles",
        ("gcc-avr", "avr-libc", "simavr"),
        2048,
    ),
)


def target_named(name: str) -> Board:
    """Return the target of that name."""
    targets = {target.name: target for target in TARGETS}
    check_name("A target", name, targets)
    return targets[name]


def compile_object(target: Board, source: Path, flags: tuple[str, ...] = ("-O2",)) -> Path:
    """Compile one C file beside itself, with its stack usage; return the object file."""
    output = source.with_suffix(f".{target.name}.o")
    command = [f"{target.prefix}gcc", "-std=c99", *flags, *target.flags, "-fstack-usage", "-c", str(source)]
    _checked([*command, "-o", str(output)])
    return output


def link(target: Board, objects: list[Path], output: Path) -> Path:
    """Link objects to a program for the emulator."""
    _checked([f"{target.prefix}gcc", *target.flags, *target.link, *map(str, objects), "-o", str(output)])
    return output


def run(target: Board, program: Path) -> str:
    """Run a program in the emulator and return its output."""
    try:
        result = subprocess.run(
            [*target.emulator, str(program)],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_EMULATOR_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{target.name}: the emulator took more than {_EMULATOR_TIMEOUT} s.") from None
    return result.stdout + result.stderr


def numbers(output: str) -> list[int]:
    """Return the first line of numbers in an emulator's output; simavr adds colours and dots."""
    for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines():
        if re.fullmatch(r"\d+( \d+)*( \.+)?", line.strip()):
            return [int(word) for word in re.findall(r"\d+", line)]
    raise InputError(f"The emulator printed no figures: {output[-200:]!r}.")


def section_sizes(target: Board, compiled: Path) -> tuple[int, int, int]:
    """Return the bytes of code, of code and constants, and of mutable data of an object file."""
    text = _checked([f"{target.prefix}size", "-A", str(compiled)])
    rows = re.findall(r"^\.(\S+)\s+(\d+)\s+\d+$", text, re.MULTILINE)

    def total(*names: str) -> int:
        return sum(int(size) for name, size in rows if name.split(".")[0] in names)

    return total("text"), total("text", "rodata", "srodata", "progmem"), total("data", "bss", "sdata", "sbss")


def measure(
    model: AnyModel,
    target: Board,
    *,
    packed: bool = True,
    flags: tuple[str, ...] = ("-O2",),
    shared: bool = False,
) -> Measurement:
    """Build `model` for `target`, run its self-test and measure it; needs the target's tools.

    With `shared`, the code size is that of the shared runtime, and flash includes the network.
    """
    golden = draw_golden(model, sequences=2, time=STEPS)
    plan = memory_plan(model)
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        sources = source_files(model, NAME, packed=packed)
        for file, text in {**sources, **selftest_files(model, NAME, golden)}.items():
            (folder / file).write_text(text)
        device = folder / "device.c"
        device.write_text(render("device.c.j2", name=NAME, model=model))
        if shared:
            for file in SHARED_RUNTIME:
                (folder / file).write_text(runtime_file(file))
            flags = (*flags, "-DHADAMRNN_USE_SHARED")
        units = [f"{NAME}.c", *(SHARED_RUNTIME[:1] if shared else ())]
        objects = [compile_object(target, folder / unit, flags) for unit in units]
        harness = compile_object(target, device, flags)
        program = link(target, [harness, *objects], folder / "device.elf")
        code, flash, mutable = map(sum, zip(*(section_sizes(target, each) for each in objects), strict=True))
        stack = _step_stack(objects)
        static = section_sizes(target, program)[2]  # includes constants if flash cannot be read as memory
        needed = static + stack + sum(stack_frames(harness).values())
        if needed > target.ram:  # the linker does not check the stack
            raise InputError(
                f"{target.name}: data, stack and self-test take {needed} bytes, "
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
        step=round(step * tick / golden.inputs.shape[1]),
        readout=round(readout * tick),
        differences=differences,
    )


def try_measure(model: AnyModel, target: Board, *, packed: bool = True) -> Measurement | str:
    """Return the result of `measure`, or the reason why there is none."""
    if target.missing_tools:
        return f"no {', '.join(target.missing_tools)} (Debian: {' '.join(target.packages)})"
    try:
        return measure(model, target, packed=packed)
    except InputError as error:  # the C library is missing, or the network is too large for the target
        return str(error)


def _step_stack(compiled: list[Path]) -> int:
    """Return the deepest stack of a step: its own frames plus the largest frame among the passes it calls."""
    usage = {function: size for each in compiled for function, size in stack_frames(each).items()}
    way = [f"{NAME}_step", "hadamrnn_step", "hadamrnn_step_id", "hadamrnn_advance_all", "hadamrnn_layer_step"]
    way.append("hadamrnn_reservoir_group_step")
    passes = [size for function, size in usage.items() if re.search("_(pass|widen|drives)", function)]
    return sum(usage.get(function, 0) for function in way) + max(passes, default=0)


def stack_frames(compiled: Path) -> dict[str, int]:
    """Return the stack frame of every function of an object file, in bytes."""
    rows = (line.split("\t") for line in compiled.with_suffix(".su").read_text().splitlines())
    return {row[0].rsplit(":", 1)[1]: int(row[1]) for row in rows}


def measure_all(model: AnyModel, *, packed: bool = True) -> tuple[list[Measurement], dict[str, str]]:
    """Return a measurement for every available target, and the reason for every other one."""
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


def classify_on_host(model: AnyModel, inputs: ArrayLike) -> NDArray[np.int64]:
    """Return the class that compiled C predicts for each sequence; needs a C compiler.

    Args:
        inputs: raw codes `(batch, time, input_size)` for dense models, ids `(batch, time)` for others.
    """
    sequences = _checked_sequences(model, np.asarray(inputs))
    if not has_compiler():
        raise InputError(f"Running C needs a C compiler, and there is no {COMPILER}. Install gcc or clang.")
    with tempfile.TemporaryDirectory(prefix="hadamrnn-") as scratch:
        folder = Path(scratch)
        for file, text in source_files(model, NAME).items():
            (folder / file).write_text(text)
        (folder / "host.c").write_text(render("host.c.j2", name=NAME, model=model))
        _checked([COMPILER, "-std=c99", "-O2", f"{NAME}.c", "host.c", "-o", "host"], folder)
        text = " ".join(map(str, sequences.reshape(-1).tolist()))
        printed = _checked([str(folder / "host"), str(sequences.shape[1])], folder, text)
    return np.array(printed.split(), np.int64)


def _checked_sequences(model: AnyModel, sequences: NDArray[Any]) -> NDArray[Any]:
    """Check that `sequences` have the shape that the C expects, since the C cannot check it."""
    dense, shape = model.input_kind == "dense", sequences.shape
    channels = (model.input_size,) if dense else ()
    check_shape("Sequences", sequences, "batch", "time", *channels)
    check_int("The number of steps", shape[1], 1, model.longest or max(shape[1], 1))
    check_integers(
        "Sequences", sequences, shape, signed_range(32) if dense else (0, model.vocabulary_size - 1)
    )
    return sequences


def _checked(command: list[str], folder: Path | None = None, text: str = "") -> str:
    """Run a command in a folder with `text` as its input; return its output, or raise if it fails."""
    result = subprocess.run(
        command, cwd=folder, input=text, capture_output=True, text=True, timeout=_TIMEOUT, check=False
    )
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        first = next((line for line in lines if "rror: " in line or "overflowed" in line), lines[0])
        raise InputError(f"{Path(command[0]).name} failed: {first[:300]}")
    return result.stdout
