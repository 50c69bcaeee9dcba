"""How recordings are read: which columns are channels, what the label of a row is and whom it belongs to.

What the caller leaves open is decided by the rules here; `complete` applies them. A run of rows with one
label and one group is a segment, and a window lies inside one segment. Start at `Reading`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hadamrnn.data.tables import Recording, as_number, listed
from hadamrnn.errors import InputError
from hadamrnn.settings import Range, hold_fields

LABELS = ("label", "labels", "activity", "class")
GROUPS = ("group", "groups", "person", "subject", "user", "participant")
CLOCKS = ("time", "timestamp", "datetime", "date", "index", "")
STEPS = 128  # of a window, by default
CLOCK_ROWS = 16  # a column of at least this many rows that always rises is a clock
LEAST_GROUPS = 3  # files are the groups if every class is in this many of them
OF_FILE = ("file", "folder")  # what a label or a group can be, other than a column
Steps = Annotated[int, Range(1, 1 << 20)]


@dataclass(frozen=True)
class Reading:
    """The arguments of `read_recordings`; what is None or empty is decided by `complete`.

    `group` may also be `time`, for parts in time.
    """

    label: str | None = None
    group: str | None = None
    window: Steps | None = None
    hop: Steps | None = None
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        hold_fields(self)

    def steps(self) -> tuple[int, int]:
        """Return the steps of a window and of a hop.

        >>> Reading().steps(), Reading(window=50).steps(), Reading(window=50, hop=10).steps()
        ((128, 64), (50, 25), (50, 10))
        """
        window = self.window or STEPS
        return window, self.hop or max(window // 2, 1)


class Segment(NamedTuple):
    """Rows of one recording with one label and one group: values `(time, channels)`, and where they begin."""

    values: NDArray[np.float64]
    label: str
    group: str
    file: str
    start: int


def complete(given: Reading, tables: list[Recording], labelled: bool = True) -> Reading:
    """Return `given` with what it leaves open decided; refuse names that the recordings do not have."""
    first = tables[0]
    label = (given.label or _assumed_label(tables)) if labelled else given.label
    group = given.group or _named(GROUPS, first)
    taken = {name for name in (label, group) if name in first.columns and name != "time"}
    columns = given.columns or tuple(
        name for name in first.columns if name not in taken and not why_not(first, name)
    )
    if not columns:
        raise InputError(
            f"A recording needs a column of numbers, {first.path} has {listed(first.columns)}. "
            "Name it with --columns."
        )
    both = taken.intersection(columns)
    if both:
        raise InputError(
            f"A column is a channel or the label or the group, got {both.pop()!r} for two of them."
        )
    window, hop = given.steps()
    reading = Reading(label, group, window, hop, columns)
    return reading if group else replace(reading, group=_assumed_group(tables, reading))


def _assumed_label(tables: list[Recording]) -> str:
    """Return a column of a usual name, `y` of arrays, or `folder` where files lie in several folders."""
    first = tables[0]
    arrays = ("y",) if first.path.suffix == ".npz" else ()
    found = _named((*LABELS, *arrays), first)
    if found is None and len({table.path.parent for table in tables}) > 1:
        return "folder"
    if found is None:
        raise InputError(
            f"Recordings need labels: name a column with --label ({listed(first.columns)} in {first.path}), "
            "or say --label file (the name up to its first _) or --label folder."
        )
    return found


def _assumed_group(tables: list[Recording], reading: Reading) -> str:
    """Return `file` if every class is in three files or more, else `time`."""
    files: dict[str, set[str]] = {}
    for table in tables:
        for label in np.unique(_labels(table, reading.label)):
            files.setdefault(str(label), set()).add(str(table.path))
    return "file" if min(map(len, files.values())) >= LEAST_GROUPS else "time"


def _named(usual: tuple[str, ...], table: Recording) -> str | None:
    return next((name for name in table.columns if name.lower() in usual), None)


def why_not(table: Recording, name: str) -> str:
    """Return why a column is not a channel; empty if it is one."""
    if name.lower() in CLOCKS:
        return "a clock"
    if not np.isfinite(as_number(table.first(name))):
        return "text"
    values = table.numbers(name)
    return "a clock, it always rises" if len(values) >= CLOCK_ROWS and (np.diff(values) > 0).all() else ""


def _labels(table: Recording, source: str | None) -> NDArray[np.str_]:
    """Return the label of every row: a column, or what the file's place says; empty without a source."""
    path = table.path.resolve()
    of_file = {None: "", "file": path.stem.partition("_")[0], "folder": path.parent.name}
    if source in table.columns or source not in of_file:
        return table.texts(str(source))
    return np.full(len(table), of_file[source])


def _groups(table: Recording, source: str | None) -> NDArray[np.str_]:
    """Return the group of every row: a column, the folder, or the file, which also stands for time."""
    if source != "time" and (source in table.columns or source not in OF_FILE):
        return table.texts(str(source))
    return np.full(len(table), str(table.path.parent if source == "folder" else table.path))


def segments(tables: list[Recording], reading: Reading) -> list[Segment]:
    """Return the runs of rows with one label and one group, file by file."""
    runs = []
    for table in tables:
        values = np.stack([table.numbers(name) for name in reading.columns], axis=1)
        labels, groups = _labels(table, reading.label), _groups(table, reading.group)
        changes = np.flatnonzero((labels[1:] != labels[:-1]) | (groups[1:] != groups[:-1])) + 1
        for start, end in zip([0, *changes], [*changes, len(table)], strict=True):
            run = (values[start:end], str(labels[start]), str(groups[start]), str(table.path), int(start))
            runs.append(Segment(*run))
    window, _ = reading.steps()
    longest = max(len(run.values) for run in runs)
    if longest < window:
        raise InputError(
            f"A window must fit into rows of one label and group, the longest run has {longest}, got "
            f"--window {window}. Choose a shorter one."
        )
    return runs


def class_names(labels: set[str], path: Path) -> tuple[str, ...]:
    """Return the classes in order: by number where all are whole numbers, else by name."""
    numbers = {label: as_number(label) for label in labels}
    fractions = sorted(label for label, number in numbers.items() if not np.isnan(number) and number % 1)
    if fractions:
        raise InputError(
            f"Labels are classes, got the number {fractions[0]} in {path}. To predict values, use "
            "HadamRNNRegressor, or an npz file with float y."
        )
    if len(labels) < 2:
        raise InputError(f"Classification needs two classes or more, got {min(labels)!r} alone in {path}.")
    whole = all(re.fullmatch(r"[+-]?\d+", label) for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if whole else None))
