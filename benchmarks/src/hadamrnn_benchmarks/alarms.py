"""Write the table of `docs/alarms.md`: does a false-alarm rate hold on recordings that `tune` did not use?

A recording is a person of UCI HAR or DSA-19, one activity after another, or a series of Google-12 clips
separated by noise. A network is trained on some of the people. The others are cross-validated: a decision is
tuned at several rates on all but one group, and measured on that group. Start at `run_alarms`.
"""

from __future__ import annotations

import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, median
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hadamrnn.data.files import DataFile, fetch
from hadamrnn.data.har import ACTIVITIES, CHANNELS, HarPart, read_har
from hadamrnn.run import Run, train
from hadamrnn.streams import (
    Report,
    Stream,
    choose,
    choose_background,
    compare,
    raise_events,
    read_streams,
    try_decisions,
)
from hadamrnn.training.config import resolve_config
from hadamrnn_benchmarks.markdown import markdown_table
from hadamrnn_paper.data.keywords import FILES as KEYWORD_FILES
from hadamrnn_paper.data.keywords import WORDS, expand

DSA = tuple(
    DataFile(
        paths=(f"dsa19/dsa19_p{person}.npz",),
        home="https://archive.ics.uci.edu/dataset/256/daily+and+sports+activities",
        obtain="the 45 channels of a person as int16 codes, and the value of a code of each",
    )
    for person in range(1, 9)
)
DSA_TRAIN, HAR_TRAIN = 4, 12  # number of training people; the others are for tuning and measuring
DSA_CHANNELS = 9  # channels of the sensor on the torso
SPORTS = (
    *("sitting", "standing", "lying on back", "lying on side", "ascending", "descending"),
    *("elevator", "moving in elevator", "walking", "treadmill", "treadmill uphill", "running", "stepper"),
    *("cross trainer", "bike", "bike upright", "rowing", "jumping", "basketball"),
)
RESTING = ("sitting", "standing", "lying on back", "lying on side", "elevator", "moving in elevator")
SOUND_RATE = 16_000
PAUSES = (1.0, 3.0)  # seconds of noise between clips
TITLE = "# Alarms in long recordings, measured"
INTRODUCTION = """\
{title}

If you ask `hadamrnn tune` for at most so many false alarms per hour, does that hold on recordings that it
has not seen? Each recording is of one person: in UCI HAR one activity after the other, in DSA-19 (nine
channels at the torso) minutes in random order, in Google-12 clips in random order between stretches of
noise. Some classes are background: sitting, standing and lying in UCI HAR, resting and lifts in DSA-19,
silence and other words in Google-12. Every other stretch of one class is an incident.

Networks of the default preset were trained on {har} people of UCI HAR, on {dsa} of DSA-19, and on clips
of the training speakers of Google-12. The other people (six groups of speakers in Google-12) were
cross-validated in up to six folds: a decision was tuned on the rest and measured on those left out.
*Asked* is the rate requested from `tune`, *tuned* the mean rate on the recordings that were used for
tuning, *measured* the rate on those left out, *worst* the same for the person or group with the most
false alarms.

{verdict}

A rate is a mean over people, and a single person whom the network does not understand may cause most of
the false alarms: tune on many people rather than on long recordings of a few. If a stricter decision
detects as many incidents, `tune` takes it and stays below the requested rate. C and JavaScript raise the
same events as Python at the same samples: a test feeds these recordings to C.
"""
ORIGIN = "Written by `hadamrnn bench alarms --out docs/alarms.md`; do not edit."
TRAIN, OTHERS = "train", "others"
FOLDS = 6
Recording = tuple[NDArray[Any], NDArray[np.object_]]  # values (rows, channels), and the label of each row


@dataclass(frozen=True)
class AlarmRow:
    """The results of decisions on recordings that they were not tuned on. Rates are in events per hour."""

    recordings: str
    people: int
    asked: float
    tuned: float  # mean over the decisions
    measured: float
    worst: float  # largest over the recordings
    hours: float
    incidents: int
    detected: int
    latency: float | None  # median, in seconds


@dataclass(frozen=True)
class Source:
    """Recordings in three parts, the recipe for a network, and the requested rates."""

    read: Callable[[str | Path | None], Iterator[tuple[str, Recording]]]  # part and recording
    columns: tuple[str, ...]
    rate: int
    asked: tuple[float, ...]
    options: dict[str, Any]
    settings: dict[str, Any] = field(default_factory=dict)
    background: tuple[str, ...] = ()


