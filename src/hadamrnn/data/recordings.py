"""Recordings with labels: long tables of sensor values, cut into windows that training can take.

A run of rows with one label and one group is a segment, and a window lies inside one segment. Parts are cut
either by group (nobody is in two parts) or in time (of each class the first 70 % of the rows are for
training, the next 15 % for validation, the last for test); windows are cut after that, so no two parts share
a row.

What the caller leaves open is decided by the rules below, said in `Splits.assumptions` and kept in
`Splits.options`. Start at `load_recordings`; `read_recordings` gives the windows alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.samples import HELD_OUT, group_parts
from hadamrnn.data.splits import Splits, standardised
from hadamrnn.data.tables import Recording, listed, read_tables
from hadamrnn.errors import InputError, short
from hadamrnn.settings import Range, Seed, coerce

LABELS = ("label", "labels", "activity", "class")
GROUPS = ("group", "groups", "person", "subject", "user", "participant")
CLOCKS = ("time", "timestamp", "datetime", "date", "index", "")
STEPS = 128  # of a window that nobody has chosen
CLOCK_ROWS = 16  # a column that rises in each of so many rows is a clock
LEAST_GROUPS = 3  # that a class must be in, for files to be the groups
OF_FILE = ("file", "folder")  # what a label or a group can be beside a column
Steps = Annotated[int, Range(1, 1 << 20)]


@dataclass(frozen=True)
class Reading:
    """How recordings are read; what is None or empty is decided by `complete`.

    Args:
        label: a column, `file` (the file's name up to its first "_") or `folder` (the folder's name).
        group: a column, `file`, `folder`, or `time` for parts in time.
        window: steps of a window.
        hop: steps from one window to the next; half a window if left out.
        columns: the channels; every column of numbers if left out, clocks aside.
    """

    label: str | None = None
    group: str | None = None
    window: Steps | None = None
    hop: Steps | None = None
    columns: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name, hint in (("window", Steps | None), ("hop", Steps | None), ("columns", tuple[str, ...])):
            object.__setattr__(self, name, coerce(name, getattr(self, name), hint))

    def steps(self) -> tuple[int, int]:
        """Return the steps of a window and of a hop.

        >>> Reading().steps(), Reading(window=50).steps(), Reading(window=50, hop=10).steps()
        ((128, 64), (50, 25), (50, 10))
        """
        window = self.window or STEPS
        return window, self.hop or max(window // 2, 1)


class Segment(NamedTuple):
    """Rows of one recording with one label and one group: values `(time, channels)`, and where they begin."""

    values: NDArray[np.float32]
    label: str
    group: str
    file: str
    start: int


@dataclass(frozen=True, eq=False)
class RecordedWindows:
    """Windows of recordings, in their order.

    Args:
        x: raw values `(n, window, channels)`, float32.
        y: the label of each, `(n,)`; empty texts where none was asked for.
        groups: who or what was recorded, `(n,)`, as scikit-learn's group splitters take it.
        files: the file of each, `(n,)`.
        starts: the row at which each begins in its file, `(n,)`.
        columns: names of the channels.
    """

    x: NDArray[np.float32]
    y: NDArray[np.str_]
    groups: NDArray[np.str_]
    files: NDArray[np.str_]
    starts: NDArray[np.int64]
    columns: tuple[str, ...]


def read_recordings(
    source: str | Path | Any,
    *,
    label: str | None = None,
    group: str | None = None,
    window: int | None = None,
    hop: int | None = None,
    columns: Sequence[str] = (),
    labelled: bool = True,
) -> RecordedWindows:
    """Return the windows of recordings, with labels and groups: what estimators and splitters take.

    Args:
        source: a CSV or parquet file, a folder of them, an npz file with one long array, or a data frame.
        label: a column, `file` (the file's name up to its first "_") or `folder` (its folder's name).
        group: a column, `file` or `folder`; None takes a column of a usual name, else the file.
        window: steps of a window, 128 if None.
        hop: steps from one window to the next, half a window if None.
        columns: the channels; empty takes every column of numbers, clocks aside.
        labelled: False for recordings without labels.

    >>> frame = {"ax": np.arange(8) % 3, "label": ["up"] * 4 + ["down"] * 4}
    >>> windows = read_recordings(frame, window=2)
    >>> windows.x.shape, windows.y.tolist(), windows.starts.tolist()
    ((6, 2, 1), ['up', 'up', 'up', 'down', 'down', 'down'], [0, 1, 2, 4, 5, 6])
    """
    tables = read_tables(source)
    reading = complete(Reading(label, group, window, hop, tuple(columns)), tables, labelled)
    return cut(segments(tables, reading), reading)


def load_recordings(
    *,
    path: Path,
    label: str | None = None,
    group: str | None = None,
    window: Steps | None = None,
    hop: Steps | None = None,
    columns: tuple[str, ...] = (),
    seed: Seed = 0,
) -> Splits:
    """Return the windows of recordings in three parts, channels standardised over the training part.

    Args:
        path: a CSV or parquet file, a folder of them, or an npz file with one long array.
        label: a column, `file` (the file's name up to its first "_") or `folder` (its folder's name).
        group: a column, `file` or `folder`: no group is in two parts. `time`: parts in time.
        window: steps of a window, 128 if None.
        hop: steps from one window to the next, half a window if None.
        columns: the channels; empty takes every column of numbers, clocks aside.
        seed: of the draw of groups; parts in time draw nothing.
    """
    tables = read_tables(path)
    given = Reading(label, group, window, hop, columns)
    reading = complete(given, tables)
    runs = segments(tables, reading)
    names = class_names({run.label for run in runs}, path)
    if reading.group == "time":
        parts = [cut(part, reading) for part in time_blocks(runs)]
    else:
        parts = by_group(cut(runs, reading), names, seed)
    _check_parts(parts, names, reading)
    numbers = {name: number for number, name in enumerate(names)}
    train, validation, test = (
        (torch.from_numpy(part.x), torch.tensor([numbers[name] for name in part.y])) for part in parts
    )
    note = "split in time" if reading.group == "time" else f"split by {reading.group}"
    splits = standardised("recordings", (train, validation, test), names, note=note)
    options = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(reading).items()
    }
    return replace(
        splits, options=options, assumptions=tuple(_assumptions(tables, given, reading, names, parts))
    )


def complete(given: Reading, tables: list[Recording], labelled: bool = True) -> Reading:
    """Return `given` with what it leaves open decided; refuse names that the recordings do not have."""
    first = tables[0]
    label = (given.label or _assumed_label(tables)) if labelled else given.label
    group = given.group or _named(GROUPS, first)
    taken = {name for name in (label, group) if name in first.columns and name != "time"}
    columns = given.columns or tuple(
        name for name in first.columns if name not in taken and not _why_not(first, name)
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


def _why_not(table: Recording, name: str) -> str:
    """Return why a column is no channel; empty if it is one."""
    if name.lower() in CLOCKS:
        return "a clock"
    if not table.starts_with_a_number(name):
        return "text"
    values = table.numbers(name)
    return "a clock, it always rises" if len(values) >= CLOCK_ROWS and (np.diff(values) > 0).all() else ""


def _labels(table: Recording, source: str | None) -> NDArray[np.str_]:
    """Return the label of every row: a column, or what the file's place says; empty without a source."""
    if source in table.columns:
        return table.texts(str(source))
    path = table.path.resolve()
    of_file = {None: "", "file": path.stem.partition("_")[0], "folder": path.parent.name}
    return np.full(len(table), of_file[source]) if source in of_file else table.texts(str(source))


