"""A task: how its data are loaded, which files it needs, how a network is trained on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hadamrnn.data.files import DataFile
from hadamrnn.data.splits import Splits

Loader = Callable[..., Splits]


@dataclass(frozen=True)
class Task:
    """A task by name; other packages offer theirs under the entry point group `hadamrnn.tasks`.

    Args:
        loader: returns the splits; its keyword arguments are the task's options, `data_dir` excepted.
        recipes: the settings of each preset that the task has.
        help: what the task is, in a few words.
        files: its public files by name.
    """

    loader: Loader
    recipes: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    help: str = ""
    files: Mapping[str, DataFile] = field(default_factory=dict)
