"""The command line: `hadamrnn COMMAND ...`.

One file per command in this folder. Each offers a `Command` called `run`, which imports what it needs when
it is called: `--help` stays quick and torch-free. Other packages offer theirs as entry points.
"""

from __future__ import annotations

import argparse
import importlib
import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from hadamrnn import plugins
from hadamrnn.cli.process import drop_unwritable_output, keep_freed_memory, let_waiting_threads_sleep
from hadamrnn.errors import InputError
from hadamrnn.interrupts import Interrupted

if TYPE_CHECKING:
    from _typeshed import SupportsWrite

COMMANDS = (
    *("train", "eval", "predict", "quantize", "export", "cost"),
    *("models", "search", "demo", "doctor"),
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; return its exit status: 0 success, 2 bad input, 130 or 143 after a signal."""
    name = "hadamrnn"
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a path or a label may hold what UTF-8 does not
    try:
        args = build_parser().parse_args(argv)
        name = f"hadamrnn {args.command}"
        keep_freed_memory()
        let_waiting_threads_sleep()
        status: int | None = args.run(args)
        print(end="", flush=True)  # a full disk shows here, not as a traceback at the interpreter's exit
    except KeyboardInterrupt as error:
        interrupted = error if isinstance(error, Interrupted) else Interrupted()
        print(f"{name}: {interrupted}", file=sys.stderr)
        return interrupted.status
    except BrokenPipeError:  # the reader (`| head`) has seen enough
        drop_unwritable_output()
        return 0
    except (InputError, OSError) as error:
        print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)  # one line, whatever it repeats
        drop_unwritable_output()
        return 2
    except (MemoryError, RuntimeError) as error:
        if not isinstance(error, MemoryError) and "allocate memory" not in str(error):  # torch's words
            raise
        print(f"{name}: out of memory. Try smaller batches, a smaller network or less data.", file=sys.stderr)
        return 2
    return status or 0


def build_parser() -> argparse.ArgumentParser:
    parser = OneLineParser(
        prog="hadamrnn",
        description="Recurrent networks that fit in kilobytes: train, quantize, export.",
        epilog="hadamrnn COMMAND --help shows the options of a command and an example.",
    )
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name in COMMANDS:
        importlib.import_module(f"hadamrnn.cli.{name}").run.add(subparsers, name)
    for name in plugins.names(plugins.COMMANDS):
        if name not in COMMANDS:
            _add_offered(subparsers, name)
    return parser


def _add_offered(subparsers: Any, name: str) -> None:
    """Add a command of another package; one that cannot be imported says so when it is run."""
    try:
        plugins.load(plugins.COMMANDS, name).add(subparsers, name)
    except InputError as error:
        broken = error

        def refuse(args: argparse.Namespace) -> NoReturn:
            raise broken

        # No character begins an option, so that any arguments lead to the refusal.
        parser = subparsers.add_parser(name, help="not available", prefix_chars="\0", add_help=False)
        parser.add_argument("arguments", nargs="*")
        parser.set_defaults(run=refuse)


class OneLineParser(argparse.ArgumentParser):
    """An argument parser whose errors take one line."""

    def print_help(self, file: SupportsWrite[str] | None = None) -> None:
        super().print_help(file)
        print(end="", flush=True)  # within `main`, as the output of a command is

    def error(self, message: str) -> NoReturn:
        print(f"{self.prog}: {' '.join(message.split())}. See {self.prog} --help.", file=sys.stderr)
        raise SystemExit(2)