def _groups(table: Recording, source: str | None) -> NDArray[np.str_]:
    """Return the group of every row: a column, the folder, or the file, which also stands for time."""
    if source != "time" and (source in table.columns or source not in OF_FILE):
        return table.texts(str(source))
    return np.full(len(table), str(table.path.parent if source == "folder" else table.path))


def segments(tables: list[Recording], reading: Reading) -> list[Segment]:
    """Return the runs of rows with one label and one group, file by file."""
    runs = []
    for table in tables:
        values = np.stack([table.numbers(name) for name in reading.columns], axis=1).astype(np.float32)
        labels, groups = _labels(table, reading.label), _groups(table, reading.group)
        changes = np.flatnonzero((labels[1:] != labels[:-1]) | (groups[1:] != groups[:-1])) + 1
        for start, end in zip([0, *changes], [*changes, len(table)], strict=True):
            run = (values[start:end], str(labels[start]), str(groups[start]), str(table.path), int(start))
            runs.append(Segment(*run))
    longest = max(len(run.values) for run in runs)
    if reading.window is not None and longest < reading.window:
        raise InputError(
            f"A window must fit into rows of one label and group, the longest run has {longest}, got "
            f"--window {reading.window}. Choose a shorter one."
        )
    return runs


def class_names(labels: set[str], path: Path) -> tuple[str, ...]:
    """Return the classes in order: by number where all are whole numbers, else by name."""
    fractions = sorted(label for label in labels if _fraction(label))
    if fractions:
        raise InputError(
            f"Labels are classes, got the number {fractions[0]} in {path}. To predict values, use "
            "HadamRNNRegressor, or an npz file with float y."
        )
    if len(labels) < 2:
        raise InputError(f"Classification needs two classes or more, got {min(labels)!r} alone in {path}.")
    whole = all(label.lstrip("+-").isdecimal() for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if whole else None))


