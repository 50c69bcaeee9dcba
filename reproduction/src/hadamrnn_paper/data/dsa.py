"""Load DSA-19: nineteen daily and sports activities from body-worn sensors (UCI)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.files import DataFile, fetch, present
from hadamrnn.data.samples import read_numbers
from hadamrnn.data.scaling import standardised
from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import SMALL_STACK, Task
from hadamrnn.errors import InputError
from hadamrnn.settings import Range

STEPS, CHANNELS, DEVICES = 125, 45, 5  # a device has an accelerometer, a gyroscope and a magnetometer
PEOPLE = (1, 2, 3, 4, 5, 6, 7, 8)
HALF = 4
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

FILES = {
    "original": DataFile(
        paths=("dsa/data", "daily+and+sports+activities/data", "data"),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        url="https://archive.ics.uci.edu/static/public/256/daily+and+sports+activities.zip",
    ),
    "person1": DataFile(
        paths=("dsa19/dsa19_p1.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="050cd00505f48da6f32db50612cb5b8c37cd0307f163066f3eafa30c96025611",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person2": DataFile(
        paths=("dsa19/dsa19_p2.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="4a0351520b7241a3732d3cbafde5583c9b9a7fdcdfce541a92f905f333ca780c",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person3": DataFile(
        paths=("dsa19/dsa19_p3.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="8e08208bbf2296c33da13157b1c863e766b9b58fc7969282e417e481721fc5b9",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person4": DataFile(
        paths=("dsa19/dsa19_p4.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="b8931599bcbe13f3f66045cba48194974aa7705bf78816faa4b76915a0b35c6d",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person5": DataFile(
        paths=("dsa19/dsa19_p5.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="762c2eedea07d528b2e2e4590acdd20026eaa3121f2d66cd87e4a206d230e3ab",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person6": DataFile(
        paths=("dsa19/dsa19_p6.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="b3b7663aae1c6ea19f3bb94355be12900b0bea942758edf00883bbe1814eefd2",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person7": DataFile(
        paths=("dsa19/dsa19_p7.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="0fa5b8426a925f9c6c8083e2d4d23e1c0a819050ea26474e6e58785de2c61ef7",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
    "person8": DataFile(
        paths=("dsa19/dsa19_p8.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        sha256="0d12697836724851e63555813e383c3bee3a0688ee31cef2578ed5a7fc481a13",
        obtain="UCI's recordings as codes; UCI's archive is read if this file is missing",
    ),
}


def load_dsa19(
    data_dir: str | Path | None = None,
    *,
    swap: bool = False,
    left_out: Annotated[int, Range(1, HALF)] | None = HALF,
) -> Splits:
    """Return DSA-19 split by person: four people for training, the other four for testing.

    The paper does not say which half is which. Channels are standardised by the training part's statistics.

    Args:
        swap: train on people 5-8 and test on 1-4, instead of the reverse.
        left_out: which of the four training people, 1 to 4, is kept for validation. None trains on all
            four and validates on the fourth, so the validation figure must not be used for selection.
    """
    ours, others = (PEOPLE[HALF:], PEOPLE[:HALF]) if swap else (PEOPLE[:HALF], PEOPLE[HALF:])
    held = ours[(left_out or HALF) - 1]
    training = tuple(person for person in ours if left_out is None or person != held)
    note = (
        f"people {_listed(training)} train, {held} validation{', who is in training' * (left_out is None)}, "
        f"{_listed(others)} test: the paper does not name its split"
    )
    read = _reader(data_dir)
    parts = [Split(*read(people)) for people in (training, (held,), others)]
    channels = CHANNELS // DEVICES
    return standardised("dsa19", parts, class_names=ACTIVITIES, device_channels=channels, note=note)


def _listed(people: tuple[int, ...]) -> str:
    """Return people as text for a note.

    >>> _listed((1, 2, 3)), _listed((1, 2, 4))
    ('1-3', '1, 2, 4')
    """
    whole = people == tuple(range(people[0], people[-1] + 1))
    return f"{people[0]}-{people[-1]}" if whole else ", ".join(map(str, people))


def _reader(data_dir: str | Path | None) -> Callable[[tuple[int, ...]], tuple[Tensor, Tensor]]:
    """Return a function that reads people, from the compact files if present, else from UCI's text files."""
    if present(FILES["person1"], data_dir):
        paths = {person: fetch(FILES[f"person{person}"], data_dir) for person in PEOPLE}
        return lambda people: read_compact([paths[person] for person in people])
    folder = fetch(FILES["original"], data_dir)
    return lambda people: _read_subjects(folder, people)


def read_compact(paths: list[Path]) -> tuple[Tensor, Tensor]:
    """Return signals and labels; each file has a person's codes `(activity, channel, segment, step)`."""
    people = []
    for path in paths:
        with np.load(path) as arrays:
            codes, units = arrays["x"], arrays["step"]
        signals = (codes * units[:, None, None]).astype(np.float32)
        people.append(signals.transpose(0, 2, 3, 1))  # (activity, segment, step, channel)
    x = np.concatenate(people, axis=1)
    labels = np.repeat(np.arange(len(ACTIVITIES)), x.shape[1])
    return torch.from_numpy(x.reshape(-1, STEPS, CHANNELS)), torch.from_numpy(labels)


def _read_subjects(folder: Path, subjects: tuple[int, ...]) -> tuple[Tensor, Tensor]:
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


# People wear a sensor differently. Leaving out each of DSA-19's people 1 to 4 in turn, preset quick reaches
# 81.5 % on average with rotations of 30 degrees and 75.1 % without.
TURNED = {**SMALL_STACK, "rotation": 30.0}
DSA19 = Task(
    load_dsa19,
    {
        # The paper gives no hyper-parameters for this task; these are MNIST's with fewer epochs.
        "paper": {"hidden_size": 512, "num_blocks": 16, "epochs": 100},
        "quick": {**TURNED, "stride": 2},
        "best": {
            **TURNED,
            "hidden_size": 128,
            "epochs": 20,
            "keep": "last",
            "task_options": {"left_out": None},
        },
    },
    "body-worn sensors, nineteen activities",
    FILES,
)
