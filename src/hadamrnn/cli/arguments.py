"""Derive the options of commands from dataclasses: each field is an option with a checked type and range.

A command is a function `run`, decorated by `command`, that takes a frozen dataclass. Fields from `positional`
have no dashes; a tuple takes several values; a bool is a switch.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import shutil
import textwrap
import typing
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from hadamrnn.data.options import HeldOutFiles, RecordingOptions
from hadamrnn.data.tasks import find_task, option_type, task_names
from hadamrnn.errors import InputError, short
from hadamrnn.settings import Range, Threads, field_types, option, read_scalar, read_text
from hadamrnn.training.config import OPTIONS, SETTING_TYPES

MODEL_HELP = "kind of network: hadamrnn (default), or a kind from an installed package"
MODEL_OPTION_HELP = "an option that only this --model has, such as recurrent_rank=16 for fastgrnn"
TASK_OPTION_HELP = "an option that only this task has, such as delay=200 for copy"
LAYOUT_HELP = (
    "axes of x in FILE: time-first (n, time, channels) or channels-first (n, channels, time) "
    "(default: as in the training data)"
)
Minutes = Annotated[float, Range(0, 1e6, "(]")]


def positional(metavar: str, help: str, default: Any = dataclasses.MISSING) -> Any:
    """Return a dataclass field for an argument without dashes, optional if it has a default."""
    return field(default=default, metadata={"metavar": metavar, "help": help})


def task_argument(**default: Any) -> Any:
    """Return a dataclass field for the argument TASK: the name of a task, or a file of the user."""
    public = [name for name in task_names() if name not in ("npz", "recordings")]
    help = (
        f"your own data: FILE.npz with arrays; recordings in FILE.csv, FILE.tsv, FILE.parquet, FILE.wav or a "
        f"folder of them; or a public task: {', '.join(public)}"
    )
    return positional("TASK", help, **default)


def repeated(help: str, metavar: str = "NAME=VALUE") -> Any:
    """Return a dataclass field for an option that may be repeated; its values form a tuple."""
    return field(default=(), metadata={"repeat": metavar, "help": f"{help}; may be repeated"})


@dataclass(frozen=True, kw_only=True)
class JsonOption:
    """The option --json of every command that prints figures."""

    json: bool = option(False, "print JSON instead of text")

    def show(self, figures: Any, *lines: str) -> None:
        """Print the figures as JSON with --json, otherwise the lines."""
        print(json.dumps(figures) if self.json else "\n".join(lines))


@dataclass(frozen=True, kw_only=True)
class DataFolder:
    """The option --data-dir, the folder with a task's files."""

    data_dir: Path | None = option(
        None, "folder of the public data sets (default: HADAMRNN_DATA, else the user's cache)"
    )


@dataclass(frozen=True, kw_only=True)
class OwnData(RecordingOptions, HeldOutFiles):
    """Options for reading a user's own data, and for held-out files."""


@dataclass(frozen=True, kw_only=True)
class DataOptions(DataFolder):
    """The options of every command that uses a task's data."""

    threads: Threads | None = option(None, "CPU threads (default: torch's choice)")


