"""Find tasks by name, with their loaders, recipes and public files. Start at `load_task`.

Nothing here imports torch until a task is loaded: the command line only reads the names.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn import packages
from hadamrnn.errors import InputError, check_name, short
from hadamrnn.settings import coerce, field_types

if TYPE_CHECKING:
    from hadamrnn.data.files import DataFile
    from hadamrnn.data.splits import Preparation, Splits

# The module in this package that defines each task.
LIBRARY = {
    "digits": "digits",
    "copy": "copy",
    "har2": "har",
    "har6": "har",
    "etth1": "ett",
    "etth2": "ett",
    "npz": "npz",
    "recordings": "recordings",
}
NOT_OPTIONS = {"data_dir", "preparation", "return"}

# Settings shared by several recipes. A recipe lists its differences from its preset's common settings. Preset
# paper has exactly the hyper-parameters of the paper's appendix, quick gives a first result in under two
# minutes on two cores, and best is the best recipe found.
Values = dict[str, Any]

# The paper gives no hyper-parameters for sensor tasks; these are MNIST's, with fewer epochs.
PAPER_SENSORS: Values = {"hidden_size": 512, "num_blocks": 2, "epochs": 100}

# Not in the paper: layers that leak at several rates with normalisation between them, and V that reads the
# mean and the maximum over all steps. On UCI HAR's held-out people (27 to 30), reading the maximum gains 2
# points for two layers of 64 units. A third layer, one layer of 256 units, noise, and random gains and
# offsets gain nothing.
STACK: Values = {
    "num_blocks": 8,
    "leak": (1, 2, 3, 4, 5, 6),
    "readouts": ("mean", "max"),
    "normalize": True,
    "learning_rate": 0.003,
    "gradient_clip": 1.0,
    "weight_average": 0.99,
}
SMALL_STACK: Values = {**STACK, "hidden_size": 64, "num_layers": 2, "epochs": 10}


@dataclass(frozen=True)
class Task:
    """A task; other packages offer tasks under the entry point group `hadamrnn.tasks`.

    Args:
        loader: returns the splits; its keyword arguments, except `data_dir`, are the task's options.
        recipes: the settings of each preset for this task.
        help: a few words that describe the task.
        files: its public files by name.
        adapt: returns the settings that the task's options change, in all recipes except the paper's.
    """

    loader: Callable[..., Splits]
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    help: str = ""
    files: Mapping[str, DataFile] = field(default_factory=dict)
    adapt: Callable[[Mapping[str, Any]], Values] | None = None

    @property
    def option_groups(self) -> dict[str, type[Any]]:
        """The loader's parameters that are dataclasses; their fields are options of the task."""
        return {
            name: kind
            for name, kind in field_types(self.loader).items()
            if name not in NOT_OPTIONS and isinstance(kind, type) and dataclasses.is_dataclass(kind)
        }

    @property
    def options(self) -> dict[str, Any]:
        """The declared types and ranges of the task's options."""
        groups = self.option_groups
        types: dict[str, Any] = {}
        for name, kind in field_types(self.loader).items():
            if name not in NOT_OPTIONS:
                types |= field_types(kind) if name in groups else {name: kind}
        return types


def task_names() -> tuple[str, ...]:
    """Return the names of all tasks, with this package's tasks first."""
    return tuple(dict.fromkeys((*LIBRARY, *packages.names(packages.TASKS))))


def find_task(name: str) -> Task:
    """Return a task by name; a task offered as a plain function has no recipes."""
    check_name("A task", name, task_names())
    if name in LIBRARY:
        found = getattr(import_module(f"hadamrnn.data.{LIBRARY[name]}"), name.upper())
    else:
        found = packages.load(packages.TASKS, name)
    return found if isinstance(found, Task) else Task(found)


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
        preparation: `Splits.preparation` from an earlier load, to use the same parts, classes and scaling.
            Data that have changed since are refused.
        options: the keyword arguments of the task's loader.

    >>> splits = load_task("copy", delay=5, sentence_length=2, train_size=3)
    >>> splits.train.batch(slice(None))[0].shape
    torch.Size([3, 9])
    """
    task = find_task(name)
    parameters = inspect.signature(task.loader).parameters
    arguments = {
        option: coerce(option, value, option_type(name, option)) for option, value in options.items()
    }
    for option, parameter in parameters.items():
        if parameter.default is parameter.empty and option not in options:
            raise InputError(f"The task {name} needs the option {option}, which is missing.")
    for option, group in task.option_groups.items():
        named = [each.name for each in dataclasses.fields(group) if each.name in arguments]
        arguments[option] = group(**{each: arguments.pop(each) for each in named})
    if "data_dir" in parameters:
        arguments["data_dir"] = data_dir
    if "preparation" in parameters:
        return task.loader(**arguments, preparation=preparation)
    from hadamrnn.data.splits import content_fingerprint

    splits = task.loader(**arguments)
    splits = dataclasses.replace(splits, fingerprint=content_fingerprint(splits))
    if preparation is not None:
        preparation.check(splits.fingerprint, f"the task {name}")
    return splits


def option_type(task: str, option: str) -> Any:
    """Return the declared type and range of an option of a task."""
    types = find_task(task).options
    if not types:
        raise InputError(f"The task {task} takes no options; got {short(option)}.")
    check_name(f"An option of the task {task}", option, types)
    return types[option]
