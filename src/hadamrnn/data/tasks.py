"""The tasks by name: those of this package, and those that other packages offer."""

from __future__ import annotations

import dataclasses
import inspect
from pathlib import Path
from typing import Any

from hadamrnn import plugins
from hadamrnn.data.copy import COPY
from hadamrnn.data.digits import DIGITS
from hadamrnn.data.ett import ETTH1, ETTH2
from hadamrnn.data.har import HAR2, HAR6
from hadamrnn.data.npz import NPZ
from hadamrnn.data.recordings import RECORDINGS
from hadamrnn.data.speech import GOOGLE12
from hadamrnn.data.splits import Preparation, Splits, content_fingerprint
from hadamrnn.data.task import Loader, Task
from hadamrnn.errors import InputError, check_name, short
from hadamrnn.settings import coerce, field_types

LIBRARY: dict[str, Task] = {
    "copy": COPY,
    "har2": HAR2,
    "har6": HAR6,
    "google12": GOOGLE12,
    "etth1": ETTH1,
    "etth2": ETTH2,
    "digits": DIGITS,
    "npz": NPZ,
    "recordings": RECORDINGS,
}


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, this package's first."""
    return tuple(dict.fromkeys((*LIBRARY, *plugins.names(plugins.TASKS))))


def find_task(name: str) -> Task:
    """Return a task by name; one that is offered as a plain function has no recipes."""
    check_name("A task", name, task_names())
    found = LIBRARY[name] if name in LIBRARY else plugins.load(plugins.TASKS, name)
    return found if isinstance(found, Task) else Task(found)


NOT_OPTIONS = {"data_dir", "preparation", "return"}


def load_task(
    name: str,
    data_dir: str | Path | None = None,
    preparation: Preparation | None = None,
    /,
    **options: object,
) -> Splits:
    """Return the splits of the task `name`.

    Args:
        name: one of `task_names()`.
        data_dir: folder with the task's files; by default `HADAMRNN_DATA`, else the user's cache
            folder, into which missing files are downloaded. Ignored by tasks without files.
        preparation: `Splits.preparation` of an earlier load: the same parts, classes and scaling are used.
            Data that have changed since are refused.
        options: the keyword arguments of the task's loader.

    >>> splits = load_task("copy", delay=5, sentence_length=2, train_size=3)
    >>> splits.train.batch(slice(None))[0].shape
    torch.Size([3, 9])
    """
    loader = find_task(name).loader
    parameters = inspect.signature(loader).parameters
    arguments: dict[str, Any] = {}
    for option, value in options.items():
        arguments[option] = coerce(option, value, option_type(name, option))
    for option, parameter in parameters.items():
        if parameter.default is parameter.empty and option not in options:
            raise InputError(f"The task {name} needs the option {option}, which is missing.")
    for option, group in option_groups(loader).items():
        named = [each.name for each in dataclasses.fields(group) if each.name in arguments]
        fields = {each: arguments.pop(each) for each in named}
        arguments[option] = group(**fields)
    if "data_dir" in parameters:
        arguments["data_dir"] = data_dir
    if "preparation" in parameters:
        return loader(**arguments, preparation=preparation)
    splits = loader(**arguments)
    splits = dataclasses.replace(splits, fingerprint=content_fingerprint(splits))
    if preparation is not None:
        preparation.check(splits.fingerprint, f"the task {name}")
    return splits


def option_groups(loader: Loader) -> dict[str, type[Any]]:
    """Return the parameters of a loader that are dataclasses: their fields are options of the task."""
    return {
        name: kind
        for name, kind in field_types(loader).items()
        if name not in NOT_OPTIONS and isinstance(kind, type) and dataclasses.is_dataclass(kind)
    }


def option_types(task: str) -> dict[str, Any]:
    """Return the declared types and ranges of a task's options."""
    loader = find_task(task).loader
    groups = option_groups(loader)
    types: dict[str, Any] = {}
    for name, kind in field_types(loader).items():
        if name not in NOT_OPTIONS:
            types |= field_types(kind) if name in groups else {name: kind}
    return types


def option_type(task: str, option: str) -> Any:
    """Return the declared type and range of an option of a task."""
    types = option_types(task)
    if not types:
        raise InputError(f"The task {task} takes no options; got {short(option)}.")
    check_name(f"An option of the task {task}", option, types)
    return types[option]
