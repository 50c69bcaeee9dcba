"""A folder with a recording of each person goes to C in two commands."""

from __future__ import annotations

import csv
import functools
import json
import os
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn import Engine, encode_raw, fixedpoint
from hadamrnn.data.har import ACTIVITIES, CHANNELS, read_har
from hadamrnn.files import INTEGER_FILE
from tests.conftest import Command

PEOPLE, WINDOWS = 8, 16  # and so many windows of each activity
GRID = 2.0**-10  # resolution of the sensor
SMALL = ("--epochs", 8, "--threads", 1)


read_once = functools.cache(read_har)


def recorded(person: int) -> tuple[NDArray[np.float64], list[str]]:
    """Return a person's rows `(time, 9)`, rounded to the sensor's grid, and the activities."""
    values, activities = measured(person)
    return np.rint(values.astype(np.float64) / GRID) * GRID, activities


def measured(person: int) -> tuple[NDArray[np.float32], list[str]]:
    """Return UCI HAR if it is found, else similar waves."""
    if "HADAMRNN_DATA" in os.environ:
        train, _ = read_once()
        subject = np.unique(train.subject)[person]
        rows = [
            np.flatnonzero((train.subject == subject) & (train.activity == activity))[:WINDOWS]
            for activity in range(1, 7)
        ]
        chosen = np.concatenate(rows)
        halves = train.x[chosen, :64].reshape(-1, 9)  # windows overlap by half
        return halves, [ACTIVITIES[activity - 1] for activity in train.activity[chosen] for _ in range(64)]
    rng = np.random.default_rng(person)
    time = np.arange(64 * WINDOWS)[:, None]
    posture = np.random.default_rng(0).normal(size=(6, 9))
    parts = [np.sin(time / (3 + 2 * number) + rng.uniform(0, 6, 9)) + posture[number] for number in range(6)]
    noise = rng.normal(0, 0.2, (6 * len(time), 9))
    return (np.concatenate(parts) + noise).astype(np.float32), np.repeat(ACTIVITIES, len(time)).tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh folder with `people/` and, beside it, `new.csv` of one more person."""
    place = tmp_path_factory.mktemp("fresh")
    (place / "people").mkdir()
    for person in range(PEOPLE + 1):
        values, activities = recorded(person)
        path = place / (f"people/{person}.csv" if person < PEOPLE else "new.csv")
        with path.open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["time", *CHANNELS, "activity"])
            for step, (row, activity) in enumerate(zip(values, activities, strict=True)):
                writer.writerow([step / 50, *(f"{value:.12f}" for value in row), activity])
    return place


@pytest.mark.slow
def test_a_recording_of_each_person_becomes_c_in_two_commands(
    folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    trained = command("train", "people", "--out", "run", *SMALL)
    assert trained.status == 0 and "parts       by file (assumed; --group changes it)" in trained.err
    exported = command("export", "run", "--to", "c", "--out", "c", "--name", "motion")
    assert exported.status == 0 and "integer   accuracy" in exported.out and "wrote c;" in exported.out
    if shutil.which("cc") and shutil.which("make"):
        subprocess.run(["make", "-C", "c", "test"], check=True, capture_output=True)

    answer = json.loads(command("eval", "run", "new.csv", "--integer", "--page", "e.html", "--json").out)
    assert answer["value"] > 0.5 and answer["samples"] == int(np.sum(answer["confusion"]))
    assert set(answer["recall"]) == set(ACTIVITIES)
    page = Path("e.html").read_text()
    assert "<svg" in page and all(name in page for name in ACTIVITIES)

    assert command("predict", "run", "new.csv", "--integer", "--out", "said.csv").status == 0
    said = list(csv.DictReader(Path("said.csv").read_text().splitlines()))
    assert {row["prediction"] for row in said} <= set(ACTIVITIES) and {row["file"] for row in said} == {
        "new.csv"
    }

    # The integers read the same raw values as C, without the standardisation of the run.
    model = fixedpoint.load(Path("run") / INTEGER_FILE)
    values, _ = recorded(PEOPLE)
    raw = values / float(str(model.metadata["raw_unit"]))
    assert np.array_equal(raw, np.rint(raw))  # the sensor's grid is whole codes
    starts = [int(row["row"]) for row in said]
    codes, _ = encode_raw(model, np.stack([raw[start : start + 128] for start in starts]).astype(np.int64))
    names = json.loads(str(model.metadata["class_names"]))
    assert [names[label] for label in Engine(model).run(codes).logits.argmax(1)] == [
        row["prediction"] for row in said
    ]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--columns", "accx"), "has no column 'accx'"),
        (("--label", "gait"), "has no column 'gait'"),
        (("--label", "folder"), "two classes or more, got 'people' alone"),
        (("--window", 100_000), "the longest run has"),
        (("--columns", "activity,body_acc_x"), "a channel or the label"),
        (("--window", "wide"), "--window must be int"),
    ],
)
def test_bad_options_are_one_line_and_leave_no_run(
    arguments: tuple[object, ...], said: str, folder: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    answer = command("train", "people", "--out", "bad", *SMALL, *arguments)

    assert answer.status == 2 and said in answer.err and answer.err.count("\n") == 1
    assert not Path("bad").exists()


def test_options_of_recordings_are_refused_for_a_task(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits", "--window", 8, "--out", tmp_path / "run")
    assert answer.status == 2 and "--window says how to read recordings" in answer.err


def test_one_long_array_is_cut_where_a_window_is_named(command: Command, tmp_path: Path) -> None:
    steps = np.arange(4000)
    x = np.stack([np.sin(steps / 5), np.cos(steps / 7), np.sin(steps / 9)], axis=1)
    np.savez(tmp_path / "long.npz", x=x, y=steps // 500 % 2)
    whole = ("train", tmp_path / "long.npz", "--epochs", 1, "--quiet", "--out")

    refused = command(*whole, tmp_path / "a")
    assert refused.status == 2 and "looks like one recording" in refused.err and "--window N" in refused.err
    for shape in (x[:, 0], x[None]):
        np.savez(tmp_path / "other.npz", x=shape, y=steps // 500 % 2)
        refused = command("train", tmp_path / "other.npz", "--out", tmp_path / "a")
        assert refused.status == 2 and "--window N" in refused.err
    assert command(*whole, tmp_path / "b", "--window", 40).status == 0
    assert json.loads(command("eval", tmp_path / "b", "--json").out)["note"] == "split in time"
    for name in ("eval", "predict"):
        refused = command(name, tmp_path / "b", tmp_path / "long.npz", "--layout", "channels-first")
        assert refused.status == 2 and "--layout has no effect on recordings" in refused.err