def read_people(data_dir: str | Path | None) -> Iterator[tuple[str, Recording]]:
    """Yield a recording of each person in UCI HAR."""
    parts = read_har(data_dir)
    people = sorted((int(person), number) for number in (0, 1) for person in np.unique(parts[number].subject))
    for count, (person, number) in enumerate(people):
        windows = parts[number]
        yield TRAIN if count < HAR_TRAIN else OTHERS, _joined(windows, windows.subject == person)


def _joined(part: HarPart, rows: NDArray[np.bool_]) -> Recording:
    """Join windows that overlap by half into one recording."""
    windows, activities = part.x[rows], part.activity[rows]
    half = windows.shape[1] // 2
    follows = [False, *(np.abs(windows[1:, :half] - windows[:-1, half:]).max((1, 2)) < 1e-6).tolist()]
    pieces = [window[half:] if joins else window for window, joins in zip(windows, follows, strict=True)]
    labels = [
        np.full(len(each), ACTIVITIES[k - 1], object) for each, k in zip(pieces, activities, strict=True)
    ]
    return np.concatenate(pieces), np.concatenate(labels)


def read_sports(data_dir: str | Path | None) -> Iterator[tuple[str, Recording]]:
    """Yield a recording of each person in DSA-19: five minutes of every activity, in pieces of one minute."""
    for person, file in enumerate(DSA, 1):
        with np.load(fetch(file, data_dir)) as arrays:
            values = arrays["x"][:, :DSA_CHANNELS] * arrays["step"][:DSA_CHANNELS, None, None]
        activities, channels, segments, steps = values.shape
        minutes = values.transpose(0, 2, 3, 1).reshape(activities, 5, segments * steps // 5, channels)
        order = np.random.RandomState(person).permutation(activities * 5)
        labels = np.array(SPORTS, object).repeat(5)[order].repeat(minutes.shape[2])
        part = TRAIN if person <= DSA_TRAIN else OTHERS
        yield part, (minutes.reshape(-1, *minutes.shape[2:])[order].reshape(-1, channels), labels)


def read_words(data_dir: str | Path | None) -> Iterator[tuple[str, Recording]]:
    """Yield recordings of Google-12 clips separated by noise; test speakers are not in the training part."""
    with np.load(fetch(KEYWORD_FILES["sound"], data_dir)) as arrays:
        sets = {name: (expand(arrays[f"x_{name}"]), arrays[f"y_{name}"]) for name in ("train", "test")}
        speakers = np.array([name.split(b"/")[-1].split(b"_")[0] for name in arrays["clip_test"]])
    clips, labels = sets["train"]
    noise, words = clips[labels == 0], np.random.RandomState(0).permutation(np.flatnonzero(labels))
    for part in np.array_split(words, 2 * FOLDS):
        yield TRAIN, _between_noise(clips[part], labels[part], noise[::2])
    clips, labels = sets["test"]
    noise, group = clips[labels == 0], np.unique(speakers, return_inverse=True)[1] % FOLDS
    for number in range(FOLDS):
        rows = (group == number) & (labels > 0)
        yield OTHERS, _between_noise(clips[rows], labels[rows], noise[number::FOLDS])


def _between_noise(clips: NDArray[Any], labels: NDArray[Any], noise: NDArray[Any]) -> Recording:
    """Concatenate clips in random order, with noise before each clip and a tenth of the noise added to it."""
    random, sounds, names = np.random.RandomState(len(clips)), [], []
    for clip in random.permutation(len(clips)):
        pause, level = int(random.uniform(*PAUSES) * SOUND_RATE), random.uniform(0.2, 1)
        sound = level * noise[random.randint(len(noise), size=pause // SOUND_RATE + 2)].reshape(-1)
        sound = sound[: pause + SOUND_RATE]
        sound[pause:] = 0.1 * sound[pause:] + clips[clip]
        sounds.append(np.clip(np.rint(sound), -32768, 32767).astype(np.int16))
        names += [np.full(pause, WORDS[0], object), np.full(SOUND_RATE, WORDS[labels[clip]], object)]
    return np.concatenate(sounds)[:, None], np.concatenate(names)


SOURCES = {
    "UCI HAR": Source(
        read_people,
        CHANNELS,
        rate=50,
        asked=(10.0, 20.0, 40.0),
        options={"window": 128, "hop": 32},
        background=("sitting", "standing", "laying"),
    ),
    "DSA-19": Source(
        read_sports,
        tuple(f"c{number}" for number in range(DSA_CHANNELS)),
        rate=25,
        asked=(10.0, 20.0, 40.0),
        options={"window": 125, "hop": 25},
        background=RESTING,
    ),
    "Google-12 and noise": Source(
        read_words,
        ("sound",),
        rate=SOUND_RATE,
        asked=(20.0, 40.0, 80.0),
        options={
            "features": "mel",
            "rate": SOUND_RATE,
            "frame": 400,
            "frame_hop": 160,
            "window": 16_000,
            "hop": 4000,
        },
    ),
}


def run_alarms(data_dir: str | Path | None = None) -> list[AlarmRow]:
    """Measure each source at each requested rate."""
    rows = []
    for name, source in SOURCES.items():
        with tempfile.TemporaryDirectory() as place:
            write_recordings(source, Path(place), data_dir)
            run = train_network(source, Path(place))
            rows += measure(name, source, run, *read_streams(run, Path(place) / OTHERS))
    return rows


def alarms_page(rows: Sequence[AlarmRow]) -> str:
    """Return the Markdown of the page."""
    most = max(row.measured / row.asked for row in rows)
    verdict = textwrap.fill(
        f"Over all people left out, the false alarms measured are at most {most:.2f} times those asked for.",
        108,
    )
    header = (
        *("recordings", "people", "hours", "asked", "tuned", "measured"),
        *("measured / asked", "worst", "detected", "after"),
    )
    lines = [
        (
            row.recordings,
            str(row.people),
            f"{row.hours:.1f}",
            f"{row.asked:g}",
            f"{row.tuned:.1f}",
            f"{row.measured:.1f}",
            f"{row.measured / row.asked:.2f}",
            f"{row.worst:.0f}",
            f"{row.detected} of {row.incidents}",
            "-" if row.latency is None else f"{row.latency:.1f} s",
        )
        for row in rows
    ]
    head = INTRODUCTION.format(title=TITLE, har=HAR_TRAIN, dsa=DSA_TRAIN, verdict=verdict)
    return f"{head}\n{markdown_table(header, lines, numbers=9)}\n\n{ORIGIN}\n"


def write_recordings(source: Source, folder: Path, data_dir: str | Path | None) -> None:
    """Write the recordings of a source as parquet files, with one folder for each part."""
    for number, (part, (values, labels)) in enumerate(source.read(data_dir)):
        (folder / part).mkdir(parents=True, exist_ok=True)
        frame = pd.DataFrame(values, columns=list(source.columns))
        frame["label"] = pd.Categorical(labels)
        frame.to_parquet(folder / part / f"{number:02}.parquet")


def train_network(source: Source, folder: Path) -> Run:
    """Train and quantize a network on the recordings of the first part."""
    task_options = {"path": str(folder / TRAIN), "label": "label", "group": "file", **source.options}
    config = resolve_config("recordings", overrides={**source.settings, "task_options": task_options})
    run = train(config, folder / "run")
    run.quantize()
    return run


def measure(
    name: str, source: Source, run: Run, streams: list[Stream], window: int, hop: int
) -> list[AlarmRow]:
    """Return a row for each requested rate."""
    names, rate = run.facts.class_names, source.rate
    background = choose_background(streams, names, source.background)
    tolerance = window * streams[0].rows_per_step
    tuned: dict[float, list[float]] = {asked: [] for asked in source.asked}
    reports: dict[float, list[Report]] = {asked: [] for asked in source.asked}
    for fold in range(min(FOLDS, len(streams))):
        others = [stream for number, stream in enumerate(streams) if number % FOLDS != fold]
        tried = try_decisions(others, names, background, rate, window, hop)
        for asked in source.asked:
            decision, report = choose(tried, asked)
            tuned[asked].append(report.per_hour)
            for stream in streams[fold::FOLDS]:
                raised = [raise_events(stream, decision)]
                reports[asked].append(compare([stream], raised, names, background, tolerance, rate))
    return [_row(name, asked, tuned[asked], reports[asked]) for asked in source.asked]


def _row(name: str, asked: float, tuned: list[float], reports: list[Report]) -> AlarmRow:
    hours = sum(each.hours for each in reports)
    latencies = [seconds for each in reports for seconds in each.latencies]
    return AlarmRow(
        name,
        people=len(reports),
        asked=asked,
        tuned=fmean(tuned),
        measured=sum(each.false_alarms for each in reports) / hours,
        worst=max(each.per_hour for each in reports),
        hours=hours,
        incidents=sum(each.incidents for each in reports),
        detected=len(latencies),
        latency=median(latencies) if latencies else None,
    )