def _fraction(label: str) -> bool:
    try:
        return not float(label).is_integer()
    except (ValueError, OverflowError):
        return False


def time_blocks(runs: list[Segment]) -> tuple[list[Segment], list[Segment], list[Segment]]:
    """Return the segments of three parts: of each class the first rows, the next 15 % and the last 15 %."""
    parts: tuple[list[Segment], list[Segment], list[Segment]] = ([], [], [])
    for label in sorted({run.label for run in runs}):
        mine = [run for run in runs if run.label == label]
        total = sum(len(run.values) for run in mine)
        ends = (total - 2 * round(HELD_OUT * total), total - round(HELD_OUT * total), total)
        begun = 0
        for run in mine:
            for part, low, high in zip(parts, (0, *ends[:2]), ends, strict=True):
                first, last = max(low - begun, 0), min(high - begun, len(run.values))
                if first < last:
                    part.append(run._replace(values=run.values[first:last], start=run.start + first))
            begun += len(run.values)
    return parts


def by_group(windows: RecordedWindows, names: tuple[str, ...], seed: int) -> list[RecordedWindows]:
    """Return the windows of three parts, no group in two of them."""
    numbers = np.array([names.index(name) for name in windows.y])
    rows = [part.numpy() for part in group_parts(windows.groups, numbers, seed)]
    arrays = ("x", "y", "groups", "files", "starts")
    return [replace(windows, **{name: getattr(windows, name)[part] for name in arrays}) for part in rows]


def cut(runs: list[Segment], reading: Reading) -> RecordedWindows:
    """Return every window that lies in one segment, `hop` rows apart."""
    window, hop = reading.steps()
    places = [(run, row) for run in runs for row in range(0, len(run.values) - window + 1, hop)]
    x = np.empty((len(places), window, len(reading.columns)), np.float32)
    for target, (run, row) in zip(x, places, strict=True):
        target[:] = run.values[row : row + window]
    return RecordedWindows(
        x=x,
        y=np.array([run.label for run, _ in places]),
        groups=np.array([run.group for run, _ in places]),
        files=np.array([run.file for run, _ in places]),
        starts=np.array([run.start + row for run, row in places]),
        columns=reading.columns,
    )


def _check_parts(parts: list[RecordedWindows], names: tuple[str, ...], reading: Reading) -> None:
    """Refuse a part without a window of some class, where parts are in time; groups draw what they have."""
    for part, called in zip(parts, ("training", "validation", "test"), strict=True):
        unseen = sorted(set(names) - set(part.y))
        if unseen and reading.group == "time":
            raise InputError(
                f"Every part needs a window of every class, {called} has none of {short(unseen[0])} with "
                f"--window {reading.window}. Choose a shorter window, or record more."
            )


def _assumptions(
    tables: list[Recording],
    given: Reading,
    reading: Reading,
    names: tuple[str, ...],
    parts: list[RecordedWindows],
) -> list[str]:
    """Return in lines what was read, and which of it was assumed."""

    def said(name: str, text: str) -> str:
        return text if getattr(given, name) else f"{text} (assumed; --{name} changes it)"

    first, rows = tables[0], sum(map(len, tables))
    used = {*reading.columns, reading.label, reading.group if reading.group != "time" else None}
    others = [name for name in first.columns if name not in used]
    reasons = [
        f"{name or 'a column without a name'} ({_why_not(first, name) or 'not asked for'})" for name in others
    ]
    group = "in time, within every class" if reading.group == "time" else f"by {reading.group}"
    sizes = " / ".join(f"{len(part.x):,}" for part in parts)
    count = "1 file" if len(tables) == 1 else f"{len(tables)} files"
    return [
        f"recordings  {count}, {rows:,} rows",
        f"channels    {said('columns', listed(reading.columns))}",
        *([f"left out    {listed(reasons)}"] if reasons else []),
        f"label       {said('label', _source(first, reading.label))}: {len(names)} classes, {listed(names)}",
        f"parts       {said('group', group)}: {sizes} windows for training, validation and test",
        f"window      {said('window', f'{reading.window} rows')}, hop {said('hop', f'{reading.hop}')}",
    ]


def _source(table: Recording, name: str | None) -> str:
    if name in OF_FILE and name not in table.columns:
        return {"folder": "the folder's name", "file": "the file's name up to its first _"}[name]
    return f"column {name}"
