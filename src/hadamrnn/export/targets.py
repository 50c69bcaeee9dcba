"""Microcontrollers by their cross-compiler and emulator: build an exported folder, run it, measure it.

Cortex-M and RV32 run in QEMU, where executed instructions are counted (they are not cycles); the
ATmega328P runs in simavr, which counts cycles. All tools are Debian packages; `missing_tools` names those
that are not installed. Start reading at `measure`.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hadamrnn.errors import InputError

CALIBRATION = 20_000  # instructions, in runtime/counter.h
AVR_TICK = 8  # cycles
_TIMEOUT = 300  # seconds
_QEMU = (
    *("-display", "none", "-monitor", "none", "-serial", "none", "-chardev", "stdio,id=s0"),
    *("-semihosting-config", "enable=on,target=native,chardev=s0"),
    *("-icount", "shift=6,align=off,sleep=off", "-kernel"),
)
_PICOLIBC = "--specs=picolibc.specs"  # names its headers too, so it belongs to compiling as well
_SEMIHOST = ("--oslib=semihost", "--crt0=semihost")


@dataclass(frozen=True)
class Target:
    """One processor: how to compile for it and how to run the result."""

    name: str
    prefix: str  # of the cross tools
    flags: tuple[str, ...]
    link: tuple[str, ...]
    emulator: tuple[str, ...]
    unit: str  # of a step: instructions, or cycles where the emulator counts them
    packages: tuple[str, ...]
    ram: int  # bytes

    @property
    def missing_tools(self) -> tuple[str, ...]:
        tools = (f"{self.prefix}gcc", f"{self.prefix}size", self.emulator[0])
        return tuple(tool for tool in tools if shutil.which(tool) is None)


@dataclass(frozen=True)
class Measurement:
    """What a network takes on a target: bytes, and the cost of one step and of one read-out."""

    target: str
    unit: str
    code: int  # bytes of .text
    flash: int  # code and constants
    ram: int  # state struct and work buffers
    logits: int  # bytes of the caller's buffer for a read-out
    stack: int  # of a step, work buffers included
    step: int
    readout: int
    differences: int  # from the golden vectors


def _arm(name: str, machine: str, flash: int, ram: int) -> Target:
    layout = (("__flash", 0), ("__flash_size", flash), ("__ram", 0x20000000), ("__ram_size", ram))
    return Target(
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
    Target(
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
    Target(
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


def target_named(name: str) -> Target:
    """Return the target of that name."""
    for target in TARGETS:
        if target.name == name:
            return target
    raise InputError(f"A target is one of {', '.join(t.name for t in TARGETS)}, got {name!r}.")


def compile_object(target: Target, source: Path, flags: tuple[str, ...] = ("-O2",)) -> Path:
    """Compile one C file beside itself, with its stack usage; return the object file."""
    output = source.with_suffix(f".{target.name}.o")
    command = [f"{target.prefix}gcc", "-std=c99", *flags, *target.flags, "-fstack-usage", "-c", str(source)]
    _checked([*command, "-o", str(output)])
    return output


def link(target: Target, objects: list[Path], output: Path) -> Path:
    """Link objects to a program for the emulator."""
    _checked([f"{target.prefix}gcc", *target.flags, *target.link, *map(str, objects), "-o", str(output)])
    return output


def run(target: Target, program: Path) -> str:
    """Run a program in the emulator; return what it prints."""
    try:
        result = subprocess.run(
            [*target.emulator, str(program)],
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise InputError(f"{target.name}: the emulator took more than {_TIMEOUT} s.") from None
    return result.stdout + result.stderr


def numbers(output: str) -> list[int]:
    """Return the first line of plain numbers in an emulator's output; simavr colours it and adds dots."""
    for line in re.sub(r"\x1b\[[0-9;]*m", "", output).splitlines():
        if re.fullmatch(r"(\d+ )+\.*", line.strip() + " ") or re.fullmatch(r"(\d+ )+\.+", line.strip()):
            return [int(word) for word in re.findall(r"\d+", line)]
    raise InputError(f"The emulator printed no figures: {output[-200:]!r}.")


def section_sizes(target: Target, compiled: Path) -> tuple[int, int, int]:
    """Return the bytes of code, of code and constants, and of mutable data of an object file."""
    text = _checked([f"{target.prefix}size", "-A", str(compiled)])
    rows = re.findall(r"^\.(\S+)\s+(\d+)\s+\d+$", text, re.MULTILINE)

    def total(*names: str) -> int:
        return sum(int(size) for name, size in rows if name.split(".")[0] in names)

    return total("text"), total("text", "rodata", "srodata", "progmem"), total("data", "bss", "sdata", "sbss")


def stack_usage(compiled: Path) -> dict[str, int]:
    """Return the bytes of stack of every function of an object file."""
    rows = (line.split("\t") for line in compiled.with_suffix(".su").read_text().splitlines())
    return {row[0].rsplit(":", 1)[1]: int(row[1]) for row in rows}


def _checked(command: list[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT)
    if result.returncode:
        lines = result.stderr.strip().splitlines() or ["no message"]
        first = next((line for line in lines if "rror: " in line or "overflowed" in line), lines[0])
        raise InputError(f"{command[0]} failed: {first[:300]}")
    return result.stdout
