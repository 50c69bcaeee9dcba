"""Declare the options for reading recordings, shared by the task, `read_recordings` and the commands."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from hadamrnn.front_end import KINDS, MAX_FRAME, MAX_RATE, MIN_FRAME, MIN_HOP, MIN_RATE, FrontEnd
from hadamrnn.settings import OneOf, Range, option, validate_fields

HELD_OUT = 0.15  # fraction of each class for validation, and again for testing
STEPS = 128  # default window length
Steps = Annotated[int, Range(1, 1 << 20)]
Rate = Annotated[float, Range(0, 1e9, "(]")]  # one sample per minute is 1/60


@dataclass(frozen=True, kw_only=True)
class RecordingOptions:
    """The columns that are channels, and the sources of labels, groups and windows."""

    label: str | None = option(
        None,
        "recordings: where labels come from: a column, file (the file's name up to the first _) or folder "
        "(one per class); default: a column with a usual name, such as label",
    )
    target: str | None = option(
        None, "recordings: a column of values to predict, at the last row of each window, instead of labels"
    )
    group: str | None = option(
        None,
        "recordings: what training and test data must not share: a column (such as person), file, folder, "
        "a pattern whose brackets match part of the file's name, such as 'load(\\d)'; or time, to divide "
        "every recording in time (default: depends on the recordings, and is reported)",
    )
    window: Steps | None = option(None, f"recordings: rows in a window (default {STEPS})")
    hop: Steps | None = option(
        None, "recordings: rows from the start of one window to the next (default: half a window)"
    )
    columns: tuple[str, ...] = option(
        (), "recordings: columns to read (default: all numeric columns except clocks)"
    )

    features: Annotated[str, OneOf(("none", *KINDS))] | None = option(
        None,
        "recordings: none, mel (sound) or bands (vibration): the network reads log energies of bands, "
        "computed in integers (default: mel for WAV files, else none)",
    )
    rate: Rate | None = option(None, "recordings: samples per second (default: as in the WAV files)")
    resample: Annotated[int, Range(MIN_RATE, MAX_RATE)] | None = option(
        None, "recordings: resample WAV files to this many samples per second (default: as they are)"
    )
    frame: Annotated[int, Range(MIN_FRAME, MAX_FRAME)] | None = option(
        None, "features: samples in a frame (default: depends on the rate)"
    )
    frame_hop: Annotated[int, Range(MIN_HOP, MAX_FRAME)] | None = option(
        None, "features: samples from the start of one frame to the next (default: depends on the rate)"
    )
    bands: Annotated[int, Range(8, 64)] | None = option(None, "features: frequency bands (default 32)")
    unit: Annotated[float, Range(0.0, 1e30, "(]")] | None = option(
        None, "features: value of one sample code (default: 1 for 16-bit integers)"
    )

    def __post_init__(self) -> None:
        validate_fields(self)

    @classmethod
    def of(cls, options: Mapping[str, Any]) -> RecordingOptions:
        """Return the reading options among a task's options."""
        names = {each.name for each in dataclasses.fields(RecordingOptions)}
        return RecordingOptions(**{name: value for name, value in options.items() if name in names})

    @property
    def window_and_hop(self) -> tuple[int, int]:
        """The lengths of a window and of a hop, in steps.

        >>> RecordingOptions().window_and_hop, RecordingOptions(window=50).window_and_hop
        ((128, 64), (50, 25))
        """
        window = self.window or STEPS
        return window, self.hop or max(window // 2, 1)

    @property
    def front_end(self) -> FrontEnd | None:
        """The front end that the options describe, once `decide` has completed them."""
        if self.features in (None, "none"):
            return None
        sizes: dict[str, Any] = {"frame": self.frame, "hop": self.frame_hop, "bands": self.bands}
        return FrontEnd(kind=str(self.features), rate=int(self.rate or 0), unit=self.unit or 1.0, **sizes)

    def given(self) -> dict[str, Any]:
        """Return the options that were given, as options of the task."""
        values = {each.name: getattr(self, each.name) for each in dataclasses.fields(RecordingOptions)}
        return {name: list(value) if name == "columns" else value for name, value in values.items() if value}


@dataclass(frozen=True, kw_only=True)
class HeldOutFiles:
    """Files or folders that provide the whole validation or test part."""

    validation: Path | None = option(None, "your own data: a file or folder to use as the validation part")
    test: Path | None = option(None, "your own data: a file or folder to use as the test part")

    def __post_init__(self) -> None:
        validate_fields(self)

    @property
    def paths(self) -> tuple[Path, ...]:
        return tuple(path for path in (self.validation, self.test) if path is not None)

    @property
    def parts(self) -> tuple[int, ...]:
        """The numbers of the parts that have their own files: 1 for validation, 2 for test."""
        return tuple(part for part, path in ((1, self.validation), (2, self.test)) if path is not None)

    @property
    def shares(self) -> tuple[float, float]:
        """The fractions for validation and test that must be taken from the other files."""
        validation, test = (HELD_OUT if path is None else 0.0 for path in (self.validation, self.test))
        return validation, test

    def given_files(self) -> dict[str, Any]:
        """Return the files that were given, as options of the task."""
        values = {"validation": self.validation, "test": self.test}
        return {name: str(path.resolve()) for name, path in values.items() if path is not None}


NO_FILES = HeldOutFiles()