@dataclass(frozen=True)
class Command:
    """A command, made by `command`. One with subcommands has `parts` instead of `run`."""

    run: Callable[..., int | None] | None
    help: str
    description: str
    examples: Sequence[str]
    settings: Sequence[str] = ()
    group: str = ""
    common: Sequence[str] = ()
    parts: dict[str, Command] = field(default_factory=dict)

    @property
    def options(self) -> type[Any]:
        declared: type[Any] = next(iter(field_types(self.run).values()))
        return declared

    def add(self, subparsers: Any, name: str) -> None:
        width = max(shutil.get_terminal_size().columns - 2, 11)  # the width at which argparse wraps
        parser = subparsers.add_parser(
            name,
            help=self.help,
            description=textwrap.fill(self.description, width),
            epilog="\n  ".join(("examples:", *self.examples)),
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        run = self.run
        if run is None:
            choices = parser.add_subparsers(dest=name, metavar="WHAT", required=True)
            for part, its_command in self.parts.items():
                its_command.add(choices, part)
            return
        added = _add_fields(parser, dataclasses.fields(self.options), field_types(self.options))
        group = parser.add_argument_group(self.group) if self.group else parser
        settings = [OPTIONS[each] for each in self.settings]
        added += _add_fields(group, settings, SETTING_TYPES, both_ways=True)
        if self.common:
            HelpAll.hide(parser, [each for each in added if each.dest not in self.common])
        parser.set_defaults(run=lambda args: run(*self.read(args)))

    def read(self, args: argparse.Namespace) -> tuple[Any, ...]:
        """Parse the function's arguments: the dataclass of its options, and the given settings."""
        given = _given(args, dataclasses.fields(self.options), field_types(self.options))
        settings = _given(args, [OPTIONS[each] for each in self.settings], SETTING_TYPES)
        return (self.options(**given), *([settings] if self.settings else []))


def command(**declared: Any) -> Callable[[Callable[..., int | None]], Command]:
    """Return a decorator that makes a function a command; the function takes a dataclass of options.

    Args:
        help, description, examples: texts for --help.
        settings: names of run settings that also become options; the function receives the given ones as
            its second argument.
        group: the heading of the settings in --help.
        common: names of the options that --help lists; --help-all lists the rest. If empty, --help lists all.
    """
    return lambda run: Command(run, **declared)


class HelpAll(argparse.Action):
    """The option --help-all, which also lists the options that --help omits."""

    hidden: dict[argparse.Action, str | None]

    @staticmethod
    def hide(parser: argparse.ArgumentParser, actions: Sequence[argparse.Action]) -> None:
        """Omit these options from --help."""
        everything = parser.add_argument(
            "--help-all", action=HelpAll, nargs=0, default=argparse.SUPPRESS, help="list all options and exit"
        )
        assert isinstance(everything, HelpAll)
        everything.hidden = {each: each.help for each in actions if each.option_strings}
        for each in everything.hidden:
            each.help = argparse.SUPPRESS

    def __call__(self, parser: argparse.ArgumentParser, *arguments: object) -> None:
        for action, text in self.hidden.items():
            action.help = text
        parser.print_help()
        print("\ntasks:", *_task_lines(), sep="\n")
        parser.exit()


def _task_lines() -> list[str]:
    """Return a line for each task: its name, a description, and the names of its options."""
    lines = []
    for name in task_names():
        task = find_task(name)
        options = f" (--task-option {', '.join(task.options)})" if task.options else ""
        lines.append(f"  {name:12}{task.help}{options}")
    return lines


def flag(name: str) -> str:
    """Return the spelling of an option on the command line."""
    return "--" + name.replace("_", "-")


def check_unused(options: Any, where: str, *names: str, settings: Iterable[str] = ()) -> None:
    """Refuse given options that would be ignored; `where` describes the situation, such as "with --list".

    `settings` are the names of given settings, all of which would be ignored.
    """
    known = {each.name: each for each in dataclasses.fields(options)}
    for name in (*(name for name in names if getattr(options, name) != known[name].default), *settings):
        shown = known[name].metadata.get("metavar") if name in known else None
        raise InputError(f"{shown or flag(name)} has no effect {where}. Leave it out.")


def check_only(options: Any, where: str, *names: str, settings: Iterable[str] = ()) -> None:
    """Refuse any given option that is not among these."""
    others = [each.name for each in dataclasses.fields(options) if each.name not in names]
    check_unused(options, where, *others, settings=settings)


def check_output(name: str, path: Path | None, beginning: str | None = None) -> None:
    """Before any work is done, refuse an output file that cannot be written.

    Args:
        name: name of the option.
        beginning: an existing file is replaced only if it starts with this text; None replaces any file.
    """
    if path is None:
        return
    if not path.parent.is_dir() or (path.exists() and not path.is_file()):
        raise InputError(f"{name} must name a file in an existing folder, got {path}.")
    if beginning is not None and path.exists():
        with path.open("rb") as file:
            found = file.read(len(beginning))
        if found not in (b"", beginning.encode()):
            raise InputError(f"{name} replaces only what this command wrote, and {path} is another file.")


def _add_fields(
    parser: Any, fields: Iterable[dataclasses.Field[Any]], types: dict[str, Any], both_ways: bool = False
) -> list[argparse.Action]:
    """Add an option for each field, without a default; with `both_ways` a bool also gets --no-NAME."""
    added = []
    for each in fields:
        name, hint = flag(each.name), types[each.name]
        needed = each.default is dataclasses.MISSING
        form: dict[str, Any]
        if "metavar" in each.metadata:
            name, form = each.name, {"metavar": each.metadata["metavar"], "nargs": None if needed else "?"}
        elif hint is bool:
            form = {"action": argparse.BooleanOptionalAction if both_ways else "store_true"}
        elif "repeat" in each.metadata:
            form = {"metavar": each.metadata["repeat"], "action": "append"}
        elif typing.get_origin(hint) is tuple:
            form = {"metavar": _metavar(hint), "nargs": "+", "action": "extend"}
        else:
            form = {"metavar": _metavar(hint), "required": needed}
        added.append(parser.add_argument(name, help=each.metadata["help"], default=argparse.SUPPRESS, **form))
    return added


def _metavar(hint: Any) -> str:
    """Return the placeholder for a value in help: N for an integer, X for another number, PATH for a file.

    >>> _metavar(Threads | None), _metavar(Path), _metavar(float), _metavar(int | str)
    ('N', 'PATH', 'X', 'NAME')
    """
    shown = str(hint)
    names = {"Literal": "NAME", "str": "NAME", "Path": "PATH", "int": "N", "float": "X"}
    return next((metavar for kind, metavar in names.items() if kind in shown), "X")


def _given(
    args: argparse.Namespace, fields: Iterable[dataclasses.Field[Any]], types: dict[str, Any]
) -> dict[str, Any]:
    """Return the values of the given options, parsed by their types."""
    given: dict[str, Any] = {}
    for each in fields:
        value = vars(args).get(each.name)
        name = each.metadata.get("metavar") or flag(each.name)
        if isinstance(value, str):
            given[each.name] = read_text(name, value, types[each.name])
            if given[each.name] == "":
                raise InputError(f"{name} must not be empty. Give it a value, or leave it out.")
        elif isinstance(value, list) and "repeat" not in each.metadata:  # --leak 1 2 3 or 1,2,3
            given[each.name] = read_text(name, ",".join(value), types[each.name])
        elif isinstance(value, list):
            kind = typing.get_args(types[each.name])[0]
            given[each.name] = tuple(read_text(name, text, kind) for text in value)
        elif value is not None:
            given[each.name] = value
    return given


def parse_task(task: str | None, texts: Iterable[str], own: OwnData) -> tuple[str | None, dict[str, object]]:
    """Return the name of a task and its options.

    FILE.npz is the task npz with that path; a table, a folder, or an npz file with options of recordings
    is the task recordings.
    """
    recordings, files = own.given(), own.given_files()
    if set(recordings) == {"rate"} and _kind_of_file(task, False) != "recordings" and task is not None:
        recordings = {}  # without features, the rate is an option of the device
    named = split_options("--task-option", texts)
    kind = _kind_of_file(task, bool(recordings))
    if kind is not None:
        if "path" in named:
            raise InputError(f"TASK is the path, {short(task)}. Leave --task-option path= out.")
        task, named = kind, {"path": str(task), **named}
    if recordings and task != "recordings":
        raise InputError(
            f"{flag(next(iter(recordings)))} says how to read recordings: TASK must be a .csv, .tsv, "
            f".parquet or .npz file, or a folder, got {'none' if task is None else short(task)}."
        )
    if files and task not in ("npz", "recordings"):
        raise InputError(
            f"{flag(next(iter(files)))} is for data of your own: {short(task)} has its own parts."
        )
    if not named:
        return task, {}
    if task is None:  # the configuration file names the task; the loader checks the values
        return None, {name: read_scalar(text) for name, text in named.items()}
    options = {name: read_text(name, text, option_type(task, name)) for name, text in named.items()}
    if "path" in options:  # store an absolute path: the run may be opened from another folder
        options["path"] = str(options["path"].resolve())
    return task, {**options, **recordings, **files}


def _kind_of_file(task: str | None, recorded: bool) -> str | None:
    """Return the name of the task that reads this kind of file or folder; None for anything else."""
    if task is None:
        return None
    from hadamrnn.data.tables import SUFFIXES

    suffix = Path(task).suffix.lower()
    if suffix == ".npz":
        return "recordings" if recorded else "npz"
    if suffix in SUFFIXES:
        return "recordings"
    return "recordings" if task not in task_names() and "\0" not in task and Path(task).is_dir() else None


def parse_options(option_name: str, texts: Iterable[str]) -> dict[str, object]:
    """Return the names and values of a repeated NAME=VALUE whose types are not declared."""
    return {name: read_scalar(value) for name, value in split_options(option_name, texts).items()}


def split_options(option_name: str, texts: Iterable[str]) -> dict[str, str]:
    """Return the names and texts of a repeated NAME=VALUE; if a name is repeated, the last value wins."""
    options: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise InputError(f"{option_name} must be NAME=VALUE, got {short(text)}.")
        options[name] = value
    return options


def set_threads(threads: int | None) -> None:
    if threads is not None:
        import torch

        torch.set_num_threads(threads)
