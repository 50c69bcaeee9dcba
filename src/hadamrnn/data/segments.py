"""Divide segments of recordings into training, validation and test.

A segment is a run of rows with the same label and group. Recordings are divided by group, so that no person
is in two parts, or in time: in every recording, the first 70 % of the rows of each class are for training,
the next 15 % for validation, the rest for testing. Windows are cut afterwards, so no two parts share a row.
Start at `divide_recorded`, which also reports what parts lack or share with training.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hadamrnn.data.options import HeldOutFiles, RecordingOptions
from hadamrnn.data.repeats import repeated_windows
from hadamrnn.data.samples import PARTS, digests, group_parts, merge_copies
from hadamrnn.data.tables import listed
from hadamrnn.errors import InputError

Shares = tuple[float, float]  # for validation and test; 0 for a part with files of its own


class Segment(NamedTuple):
    """Consecutive rows with the same label and group: values `(time, channels)` and the first row's number.

    `targets` are the values of a regression, `(time,)`; the label is then empty.
    """

    values: NDArray[Any]
    label: str
    group: str
    file: int
    start: int
    targets: NDArray[np.float64] | None = None

    def rows(self, first: int, last: int) -> Segment:
        """Return the rows `first` to `last` of the segment."""
        targets = None if self.targets is None else self.targets[first:last]
        return self._replace(values=self.values[first:last], start=self.start + first, targets=targets)

    def windows(self, window: int, hop: int) -> int:
        """Return the number of windows that fit into the segment."""
        return max(len(self.values) - window + hop, 0) // hop


class Lacking(InputError):
    """Raised if no assignment of groups gives every class to every part."""


def divide(
    segments: Sequence[Segment], group: str, seed: int, window: int, hop: int, shares: Shares
) -> list[list[Segment]]:
    """Divide segments into training, validation and test; a part whose share is 0 is empty.

    Args:
        group: `time` for blocks of time; otherwise the meaning of `Segment.group`, for messages.
        seed: seed for assigning groups.

    Raises:
        Lacking: there are fewer groups than parts.
    """
    long = [segment for segment in segments if len(segment.values) >= window]
    if group == "time":
        return time_blocks(segments, window, shares)
    label = np.unique([segment.label for segment in long], return_inverse=True)[1]
    windows = np.array([segment.windows(window, hop) for segment in long])
    groups = np.array([segment.group for segment in long])
    copies = digests(segment.values for segment in long)
    try:
        rows = group_parts(merge_copies(groups, copies), label, seed, weights=windows, shares=shares)
    except InputError as error:
        raise Lacking(str(error)) from error
    return [[long[row] for row in part.tolist()] for part in rows]


def lacking(segments: Iterable[Segment], called: str, names: Iterable[str], window: int) -> None:
    """Refuse a part that lacks windows of a class; the message lists all classes that it lacks."""
    found = {each.label for each in segments if len(each.values) >= window}
    unseen = sorted(set(names) - found)
    if unseen:
        classes = f" of {listed(map(repr, unseen))}" if any(unseen) else ""
        raise Lacking(
            f"{called} has no window{classes} with --window {window}. Choose a shorter one, or record more."
        )


def without_copies(
    segments: Sequence[Segment], window: int, origins: Sequence[int]
) -> tuple[list[Segment], list[Segment]]:
    """Return the segments to keep, and those dropped because they repeat a segment in another file.

    `origins` has the number of each file's source. Among copies, the one in the last source is kept, since
    that is a held-out part; within that source, the one in the first file.

    >>> one = Segment(np.arange(4.0)[:, None], "up", "a", 0, 0)
    >>> kept, left_out = without_copies([one, one._replace(file=1)], window=2, origins=[0, 0])
    >>> [each.file for each in kept], [each.file for each in left_out]
    ([0], [1])
    """
    keys = [
        (segment.label, digest)
        for segment, digest in zip(segments, digests(each.values for each in segments), strict=True)
    ]
    first: dict[tuple[str, str], int] = {}
    for segment, key in sorted(zip(segments, keys, strict=True), key=lambda pair: -origins[pair[0].file]):
        first.setdefault(key, segment.file)
    kept: list[Segment] = []
    left_out: list[Segment] = []
    for segment, key in zip(segments, keys, strict=True):
        is_copy = len(segment.values) >= window and first[key] != segment.file
        (left_out if is_copy else kept).append(segment)
    return kept, left_out


def time_blocks(segments: Iterable[Segment], window: int, shares: Shares) -> list[list[Segment]]:
    """Return the segments of three parts: the first, middle and last rows of each class in each recording.

    Recordings too short to give every part a window are concatenated by class.
    """
    series: dict[tuple[str, int], list[Segment]] = {}
    for segment in segments:
        series.setdefault((segment.label, segment.file), []).append(segment)
    joined: dict[tuple[str, int], list[Segment]] = {}
    for (label, file), pieces in series.items():
        blocks = _three_blocks(pieces, shares)
        held = [block for block, share in zip(blocks[1:], shares, strict=True) if share]
        alone = all(any(len(each.values) >= window for each in block) for block in held)
        joined.setdefault((label, file if alone else -1), []).extend(pieces)
    parts: list[list[Segment]] = [[], [], []]
    for pieces in joined.values():
        for part, block in zip(parts, _three_blocks(pieces, shares), strict=True):
            part.extend(block)
    return [sorted(part, key=lambda segment: (segment.file, segment.start)) for part in parts]


def _three_blocks(pieces: Sequence[Segment], shares: Shares) -> list[list[Segment]]:
    """Divide consecutive segments into first, middle and last rows, in proportion to the shares."""
    total = sum(len(segment.values) for segment in pieces)
    held = [round(share * total) for share in shares]
    ends = (total - sum(held), total - held[1], total)
    blocks: list[list[Segment]] = [[], [], []]
    begun = 0
    for segment in pieces:
        for block, low, high in zip(blocks, (0, *ends[:2]), ends, strict=True):
            first, last = max(low - begun, 0), min(high - begun, len(segment.values))
            if first < last:
                block.append(segment.rows(first, last))
        begun += len(segment.values)
    return blocks


def part_table(parts: Sequence[Sequence[Segment]], names: Sequence[str], window: int, hop: int) -> list[str]:
    """Return a table of the files and windows in each part, and of the windows of each class in `names`."""
    lines = [f"  {'':<12}{'files':>6} {'windows':>8}  {'of each class' if names else ''}".rstrip()]
    for called, part in zip(PARTS, parts, strict=True):
        classes: Counter[str] = Counter()
        for segment in part:
            classes[segment.label] += segment.windows(window, hop)
        files = {segment.file for segment in part if segment.windows(window, hop)}
        counts = listed(f"{name} {classes[name]:,}" for name in names)
        lines.append(f"  {called:<12}{len(files):>6} {classes.total():>8,}  {counts}".rstrip())
    return lines


def window_targets(
    segments: Sequence[Segment], window: int, hop: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]] | tuple[None, None]:
    """Return the targets at the last row of each window and one hop earlier; None for classification."""
    pairs = []
    for segment in segments:
        if segment.targets is not None:
            rows = hop * np.arange(segment.windows(window, hop)) + window - 1
            pairs.append((segment.targets[rows], segment.targets[np.maximum(rows - hop, 0)]))
    if not pairs:
        return None, None
    now, before = zip(*pairs, strict=True)
    return np.concatenate(now), np.concatenate(before)


def row_ranges(segments: Sequence[Segment]) -> tuple[int, ...]:
    """Return file number, first row and end row of each segment, flattened."""
    return tuple(
        chain.from_iterable((each.file, each.start, each.start + len(each.values)) for each in segments)
    )


def select_rows(segments: Sequence[Segment], ranges: tuple[int, ...]) -> list[Segment]:
    """Return the rows of segments within `ranges`, in the form that `row_ranges` returns."""
    begins = [(segment.file, segment.start) for segment in segments]
    chosen = []
    for file, start, stop in zip(*[iter(ranges)] * 3, strict=True):
        segment = segments[bisect_right(begins, (file, start)) - 1]
        chosen.append(segment.rows(start - segment.start, stop - segment.start))
    return chosen


@dataclass(frozen=True, eq=False)
class Recorded:
    """Recordings divided into segments, with complete options; `left_out` has each unused column's reason.

    `origins` has the number of each path's source: 0 for the first, then 1, 2, ... for `more`.
    """

    paths: list[Path]
    origins: list[int]
    options: RecordingOptions
    segments: list[Segment]
    left_out: dict[str, str]
    forms: list[str]

    def place(self, segment: Segment) -> str:
        """Describe the location of a segment."""
        return (
            f"{self.paths[segment.file].name}, rows {segment.start} to {segment.start + len(segment.values)},"
        )


def divide_recorded(
    recorded: Recorded, held_out: HeldOutFiles, seed: int, strict: bool
) -> tuple[list[list[Segment]], list[str]]:
    """Return the segments of the three parts; with `strict`, refuse a random part that lacks a class."""
    (window, hop), names = recorded.options.window_and_hop, {each.label for each in recorded.segments}
    origin, group = recorded.origins, str(recorded.options.group)
    segments, copies = without_copies(recorded.segments, window, origin)
    remarks = [f"{recorded.place(copy)} left out: a copy of rows in another file" for copy in copies[:3]]
    remarks += [f"and {len(copies) - 3} more copies"] if len(copies) > 3 else []
    own = [[each for each in segments if origin[each.file] == number] for number in range(max(origin) + 1)]
    held = {each.group for part in own[1:] for each in part}
    shared = sorted({each.group for each in own[0]} & held)
    remarks += [f"{group} {listed(shared)} left out of training: in --validation or --test"] if shared else []
    kept = [each for each in own[0] if each.group not in held]
    lacking(kept, PARTS[0], names, window)
    parts = divide(kept, group, seed, window, hop, held_out.shares)
    for number, part in enumerate(held_out.parts, 1):
        parts[part] = own[number]
    lacking(parts[0], PARTS[0], names, window)
    for part in (1, 2):
        try:
            lacking(parts[part], PARTS[part], names, window)
        except Lacking as reason:
            if (strict and part not in held_out.parts) or not any(
                each.windows(window, hop) for each in parts[part]
            ):
                raise
            remarks.append(str(reason))
        held_values, values = ([each.values for each in parts[number]] for number in (part, 0))
        count = repeated_windows(held_values, values, window, hop)
        remarks += [f"training has {count} windows of {PARTS[part]} too: recordings overlap"] if count else []
    return parts, remarks
