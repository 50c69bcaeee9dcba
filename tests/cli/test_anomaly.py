"""`train --goal anomaly` writes a detector that eval, predict, export and cost take, and others refuse."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.estimators.detector_folder import Detected, DetectorFolder
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.overflow import readout_bound
from tests.conftest import Command


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    """A folder with normal.csv, and new.csv whose second half is broken."""
    rng = np.random.default_rng(0)
    for name, rows in (("normal", 800), ("new", 600)):
        time = np.arange(rows)
        pump = np.stack([np.sin(time / 4), 40 * np.cos(time / 4)], axis=1)
        pump = pump + rng.normal(0, 0.05, pump.shape) * [1, 40]
        anomaly = np.zeros(rows, int)
        if name == "new":
            pump[300:, 1] *= -1
            anomaly[300:] = 1
        lines = [
            f"{t};{a:.4f};{b:.4f};on;{flag}" for t, (a, b), flag in zip(time, pump, anomaly, strict=True)
        ]
        (tmp_path / f"{name}.csv").write_text("\n".join(["time;a;b;state;anomaly", *lines]) + "\n")
    return tmp_path


@pytest.fixture
def run(recordings: Path, command: Command) -> Path:
    folder = recordings / "run"
    answer = command("train", recordings / "normal.csv", "--goal", "anomaly", "--out", folder)
    assert answer.status == 0 and "fitted to 800 rows of 2 channels" in answer.out
    return folder


def test_a_detector_is_measured_by_f1_false_alarms_and_misses(
    run: Path, recordings: Path, command: Command
) -> None:
    found = json.loads(command("eval", run, recordings / "new.csv", "--json").out)

    assert found["f1"] > 0.9 and found["false_alarm_rate"] < 0.1 and found["missed_rate"] < 0.1
    assert (found["samples"], found["anomalies"]) == (600, 300)
    normal = json.loads(command("eval", run, recordings / "normal.csv", "--json").out)
    assert normal["missed_rate"] is None and normal["anomalies"] == 0
    assert "F1 1.000" in command("eval", run, recordings / "new.csv", "--integer").out


def test_rows_are_predicted_with_their_scores(run: Path, recordings: Path, command: Command) -> None:
    out = recordings / "scores.csv"
    assert command("predict", run, recordings / "new.csv", "--out", out).status == 0
    lines = out.read_text().splitlines()
    judged = DetectorFolder.open(run).judge(recordings / "new.csv")

    assert lines[0] == "file,row,score,prediction" and len(lines) == 601
    assert lines[601 - 1].endswith(f",599,{judged.scores[-1]},anomaly")
    assert lines[100].endswith("normal") and lines[1].endswith(",0,0.0,normal")
    assert command("predict", run, recordings / "new.csv", "--out", recordings / "scores.npz").status == 0
    with np.load(recordings / "scores.npz") as arrays:
        np.testing.assert_array_equal(arrays["logits"][:, 0], judged.scores)
        assert arrays["files"][0] == str(recordings / "new.csv")


def test_each_file_of_a_folder_is_a_stream(run: Path, recordings: Path, command: Command) -> None:
    both = recordings / "both"
    both.mkdir()
    for name in ("a.csv", "b.csv"):
        shutil.copy(recordings / "new.csv", both / name)
    judged = DetectorFolder.open(run).judge(both)

    np.testing.assert_array_equal(judged.scores[:600], judged.scores[600:])


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("make") is None, reason="no compiler")
def test_a_detector_is_exported_with_its_stage(run: Path, recordings: Path, command: Command) -> None:
    out = recordings / "c"
    exported = command("export", run, "--to", "c", "--out", out, "--name", "pump")
    assert exported.status == 0 and "golden vectors: random codes\n" in exported.out
    tested = subprocess.run(["make", "-C", str(out), "test"], capture_output=True, text=True, check=True)

    assert "pump_detector: passed" in tested.stdout
    assert command("cost", run).status == 0
    assert command("export", run, "--to", "js", "--out", recordings / "js").status == 0


def test_settings_of_the_network_are_those_of_the_command(recordings: Path, command: Command) -> None:
    options = ("--hidden-size", 16, "--leak", "1,2", "--weight-bits", 4, "--seed", 3, "--columns", "b")
    out = recordings / "small"
    assert (
        command("train", recordings / "normal.csv", "--goal", "anomaly", "--out", out, *options).status == 0
    )
    model = IntegerModel.load(out / "model.int.safetensors")

    assert (model.hidden_size, model.network.num_blocks, model.weight_bits, model.input_size) == (16, 2, 4, 1)
    assert max(readout_bound(model)) < 2**31


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("train", "new.csv", "--goal", "anomaly", "--out", "x"), "are labelled as anomalies"),
        (("train", "normal.csv", "--goal", "anomaly"), "--out RUN"),
        (("train", "--goal", "anomaly", "--out", "x"), "TASK must be a file or a folder of them, got none"),
        (("train", "digits", "--goal", "anomaly", "--out", "x"), "TASK must be a file or a folder"),
        (("train", "normal.csv", "--goal", "anomaly", "--out", "run"), "must be a new or empty folder"),
        (
            ("train", "normal.csv", "--goal", "anomaly", "--out", "x", "--epochs", "3"),
            "--epochs has no effect",
        ),
        (("train", "normal.csv", "--goal", "anomaly", "--out", "x", "--label", "a"), "--label has no effect"),
        (("train", "normal.csv", "--goal", "other", "--out", "x"), "--goal"),
        (("train", "--goal", "anomaly", "--resume", "run"), "--goal has no effect with --resume"),
        (("train", "normal.csv", "--goal", "anomaly", "--out", "x", "--columns", "c"), "has no column 'c'"),
        (("eval", "run"), "has no test data of its own"),
        (("eval", "run", "new.csv", "--split", "train"), "--split has no effect on an anomaly detector"),
        (("quantize", "run"), "whose network is in integers already"),
        (("tune", "run", "new.csv", "--false-alarms-per-hour", "1"), "which raises alarms by itself"),
        (("export", "run", "--to", "page", "--out", "x"), "has no form for --to page"),
        (("export", "run", "--to", "onnx", "--out", "x"), "has no form for --to onnx"),
        (("train", "--resume", "run"), "must be a run folder"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_line(
    run: Path,
    recordings: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(recordings)
    answer = command(*arguments)

    assert answer.status == 2 and message in answer.err and len(answer.err.splitlines()) == 1
    assert not (recordings / "x").exists()


def test_a_label_other_than_0_and_1_is_refused(run: Path, recordings: Path, command: Command) -> None:
    text = (recordings / "new.csv").read_text()
    for changed, message in (
        (text.replace(";on;1", ";on;2"), "must be 1 for anomalies and 0"),
        (text.replace(";anomaly", ";fault"), "is measured by a column of 0 and 1"),
    ):
        (recordings / "other.csv").write_text(changed)
        answer = command("eval", run, recordings / "other.csv")
        assert answer.status == 2 and message in answer.err


def test_figures_of_alarms_are_the_published_ones() -> None:
    truth = np.array([1, 1, 1, 0, 0, 0, 0, 0], bool)
    alarms = np.array([1, 1, 0, 1, 0, 0, 0, 0], bool)

    found = Detected.of(truth, alarms)

    assert found.f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    assert found.false_alarm_rate == pytest.approx(0.2)
    assert found.missed_rate == pytest.approx(1 / 3)
    assert Detected.of(truth[4:], alarms[4:]).f1 is None


def test_margin_smoothing_and_quantile_are_those_of_the_detector(
    run: Path, recordings: Path, command: Command
) -> None:
    given = ("--margin", 4, "--smoothing", 1, "--quantile", 0.5)
    strict = recordings / "strict"
    answer = command("train", recordings / "normal.csv", "--goal", "anomaly", "--out", strict, *given)
    usual, other = (DetectorFolder.open(each).detection for each in (run, strict))

    assert answer.status == 0 and (other.smoothing, usual.smoothing) == (1, 3)
    assert other.threshold != usual.threshold and other.warmup == usual.warmup == 8
    refused = command("train", recordings / "normal.csv", "--margin", 4, "--out", recordings / "x")
    assert refused.status == 2 and "--margin has no effect without --goal anomaly" in refused.err
