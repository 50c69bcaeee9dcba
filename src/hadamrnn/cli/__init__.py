"""The command line: `hadamrnn COMMAND ...`.

Each file in this folder defines one command as a `Command` called `run`, which imports its dependencies only
when called, so `--help` stays fast and needs no torch. Other packages add commands as entry points.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import io
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from hadamrnn import packages
from hadamrnn.errors import InputError, printable
from hadamrnn.interrupts import Interrupted

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = (
    *("train", "eval", "predict", "quantize", "export", "cost"),
    *("models", "search", "tune", "demo", "doctor"),
)
# Parameters of glibc's mallopt for its two thresholds.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 256 << 20
_LARGEST_BLOCK = 32 << 20  # glibc's limit
_SPINS = 20_000
_WAITING = ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY")


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 success, 2 bad input, 130 or 143 after a signal."""
    name = "hadamrnn"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # paths and labels need not be UTF-8
    try:
        args = build_parser().parse_args(argv)
        name = f"hadamrnn {args.command}"
        keep_freed_memory()
        let_waiting_threads_sleep()
        status: int | None = args.run(args)
        print(end="", flush=True)  # report a full disk here, not as a traceback when the interpreter exits
    except KeyboardInterrupt as error:
        interrupted = error if isinstance(error, Interrupted) else Interrupted()
        print(f"{name}: {interrupted}", file=sys.stderr)
        return interrupted.status
    except BrokenPipeError:  # the reader (`| head`) has closed the pipe
        drop_unwritable_output()
        return 0
    except (InputError, OSError) as error:
        print(f"{name}: {_line(str(error))}", file=sys.stderr)
        drop_unwritable_output()
        return 2
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):  # torch's message
            raise
        print(f"{name}: out of memory. Try smaller batches, a smaller network or less data.", file=sys.stderr)
        return 2
    return status or 0


def _line(message: str) -> str:
    """Put a message on one line and remove control characters, which paths and options may contain."""
    return printable(" ".join(message.split()))


def build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="hadamrnn",
        description="Train recurrent neural networks that fit in kilobytes, turn them into integers, and "
        "export them as C for a microcontroller.",
        epilog="hadamrnn COMMAND --help shows a command's options and examples.",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"hadamrnn.cli.{name}").run.add(subparsers, name)
    for name in packages.names(packages.COMMANDS):
        if name not in COMMANDS:
            _add_offered(subparsers, name)
    return parser


def _add_offered(subparsers: Any, name: str) -> None:
    """Add a command from another package; if the package cannot be imported, running the command says so."""
    try:
        packages.load(packages.COMMANDS, name).add(subparsers, name)
    except InputError as error:
        broken = error

        def refuse(args: argparse.Namespace) -> NoReturn:
            raise broken

        # Without a prefix character all arguments are positional, so any of them leads to the error message.
        parser = subparsers.add_parser(name, help="not available", prefix_chars="\0", add_help=False)
        parser.add_argument("arguments", nargs="*")
        parser.set_defaults(run=refuse)


class OneLineParser(argparse.ArgumentParser):
    """An argument parser with one-line errors."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        super().print_help(file)
        print(end="", flush=True)  # flush within `main`, like the output of a command

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {_line(message)}. See {self.prog} --help.", file=sys.stderr)
        raise SystemExit(2)


def let_waiting_threads_sleep() -> None:
    """Let torch's threads sleep after a tenth of a millisecond without work; GNU's OpenMP only.

    By default they spin 300,000 times (for milliseconds) on cores that the kernels' own threads need. With
    this, a step of the copy task takes 21 ms instead of 30 on two cores, and plain torch is as fast as
    before. Call this before torch is loaded. A setting made by the user is kept.
    """
    if not any(name in os.environ for name in _WAITING):
        os.environ["GOMP_SPINCOUNT"] = str(_SPINS)


def keep_freed_memory() -> None:
    """Let this process keep the memory that it frees, up to 256 MB; glibc only.

    Every training step frees all of its tensors and allocates them again. glibc would return the memory to
    the system in between, and the kernel would have to map and zero each page again, which costs 3 to 4 ms
    of a step that takes 40 (stack and copy in `hadamrnn bench training`, one thread).
    """
    if not sys.platform.startswith("linux"):
        return
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_TRIM_THRESHOLD, _KEPT_BYTES)
        set_option(_MMAP_THRESHOLD, _LARGEST_BLOCK)


def drop_unwritable_output() -> None:
    """Discard buffered output that cannot be written, because the interpreter would try again at exit."""
    try:
        print(end="", flush=True)
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
