"""Divide recordings into training, validation and test, and report what parts lack or share with training.

The rules are in `segments`. Start at `divide_recorded`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from hadamrnn.data.options import HeldOutFiles, RecordingOptions
from hadamrnn.data.repeats import repeated_windows
from hadamrnn.data.samples import PARTS
from hadamrnn.data.segments import Lacking, Segment, divide, lacking, without_copies
from hadamrnn.data.tables import listed


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
