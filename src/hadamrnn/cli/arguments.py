"""Types of command-line values that several commands share."""

from __future__ import annotations

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hadamrnn.errors import InputError
from hadamrnn.training.config import OPTIONS, parse_value

TASK_HELP = "copy, smnist, pmnist, imdb, sst2, qqp, har2, dsa19, digits, or your own arrays: FILE.npz"


def add_settings(group: Any, names: Iterable[str]) -> None:
    """Make an option of each of these settings; `read_settings` reads them back."""
    for name in names:
        setting, flag = OPTIONS[name], "--" + name.replace("_", "-")
        help = setting.metadata["help"]
        if setting.type == "bool":
            group.add_argument(flag, action=argparse.BooleanOptionalAction, default=None, help=help)
        else:
            group.add_argument(flag, metavar="X", help=help)


def read_settings(args: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
    """Return those of the settings that were given, as values of their type."""
    found = {name: getattr(args, name) for name in names}
    return {
        name: parse_value(name, value) if isinstance(value, str) else value
        for name, value in found.items()
        if value is not None
    }


def add_json_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of text")


def add_run_argument(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run_folder", metavar="RUN", help="folder that `hadamrnn train` wrote")


def add_data_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--data-dir", metavar="DIR", help="where data sets are; default HADAMRNN_DATA, else the user's cache"
    )


def add_threads_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--threads", type=positive, metavar="N", help="CPU threads; default torch's choice")


def positive(text: str) -> int:
    """Parse a whole number of 1 or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of 1 or more, got {text!r}")
    return int(text)


def add_model_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of this kind of network alone, as recurrent_rank=16 for fastgrnn; may be repeated",
    )


def add_task_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--task-option",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="an option of the task's loader, as delay=200 for copy; may be repeated",
    )


def parse_task(task: str | None, texts: list[str]) -> tuple[str | None, dict[str, object]]:
    """Return a task and its loader's options; FILE.npz is the task npz with that path."""
    options = parse_options("--task-option", texts)
    if task is not None and task.endswith(".npz"):
        task, options = "npz", {"path": task, **options}
    if "path" in options:  # a run is also read from other folders
        options["path"] = str(Path(str(options["path"])).resolve())
    return task, options


def parse_options(flag: str, texts: list[str]) -> dict[str, object]:
    """Return the names and values of a repeated NAME=VALUE."""
    import yaml

    options: dict[str, object] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"{flag} must be NAME=VALUE, got {text!r}.")
        options[name] = yaml.safe_load(value)
    return options
