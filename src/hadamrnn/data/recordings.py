"""Load labelled recordings: long tables of sensor values, cut into windows for training.

Consecutive rows with the same label and group form a segment, and a window lies inside one segment.
`segments` describes the division into training, validation and test.

`decide` fills in options that the caller leaves unset; they are reported in `Splits.assumptions` and stored
in `Splits.options`. Start at `load_recordings`; `read_recordings` returns only the windows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.columns import GROUPS, LABELS, OF_FILE, decide, row_groups, row_labels
from hadamrnn.data.labels import class_names
from hadamrnn.data.options import NO_FILES, HeldOutFiles, RecordingOptions
from hadamrnn.data.samples import cut_windows
from hadamrnn.data.scaling import standardised, with_standard_targets
from hadamrnn.data.segments import (
    Lacking,
    Recorded,
    Segment,
    divide_recorded,
    part_table,
    row_ranges,
    select_rows,
    window_targets,
)
from hadamrnn.data.signals import adapt_recipe, pad_clip, segment_codes
from hadamrnn.data.splits import Preparation, Split, Splits, file_fingerprint, joint_fingerprint
from hadamrnn.data.tables import Recording, file_remarks, listed, read_tables
from hadamrnn.data.tasks import PAPER_SENSORS, SMALL_STACK, Task
from hadamrnn.errors import InputError
from hadamrnn.settings import Seed

UNDECIDED = RecordingOptions()


@dataclass(frozen=True, eq=False)
class RecordedWindows:
    """Windows of recordings, in order.

    Args:
        x: raw values `(n, window, channels)`: float32 if that is exact, else float64.
        y: label of each window, or target at its last row, `(n,)`; empty texts if neither was requested.
        groups: group of each window, `(n,)`, for scikit-learn's group splitters.
        files: file of each window, `(n,)`.
        starts: row of the file at which each window begins, `(n,)`.
        columns: names of the channels.
        last: target one hop before each window's own, `(n,)`; None for classification.
        note: remarks on the files, such as silent ones.
    """

    x: NDArray[Any]
    y: NDArray[Any]
    groups: NDArray[np.object_]
    files: NDArray[np.object_]
    starts: NDArray[np.int64]
    columns: tuple[str, ...]
    last: NDArray[np.float64] | None = None
    note: str = ""


def read_recordings(source: str | Path | Any, *, labelled: bool = True, **options: Any) -> RecordedWindows:
    """Return the windows of recordings with labels and groups, in the form that scikit-learn expects.

    Args:
        source: a CSV, parquet or WAV file, an npz file of one long array, a folder of them, or a data frame.
        labelled: whether the recordings have labels.
        options: the fields of `RecordingOptions`:
            label: a column, `file` (the file's name up to its first "_") or `folder` (one folder per class).
            target: a column of values for regression, instead of a label.
            group: a column, `file` or `folder`; by default a column of a usual name, else the file.
            window: steps of a window, by default 128.
            hop: steps from one window to the next, by default half a window.
            columns: the channels; by default every numeric column except clocks.

    >>> frame = {"ax": np.arange(8) % 3, "label": ["up"] * 4 + ["down"] * 4}
    >>> found = read_recordings(frame, window=2)
    >>> found.x.shape, found.y.tolist(), found.starts.tolist()
    ((6, 2, 1), ['up', 'up', 'up', 'down', 'down', 'down'], [0, 1, 2, 4, 5, 6])
    """
    recorded = read_segments(source, RecordingOptions(**options), labelled)
    return cut(recorded.segments, recorded)


def read_like(source: str | Path, options: Mapping[str, Any], labelled: bool) -> RecordedWindows:
    """Return windows of new recordings, cut as in a run; `options` are the options of its task.

    A file without the run's group column counts as one group.
    """
    given = RecordingOptions.of(options)
    given = given if labelled else replace(given, label=None, target=None)
    recorded = read_segments(source, given, labelled, group_is_optional=True)
    return cut(recorded.segments, recorded)


def load_recordings(
    *,
    path: Path,
    reading: RecordingOptions = UNDECIDED,
    held_out: HeldOutFiles = NO_FILES,
    seed: Seed = 0,
    preparation: Preparation | None = None,
) -> Splits:
    """Return the windows of recordings in three parts, with channels standardised over the training part.

    Args:
        path: a CSV, parquet or WAV file, an npz file with one long array, or a folder of them.
        reading: options for reading; `group` may also be `time`, to divide recordings in time.
        held_out: files or folders to use as the validation or test part; the other recordings are divided.
        seed: seed for assigning groups to parts; a division in time does not use it.
        preparation: from an earlier load of the same files, to use the same classes, parts and scaling.
    """
    more = held_out.paths
    recorded = read_segments(path, reading, more=more)
    fingerprint = sources_fingerprint(recorded)
    is_regression = recorded.options.target is not None
    if preparation is not None:
        preparation.check(fingerprint, path)
        names = preparation.class_names
        remarks: list[str] = []
        parts = [select_rows(recorded.segments, ranges) for ranges in preparation.members]
    else:
        names = () if is_regression else class_names({each.label for each in recorded.segments}, path)
        recorded, parts, remarks = part_segments(recorded, path, reading, held_out, seed)
    numbers = {name: number for number, name in enumerate(names)}

    def split(part: list[Segment]) -> Split:
        found = cut(part, recorded)
        x = torch.from_numpy(found.x)
        if found.last is None:
            return Split(x, torch.tensor([numbers[name] for name in found.y.tolist()]))
        y, last = (torch.from_numpy(each)[:, None] for each in (found.y, found.last))
        return Split(x, y, last=last)

    grouped = "in time" if recorded.options.group == "time" else f"by {recorded.options.group}"
    splits = standardised(
        "recordings",
        map(split, parts),
        preparation=preparation,
        **({"output_size": 1, "metric": "mse"} if is_regression else {"class_names": names}),
        note="; ".join([f"split {grouped}", *remarks]) if len(more) < 2 else "",
        options=recorded.options.given(),
        fingerprint=fingerprint,
        members=tuple(map(row_ranges, parts)),
        front_end=recorded.options.front_end,
    )
    if is_regression:
        splits = with_standard_targets(splits, preparation)
    lines = [
        *_assumptions(recorded, reading, names),
        *part_table(parts, names, *recorded.options.window_and_hop),
        *map("note: {}".format, remarks),
    ]
    return replace(splits, assumptions=tuple(lines))


def sources_fingerprint(recorded: Recorded) -> str:
    """Return the fingerprint of the files; names in a held-out part are relative to that part's folder."""
    sources: dict[int, list[Path]] = {}
    for path, origin in zip(recorded.paths, recorded.origins, strict=True):
        sources.setdefault(origin, []).append(path)
    return joint_fingerprint([file_fingerprint(paths) for paths in sources.values()])


def read_segments(
    source: str | Path | Any,
    given: RecordingOptions,
    labelled: bool = True,
    group_is_optional: bool = False,
    more: Sequence[Path] = (),
) -> Recorded:
    """Read recordings from `source` and `more`, fill in unset options and divide rows into segments."""
    texts = {name for name in (given.label, given.group) if name is not None}
    read = [read_tables(each, texts.union(LABELS, GROUPS), given.resample) for each in (source, *more)]
    read = read if len(read) == 1 else _each_in_one_part(read, source)
    tables = list(chain.from_iterable(read))
    origins = [origin for origin, found in enumerate(read) for _ in found]
    if group_is_optional and given.group not in (*tables[0].names, "time", *OF_FILE):
        given = replace(given, group="file")
    options, left_out = decide(given, tables, labelled)
    window, _ = options.window_and_hop
    tables = [pad_clip(table, window) for table in tables]
    segments = []
    for number, table in enumerate(tables):
        values = table.channels(options.columns)
        labels, groups = row_labels(table, options.label), row_groups(table, options.group)
        target = None if options.target is None or not labelled else table.numbers(options.target)
        changes = np.flatnonzero((labels[1:] != labels[:-1]) | (groups[1:] != groups[:-1])) + 1
        for start, end in zip([0, *changes.tolist()], [*changes.tolist(), len(table)], strict=True):
            own = None if target is None else target[start:end]
            segments.append(Segment(values[start:end], labels[start], groups[start], number, start, own))
    longest = max(len(segment.values) for segment in segments)
    if longest < window:
        raise InputError(
            f"A window must fit into rows of one label and group, the longest run has {longest}, got "
            f"--window {window}. Choose a shorter one."
        )
    return Recorded(
        [table.path for table in tables], origins, options, segments, left_out, file_remarks(tables)
    )


def part_segments(
    recorded: Recorded, path: Path, reading: RecordingOptions, held_out: HeldOutFiles, seed: int
) -> tuple[Recorded, list[list[Segment]], list[str]]:
    """Return the recordings, the segments of training, validation and test, and remarks for the user.

    If default groups leave a part without some class, recordings are divided in time instead. They are then
    read again, because segments no longer end where the group changes.
    """
    try:
        return recorded, *divide_recorded(recorded, held_out, seed, strict=reading.group in (None, "time"))
    except Lacking as reason:
        if reading.group is not None or recorded.options.group == "time":
            raise
        remark = (
            f"divided in time, within every recording, because groups by {recorded.options.group} do not "
            f"suffice: {reason} --group {recorded.options.group} enforces them"
        )
    recorded = read_segments(path, replace(reading, group="time"), more=held_out.paths)
    parts, remarks = divide_recorded(recorded, held_out, seed, strict=True)
    return recorded, parts, [remark, *remarks]


def _each_in_one_part(read: list[list[Recording]], source: str | Path) -> list[list[Recording]]:
    """Return the recordings of each source; a held-out file is removed from the first source."""
    paths = [table.path.resolve() for tables in read[1:] for table in tables]
    for path, times in Counter(paths).items():
        if times > 1:
            raise InputError(f"--validation and --test must be different files, got {path.name} in both.")
    own = {table.path.resolve(): table for table in read[0]}
    held = [[own.pop(table.path.resolve(), table) for table in tables] for tables in read[1:]]
    if not own:
        raise InputError(
            f"Training needs recordings of its own, {source} has none besides those of --validation and "
            "--test. Name others."
        )
    return [list(own.values()), *held]


def cut(segments: list[Segment], recorded: Recorded) -> RecordedWindows:
    """Return all windows within one segment, `hop` rows apart."""
    window, hop = recorded.options.window_and_hop
    front_end = recorded.options.front_end
    whole = [segment for segment in segments if len(segment.values) >= window]
    counts = [segment.windows(window, hop) for segment in whole]
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
    y, last = window_targets(whole, window, hop)
    starts = [segment.start + hop * np.arange(count) for segment, count in zip(whole, counts, strict=True)]
    return RecordedWindows(
        x=x,
        y=np.repeat(np.array([segment.label for segment in whole]), counts) if y is None else y,
        groups=np.repeat(np.array([segment.group for segment in whole], object), counts),
        files=np.repeat(np.array([str(recorded.paths[segment.file]) for segment in whole], object), counts),
        starts=np.concatenate([np.empty(0, np.int64), *starts]),
        columns=recorded.options.columns,
        last=last,
        note="; ".join(recorded.forms),
    )


def _assumptions(recorded: Recorded, given: RecordingOptions, names: Sequence[str]) -> list[str]:
    """Return lines that report what was read and assumed."""

    def said(name: str, text: str) -> str:
        return text if getattr(given, name) else f"{text} (assumed; --{name} changes it)"

    options = recorded.options
    rows = sum(len(segment.values) for segment in recorded.segments)
    reasons = [f"{name or 'a column without a name'} ({why})" for name, why in recorded.left_out.items()]
    group = "in time, within every class" if options.group == "time" else f"by {options.group}"
    count = "1 file" if len(recorded.paths) == 1 else f"{len(recorded.paths)} files"
    sources = {"folder": "the folder's name", "file": "the file's name up to its first _"}
    label = sources.get(str(options.label), f"column {options.label}")
    label = f"label       {said('label', label)}: {len(names)} classes, {listed(names)}"
    target = f"target      column {options.target}, at the last row of a window"
    return [
        f"recordings  {'; '.join([f'{count}, {rows:,} rows', *recorded.forms])}",
        f"channels    {said('columns', listed(options.columns))}",
        *([f"left out    {listed(reasons)}"] if reasons else []),
        label if options.target is None else target,
        f"window      {said('window', f'{options.window} rows')}, hop {said('hop', f'{options.hop}')}",
        *([f"features    {said('features', str(options.front_end))}"] if options.front_end else []),
        f"parts       {said('group', group)}",
    ]


RECORDINGS = Task(
    load_recordings,
    adapt=adapt_recipe,
    help="your own recordings; the same as `train PATH`",
    recipes={
        "paper": PAPER_SENSORS,
        "quick": {**SMALL_STACK, "batch_size": 32, "stride": 2, "min_steps": 600},
        "best": {**SMALL_STACK, "batch_size": 32, "epochs": 20, "min_steps": 1500},
    },
)
