"""DSA-19: nineteen daily and sports activities from body-worn sensors (UCI)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.files import DataFile, fetch
from hadamrnn.data.numbers import read_numbers
from hadamrnn.data.splits import Split, Splits, raw_unit, standardise
from hadamrnn.errors import InputError

STEPS, CHANNELS = 125, 45
# The paper does not say which people are in which part. Half of the eight are for test; of the other
# four one is for validation.
SUBJECTS = {"train": (1, 2, 3), "validation": (4,), "test": (5, 6, 7, 8)}
NOTE = "people 1-3 train, 4 validation, 5-8 test: the paper does not name its split"
ACTIVITIES = (
    "sitting",
    "standing",
    "lying on back",
    "lying on right side",
    "ascending stairs",
    "descending stairs",
    "standing in an elevator",
    "moving around in an elevator",
    "walking in a parking lot",
    "walking on a flat treadmill",
    "walking on an inclined treadmill",
    "running on a treadmill",
    "exercising on a stepper",
    "exercising on a cross trainer",
    "cycling horizontally",
    "cycling vertically",
    "rowing",
    "jumping",
    "playing basketball",
)

ORIGINAL = DataFile(
    paths=("dsa/data", "daily+and+sports+activities/data", "data"),
    home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
    url="https://archive.ics.uci.edu/static/public/256/daily+and+sports+activities.zip",
    sha256=None,  # no published checksum is known
    archive="daily+and+sports+activities.zip",
)


def load_dsa19(data_dir: str | Path | None = None) -> Splits:
    """Return DSA-19 split by subject, channels standardised with the statistics of the training part."""
    folder = fetch(ORIGINAL, data_dir)
    parts = {part: _read_subjects(folder, subjects) for part, subjects in SUBJECTS.items()}
    offset, scale = standardise(parts["train"][0])
    train, validation, test = (Split((x - offset) / scale, y) for x, y in parts.values())
    return Splits(
        task="dsa19",
        train=train,
        validation=validation,
        test=test,
        seq_length=STEPS,
        input_size=CHANNELS,
        output_size=len(ACTIVITIES),
        class_names=ACTIVITIES,
        offset=offset,
        scale=scale,
        raw_unit=raw_unit(parts["train"][0]),
        note=NOTE,
    )


def _read_subjects(folder: Path, subjects: tuple[int, ...]) -> tuple[torch.Tensor, torch.Tensor]:
    """Read `aXX/pX/sXX.txt`: activity, person, segment of five seconds. Labels are activity - 1."""
    segments: list[NDArray[np.float32]] = []
    labels: list[int] = []
    for label in range(len(ACTIVITIES)):
        for subject in subjects:
            place = folder / f"a{label + 1:02d}" / f"p{subject}"
            files = sorted(place.glob("s[0-9][0-9].txt"))
            if not files:
                raise InputError(f"DSA-19 needs files s01.txt ... s60.txt in {place}, found none.")
            segments += [read_segment(file) for file in files]
            labels += [label] * len(files)
    return torch.from_numpy(np.stack(segments)), torch.tensor(labels)


def read_segment(path: Path) -> NDArray[np.float32]:
    """Return one segment, `(125, 45)`: a line of 45 comma-separated numbers per step."""
    segment = read_numbers(path, delimiter=",")
    if segment.shape != (STEPS, CHANNELS) or not np.isfinite(segment).all():
        lines, numbers = segment.shape
        raise InputError(
            f"{path} must hold {STEPS} lines of {CHANNELS} finite numbers, got {lines} of {numbers}."
        )
    return segment
