"""Recordings with labels: long tables of sensor values, cut into windows that training can take.

Parts are cut either by group (nobody is in two parts) or in time (of each class the first 70 % of the rows
are for training, the next 15 % for validation, the last for test); windows are cut after that, so no two
parts share a row.

What the caller leaves open is decided in `reading.py`, reported in `Splits.assumptions` and kept in
`Splits.options`. Start at `load_recordings`; `read_recordings` gives the windows alone.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.reading import OF_FILE, Reading, Segment, Steps, class_names, complete, segments, why_not
from hadamrnn.data.samples import HELD_OUT, group_parts
from hadamrnn.data.splits import Preparation, Split, Splits, file_fingerprint, standardised
from hadamrnn.data.tables import Recording, listed, read_tables
from hadamrnn.errors import InputError, short
from hadamrnn.settings import Seed


@dataclass(frozen=True, eq=False)
class RecordedWindows:
    """Windows of recordings, in their order.

    Args:
        x: raw values `(n, window, channels)`, float64.
        y: the label of each, `(n,)`; empty texts where none was asked for.
        groups: who or what was recorded, `(n,)`, as scikit-learn's group splitters take it.
        files: the file of each, `(n,)`.
        starts: the row at which each begins in its file, `(n,)`.
        columns: names of the channels.
    """

    x: NDArray[np.float64]
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
    channels = (columns,) if isinstance(columns, str) else tuple(columns)
    reading = complete(Reading(label, group, window, hop, channels), tables, labelled)
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
    preparation: Preparation | None = None,
) -> Splits:
    """Return the windows of recordings in three parts, channels standardised over the training part.

    Args:
        path: a CSV or parquet file, a folder of them, or an npz file with one long array.
        label, window, hop, columns: as of `read_recordings`.
        group: a column, `file` or `folder`: no group is in two parts. `time`: parts in time.
        seed: of the draw of groups; parts in time draw nothing.
        preparation: of an earlier load of the same files, whose classes, parts and scaling are used.
    """
    tables = read_tables(path)
    given = Reading(label, group, window, hop, columns)
    reading = complete(given, tables)
    fingerprint = file_fingerprint([table.path for table in tables])
    runs = segments(tables, reading)
    if preparation is not None:
        preparation.check(fingerprint, path)
        names = preparation.class_names
        blocks = [select_rows(runs, tables, ranges) for ranges in preparation.members]
    else:
        names = class_names({run.label for run in runs}, path)
        blocks = time_blocks(runs) if reading.group == "time" else group_blocks(runs, reading, names, seed)
    parts = [cut(block, reading) for block in blocks]
    if reading.group == "time":
        for part, called in zip(parts, ("training", "validation", "test"), strict=True):
            _check_classes(part, called, names)
    numbers = {name: number for number, name in enumerate(names)}
    return standardised(
        "recordings",
        [Split(torch.from_numpy(part.x), torch.tensor([numbers[name] for name in part.y])) for part in parts],
        preparation=preparation,
        class_names=names,
        note="split in time" if reading.group == "time" else f"split by {reading.group}",
        options={**asdict(reading), "columns": list(reading.columns)},
        assumptions=tuple(_assumptions(tables, given, reading, names, parts)),
        fingerprint=fingerprint,
        members=tuple(row_ranges(block, tables) for block in blocks),
    )


def row_ranges(runs: list[Segment], tables: list[Recording]) -> tuple[int, ...]:
    """Return where segments lie: of each the number of its file, its first row and the row after its last."""
    files = {str(table.path): number for number, table in enumerate(tables)}
    ranges = ((files[run.file], run.start, run.start + len(run.values)) for run in runs)
    return tuple(chain.from_iterable(ranges))


def select_rows(runs: list[Segment], tables: list[Recording], ranges: tuple[int, ...]) -> list[Segment]:
    """Return the parts of segments that lie at `ranges`, as `row_ranges` gives them."""
    files = {str(table.path): number for number, table in enumerate(tables)}
    begins = [(files[run.file], run.start) for run in runs]
    chosen = []
    for file, start, stop in zip(*[iter(ranges)] * 3, strict=True):
        run = runs[bisect_right(begins, (file, start)) - 1]
        values = run.values[start - run.start : stop - run.start]
        chosen.append(run._replace(values=values, start=start))
    return chosen


def time_blocks(runs: list[Segment]) -> list[list[Segment]]:
    """Return the segments of three parts: of each class the first rows, the next 15 % and the last 15 %."""
    parts: list[list[Segment]] = [[], [], []]
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


def group_blocks(
    runs: list[Segment], reading: Reading, names: tuple[str, ...], seed: int
) -> list[list[Segment]]:
    """Return the segments of three parts, no group in two of them; segments without a window are left out."""
    window, _ = reading.steps()
    whole = [run for run in runs if len(run.values) >= window]
    _check_classes(cut(whole, reading), "the whole", names)
    labels = np.array([names.index(run.label) for run in whole])
    parts = group_parts(np.array([run.group for run in whole]), labels, seed)
    return [[whole[row] for row in part.tolist()] for part in parts]


def cut(runs: list[Segment], reading: Reading) -> RecordedWindows:
    """Return every window that lies in one segment, `hop` rows apart."""
    window, hop = reading.steps()
    places = [(run, row) for run in runs for row in range(0, len(run.values) - window + 1, hop)]
    x = np.empty((len(places), window, len(reading.columns)))
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


def _check_classes(windows: RecordedWindows, called: str, names: Iterable[str]) -> None:
    for unseen in sorted(set(names) - set(windows.y)):
        raise InputError(
            f"Every part needs a window of every class, {called} has none of {short(unseen)} with "
            f"--window {windows.x.shape[1]}. Choose a shorter window, or record more."
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
        f"{name or 'a column without a name'} ({why_not(first, name) or 'not asked for'})" for name in others
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
