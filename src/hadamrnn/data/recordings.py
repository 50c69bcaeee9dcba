"""Recordings with labels: long tables of sensor values, cut into windows that training can take.

Consecutive rows with one label and one group are a segment, and a window lies inside one segment. Parts are
either groups (nobody is in two parts) or blocks of time (the first 70 % of the rows of each class are for
training, the next 15 % for validation, the last for test); windows are cut after that, so no two parts share
a row.

Options that the caller leaves open are decided by `decide`, reported in `Splits.assumptions` and kept in
`Splits.options`. Start at `load_recordings`; `read_recordings` gives the windows alone.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.columns import GROUPS, LABELS, OF_FILE, decide, row_groups, row_labels
from hadamrnn.data.labels import class_names
from hadamrnn.data.options import RecordingOptions
from hadamrnn.data.recipes import PAPER_SENSORS, SMALL_STACK
from hadamrnn.data.samples import HELD_OUT, cut_windows, group_parts
from hadamrnn.data.scaling import standardised
from hadamrnn.data.signals import pad_clip, segment_codes
from hadamrnn.data.splits import Preparation, Split, Splits, file_fingerprint
from hadamrnn.data.tables import listed, read_tables
from hadamrnn.data.tasks import Task
from hadamrnn.errors import InputError, short
from hadamrnn.settings import Seed

UNDECIDED = RecordingOptions()


class Segment(NamedTuple):
    """Rows of one recording with one label and one group: values `(time, channels)`, and where they begin."""

    values: NDArray[Any]
    label: str
    group: str
    file: int
    start: int


@dataclass(frozen=True, eq=False)
class RecordedWindows:
    """Windows of recordings, in their order.

    Args:
        x: raw values `(n, window, channels)`: float32 if that holds them all, else float64.
        y: the label of each, `(n,)`; empty texts where none was asked for.
        groups: who or what was recorded, `(n,)`, as scikit-learn's group splitters take it.
        files: the file of each, `(n,)`.
        starts: the row at which each begins in its file, `(n,)`.
        columns: names of the channels.
    """

    x: NDArray[Any]
    y: NDArray[np.str_]
    groups: NDArray[np.object_]
    files: NDArray[np.object_]
    starts: NDArray[np.int64]
    columns: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Recorded:
    """Recordings as segments, every option decided; `left_out` are the other columns, each with a reason."""

    paths: list[Path]
    options: RecordingOptions
    segments: list[Segment]
    left_out: dict[str, str]
    forms: list[str]


def read_recordings(source: str | Path | Any, *, labelled: bool = True, **options: Any) -> RecordedWindows:
    """Return the windows of recordings, with labels and groups: what estimators and splitters take.

    Args:
        source: a CSV or parquet file, a folder of them, an npz file with one long array, or a data frame.
        labelled: False for recordings without labels.
        options: the fields of `RecordingOptions`:
            label: a column, `file` (the file's name up to its first "_") or `folder` (its folder's name).
            group: a column, `file` or `folder`; by default a column of a usual name, else the file.
            window: steps of a window, by default 128.
            hop: steps from one window to the next, by default half a window.
            columns: the channels; by default every column of numbers, clocks aside.

    >>> frame = {"ax": np.arange(8) % 3, "label": ["up"] * 4 + ["down"] * 4}
    >>> found = read_recordings(frame, window=2)
    >>> found.x.shape, found.y.tolist(), found.starts.tolist()
    ((6, 2, 1), ['up', 'up', 'up', 'down', 'down', 'down'], [0, 1, 2, 4, 5, 6])
    """
    recorded = read_segments(source, RecordingOptions(**options), labelled)
    return cut(recorded.segments, recorded)


def read_like(source: str | Path, options: dict[str, Any], labelled: bool) -> RecordedWindows:
    """Return windows of new recordings, cut as those of a run were: `options` are `Splits.options`.

    A file without the run's group column is one group.
    """
    given = RecordingOptions(**options)
    given = given if labelled else replace(given, label=None)
    recorded = read_segments(source, given, labelled, group_is_optional=True)
    return cut(recorded.segments, recorded)


def load_recordings(
    *,
    path: Path,
    reading: RecordingOptions = UNDECIDED,
    seed: Seed = 0,
    preparation: Preparation | None = None,
) -> Splits:
    """Return the windows of recordings in three parts, channels standardised over the training part.

    Args:
        path: a CSV or parquet file, a folder of them, or an npz file with one long array.
        reading: what to read; `group` may also be `time`, for parts in time.
        seed: of the draw of groups; parts in time draw nothing.
        preparation: of an earlier load of the same files, whose classes, parts and scaling are used.
    """
    recorded = read_segments(path, reading)
    fingerprint = file_fingerprint(recorded.paths)
    if preparation is not None:
        preparation.check(fingerprint, path)
        names = preparation.class_names
        parts = [select_rows(recorded.segments, ranges) for ranges in preparation.members]
    else:
        names = class_names({segment.label for segment in recorded.segments}, path)
        parts = part_segments(recorded, names, seed)
    numbers = {name: number for number, name in enumerate(names)}

    def split(part: list[Segment]) -> Split:
        found = cut(part, recorded)
        return Split(torch.from_numpy(found.x), torch.tensor([numbers[name] for name in found.y.tolist()]))

    splits = standardised(
        "recordings",
        map(split, parts),
        preparation=preparation,
        class_names=names,
        note="split in time" if recorded.options.group == "time" else f"split by {recorded.options.group}",
        options=recorded.options.given(),
        fingerprint=fingerprint,
        members=tuple(map(row_ranges, parts)),
        front_end=recorded.options.front_end,
    )
    return replace(splits, assumptions=tuple(_assumptions(recorded, reading, splits)))


def read_segments(
    source: str | Path | Any,
    given: RecordingOptions,
    labelled: bool = True,
    group_is_optional: bool = False,
) -> Recorded:
    """Read recordings, decide what `given` leaves open and divide the rows into segments."""
    texts = {name for name in (given.label, given.group) if name is not None}
    tables = read_tables(source, texts.union(LABELS, GROUPS))
    if group_is_optional and given.group not in (*tables[0].names, "time", *OF_FILE):
        given = replace(given, group="file")
    options, left_out = decide(given, tables, labelled)
    window, _ = options.window_and_hop
    tables = [pad_clip(table, window) for table in tables]
    segments = []
    for number, table in enumerate(tables):
        values = table.channels(options.columns)
        labels, groups = row_labels(table, options.label), row_groups(table, options.group)
        changes = np.flatnonzero((labels[1:] != labels[:-1]) | (groups[1:] != groups[:-1])) + 1
        for start, end in zip([0, *changes.tolist()], [*changes.tolist(), len(table)], strict=True):
            segments.append(Segment(values[start:end], labels[start], groups[start], number, start))
    longest = max(len(segment.values) for segment in segments)
    if longest < window:
        raise InputError(
            f"A window must fit into rows of one label and group, the longest run has {longest}, got "
            f"--window {window}. Choose a shorter one."
        )
    forms = sorted({table.form for table in tables if table.form})
    return Recorded([table.path for table in tables], options, segments, left_out, forms)


def part_segments(recorded: Recorded, names: tuple[str, ...], seed: int) -> list[list[Segment]]:
    """Return the segments of training, validation and test, by group or in time."""
    window, _ = recorded.options.window_and_hop
    if recorded.options.group == "time":
        parts = time_blocks(recorded.segments)
        for part, called in zip(parts, ("training", "validation", "test"), strict=True):
            _check_classes(part, called, names, window)
        return parts
    whole = [segment for segment in recorded.segments if len(segment.values) >= window]
    _check_classes(whole, "the whole", names, window)
    labels = np.array([names.index(segment.label) for segment in whole])
    rows = group_parts(np.array([segment.group for segment in whole]), labels, seed)
    return [[whole[row] for row in part.tolist()] for part in rows]


def time_blocks(segments: list[Segment]) -> list[list[Segment]]:
    """Return the segments of three parts: the first rows of each class, the next 15 % and the last 15 %."""
    parts: list[list[Segment]] = [[], [], []]
    for label in sorted({segment.label for segment in segments}):
        mine = [segment for segment in segments if segment.label == label]
        total = sum(len(segment.values) for segment in mine)
        ends = (total - 2 * round(HELD_OUT * total), total - round(HELD_OUT * total), total)
        begun = 0
        for segment in mine:
            for part, low, high in zip(parts, (0, *ends[:2]), ends, strict=True):
                first, last = max(low - begun, 0), min(high - begun, len(segment.values))
                if first < last:
                    part.append(
                        segment._replace(values=segment.values[first:last], start=segment.start + first)
                    )
            begun += len(segment.values)
    return parts


def row_ranges(segments: list[Segment]) -> tuple[int, ...]:
    """Return where segments lie: of each the number of its file, its first row and the row after its last."""
    return tuple(chain.from_iterable((file, at, at + len(values)) for values, _, _, file, at in segments))


def select_rows(segments: list[Segment], ranges: tuple[int, ...]) -> list[Segment]:
    """Return the pieces of segments that lie at `ranges`, as `row_ranges` gives them."""
    begins = [(segment.file, segment.start) for segment in segments]
    chosen = []
    for file, start, stop in zip(*[iter(ranges)] * 3, strict=True):
        segment = segments[bisect_right(begins, (file, start)) - 1]
        values = segment.values[start - segment.start : stop - segment.start]
        chosen.append(segment._replace(values=values, start=start))
    return chosen


def cut(segments: list[Segment], recorded: Recorded) -> RecordedWindows:
    """Return every window that lies in one segment, `hop` rows apart."""
    window, hop = recorded.options.window_and_hop
    front_end = recorded.options.front_end
    whole = [segment for segment in segments if len(segment.values) >= window]
    counts = [(len(segment.values) - window) // hop + 1 for segment in whole]
    if front_end is None:
        kind = np.result_type(np.float32, *(segment.values for segment in recorded.segments))
        x = np.empty((sum(counts), window, len(recorded.options.columns)), kind)
    else:
        x = np.empty((sum(counts), front_end.num_frames(window), front_end.bands), np.float32)
    ends = np.cumsum(counts, dtype=np.int64)
    for segment, count, end in zip(whole, counts, ends, strict=True):
        if front_end is None:
            x[end - count : end] = cut_windows(segment.values, window, hop)
        else:
            codes = segment_codes(front_end, segment.values)
            x[end - count : end] = cut_windows(codes, x.shape[1], hop // front_end.hop)[:count]
    starts = [segment.start + hop * np.arange(count) for segment, count in zip(whole, counts, strict=True)]
    return RecordedWindows(
        x=x,
        y=np.repeat(np.array([segment.label for segment in whole]), counts),
        groups=np.repeat(np.array([segment.group for segment in whole], object), counts),
        files=np.repeat(np.array([str(recorded.paths[segment.file]) for segment in whole], object), counts),
        starts=np.concatenate([np.empty(0, np.int64), *starts]),
        columns=recorded.options.columns,
    )


def _check_classes(segments: list[Segment], called: str, names: tuple[str, ...], window: int) -> None:
    for unseen in sorted(set(names) - {each.label for each in segments if len(each.values) >= window}):
        raise InputError(
            f"Every part needs a window of every class, {called} has none of {short(unseen)} with "
            f"--window {window}. Choose a shorter window, or record more."
        )


def _assumptions(recorded: Recorded, given: RecordingOptions, splits: Splits) -> list[str]:
    """Return in lines what was read, and which of it was assumed."""

    def said(name: str, text: str) -> str:
        return text if getattr(given, name) else f"{text} (assumed; --{name} changes it)"

    options, names = recorded.options, splits.class_names
    rows = sum(len(segment.values) for segment in recorded.segments)
    reasons = [f"{name or 'a column without a name'} ({why})" for name, why in recorded.left_out.items()]
    group = "in time, within every class" if options.group == "time" else f"by {options.group}"
    sizes = " / ".join(f"{len(part):,}" for part in (splits.train, splits.validation, splits.test))
    count = "1 file" if len(recorded.paths) == 1 else f"{len(recorded.paths)} files"
    sources = {"folder": "the folder's name", "file": "the file's name up to its first _"}
    label = sources.get(str(options.label), f"column {options.label}")
    return [
        f"recordings  {'; '.join([f'{count}, {rows:,} rows', *recorded.forms])}",
        f"channels    {said('columns', listed(options.columns))}",
        *([f"left out    {listed(reasons)}"] if reasons else []),
        f"label       {said('label', label)}: {len(names)} classes, {listed(names)}",
        f"parts       {said('group', group)}: {sizes} windows for training, validation and test",
        f"window      {said('window', f'{options.window} rows')}, hop {said('hop', f'{options.hop}')}",
        *([f"features    {said('features', str(options.front_end))}"] if options.front_end else []),
    ]


RECORDINGS = Task(
    load_recordings,
    help="your own recordings; a file or a folder is short for it",
    recipes={
        "paper": PAPER_SENSORS,
        "quick": {**SMALL_STACK, "batch_size": 32, "stride": 2},
        "best": {**SMALL_STACK, "batch_size": 32, "epochs": 20},
    },
)
