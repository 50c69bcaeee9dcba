"""The commands train, eval and predict from end to end: figures, files, refusals, signals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from hadamrnn import run as runs
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.files import locked
from hadamrnn.network import hadamard
from hadamrnn.run import Run
from hadamrnn.training.config import resolve_config
from hadamrnn.training.evaluate import MetricsRow, decide
from hadamrnn.training.loop import Watcher

if TYPE_CHECKING:
    from tests.conftest import Answer, Command

SMALL = ("--hidden-size", 8, "--epochs", 1, "--threads", 1, "--quiet")
OWN = ("--hidden-size", 16, "--epochs", 40, "--batch-size", 8, "--quiet")


def refused(answer: Answer) -> str:
    """Return the one line with which a command refused its input."""
    assert answer.status == 2, answer
    assert answer.out == "" and answer.err.count("\n") == 1 and "Traceback" not in answer.err
    return answer.err


@pytest.fixture
def run(command: Command, tmp_path: Path) -> Path:
    assert command("train", "digits", *SMALL, "--out", tmp_path / "run").status == 0
    return tmp_path / "run"


@pytest.fixture
def arrays(tmp_path: Path) -> Path:
    """Two classes of noisy waves, far from zero mean and unit variance, with names."""
    random = np.random.RandomState(0)
    labels = np.arange(60) % 2
    phase = np.linspace(0, 6, 20)[None, :, None] * (1 + labels[:, None, None])
    x = 50 + 10 * np.sin(phase) + random.randn(60, 20, 3)
    path = tmp_path / "data.npz"
    np.savez(path, x=x, y=np.array(["slow", "fast"])[labels])
    return path


def test_train_then_eval_give_the_figures_of_the_run(command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    trained = command("train", "digits", *SMALL, "--out", run, "--json")
    evaluated = command("eval", run, "--split", "validation", "--json")

    figures, value = json.loads(trained.out), json.loads(evaluated.out)
    assert figures["finished"] and figures["metric"] == value["metric"] == "accuracy"
    assert value["value"] == figures["best_validation"] and value["samples"] == 269


def test_settings_of_the_command_line_reach_the_configuration(command: Command, tmp_path: Path) -> None:
    run = tmp_path / "run"
    more = (
        "--weight-bits",
        "ternary",
        "--balanced",
        "--sign-freeze-epoch",
        "none",
        "--learning-rate",
        "1e-2",
    )
    assert command("train", "digits", *SMALL, *more, "--seed", 3, "--out", run).status == 0

    config = Run.open(run).config
    assert hadamard(config.network).weight_bits == "ternary"
    assert (config.balanced, config.sign_freeze_epoch) == (True, None)
    assert (config.learning_rate, config.seed, config.preset) == (0.01, 3, "quick")


def test_a_runs_configuration_repeats_it_to_the_byte(command: Command, run: Path, tmp_path: Path) -> None:
    again = tmp_path / "again"
    assert command("train", "--config", run / "config.yaml", "--quiet", "--out", again).status == 0

    assert (again / "model.safetensors").read_bytes() == (run / "model.safetensors").read_bytes()


def test_lines_show_epoch_loss_metric_and_time_left(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits", *SMALL[:-1], "--epochs", 2, "--out", tmp_path / "run")

    first, second, following = answer.err.splitlines()
    for word in ("epoch 1/2", "loss", "accuracy", "left"):
        assert word in first
    assert "epoch 2/2" in second and "hadamrnn eval" in following
    assert "best validation: accuracy" in answer.out


def test_quiet_shows_no_progress(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits", *SMALL, "--out", tmp_path / "run")

    assert answer.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("digits",), "--out RUN"),
        (("--out", "new"), "A task is needed"),
        (("digit", "--out", "new"), "Did you mean 'digits'?"),
        (("digits", "--preset", "besst", "--out", "new"), "Did you mean 'best'?"),
        (("digits", "--hidden-size", "many", "--out", "new"), "--hidden-size must be int, got 'many'"),
        (("digits", "--hidden-size", "10", "--out", "new"), "10"),
        (("digits", "--model", "mamba", "--out", "new"), "model must be one of"),
        (("digits", "--epochs", "0", "--out", "new"), "--epochs must lie in 1..1000000, got 0"),
        (("digits", "--task-option", "delay", "--out", "new"), "NAME=VALUE"),
        (("digits", "--task-option", "delay=3", "--out", "new"), "takes no options"),
        (("nowhere.npz", "--out", "new"), "nowhere.npz cannot be read"),
        (("digits", "--config", "nowhere.yaml", "--out", "new"), "nowhere.yaml"),
        (("--resume", "nowhere"), "must be a run folder"),
        (("--resume", "nowhere", "--epochs", "3"), "takes all settings from the run"),
        (("digits", "--resume", "nowhere"), "takes all settings from the run"),
    ],
)
def test_bad_input_takes_one_line_and_leaves_nothing(
    arguments: tuple[str, ...],
    complaint: str,
    command: Command,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert complaint in refused(command("train", *arguments))
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_does_not_overwrite_the_first(command: Command, run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}

    assert "new or empty folder" in refused(command("train", "digits", *SMALL, "--out", run))
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_divergence_takes_one_line(command: Command, tmp_path: Path) -> None:
    answer = command("train", "digits", *SMALL, "--learning-rate", "1e38", "--out", tmp_path / "run")

    assert "diverged" in refused(answer)


def test_predictions_for_ones_own_arrays_are_those_of_the_evaluation(
    command: Command, arrays: Path, tmp_path: Path
) -> None:
    run, out = tmp_path / "run", tmp_path / "predictions.npz"
    trained = command("train", arrays, *OWN, "--out", run)
    assert trained.status == 0
    opened = Run.open(run)
    folder, model = opened, opened.model
    assert command("predict", run, arrays, "--out", out).status == 0
    printed = command("predict", run, arrays).out.split()

    with np.load(arrays) as data, np.load(out) as written:
        offset, scale = torch.tensor(folder.facts.offset), torch.tensor(folder.facts.scale)
        x = (torch.from_numpy(data["x"]).float() - offset) / scale
        expected = decide(model(x)).tolist()
        assert written["prediction"].tolist() == printed
        assert printed == [folder.facts.class_names[label] for label in expected]
        assert written["logits"].shape == (60, 2)
        assert np.mean(data["y"] == np.array(printed)) > 0.9


def test_whole_numbers_are_codes_and_real_ones_are_not(command: Command, run: Path, tmp_path: Path) -> None:
    codes = np.random.RandomState(0).randint(0, 17, (5, 64, 1))
    answers = []
    for name, x in (("codes", codes.astype(np.uint8)), ("reals", codes / 16)):
        np.savez(tmp_path / f"{name}.npz", x=x)
        answers.append(json.loads(command("predict", run, tmp_path / f"{name}.npz", "--json").out))

    assert answers[0] == answers[1] and len(answers[0]["predictions"]) == 5


@pytest.mark.parametrize(
    ("x", "complaint"),
    [
        (np.full((2, 64, 1), np.nan), "must be finite"),
        (np.zeros((2, 64, 3)), "must be 1, got 3"),
        (np.zeros(3), "got float64 of shape (3,)"),
        (np.array([["a"]]), "real numbers"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(
    x: np.ndarray[tuple[int, ...], np.dtype[np.generic]],
    complaint: str,
    command: Command,
    run: Path,
    tmp_path: Path,
) -> None:
    np.savez(tmp_path / "bad.npz", x=x)

    assert complaint in refused(command("predict", run, tmp_path / "bad.npz"))


def test_data_without_labels_has_no_metric(
    command: Command, run: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    splits = load_task("digits")
    unlabelled = replace(splits, test=replace(splits.test, y=None))
    monkeypatch.setattr("hadamrnn.run.load_task", lambda *arguments, **options: unlabelled)

    assert "needs labels" in refused(command("eval", run))
    assert "A metric needs labels" in refused(command("eval", run, "--page", tmp_path / "page.html"))


def test_the_same_seed_gives_the_same_bytes(tmp_path: Path) -> None:
    config = resolve_config(
        "digits", overrides={"epochs": 2, "hidden_size": 8, "dropout": 0.3, "num_layers": 2}
    )
    for name in ("one", "two"):
        runs.train(config, tmp_path / name)

    one, two = (tmp_path / name / "model.safetensors" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()


def test_signals_end_a_run_with_a_checkpoint(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import signal

    class Interrupt(Watcher):
        def advance(self, step: int, loss: float) -> None:
            if step == 5:
                signal.raise_signal(signal.SIGINT)

    run = tmp_path / "run"
    monkeypatch.setattr("hadamrnn.training.loop.choose_watcher", lambda quiet: Interrupt())
    stopped = command("train", "digits", *SMALL, "--out", run, "--json")
    monkeypatch.undo()
    resumed = command("train", "--resume", run, "--quiet", "--json")

    assert (json.loads(stopped.out)["steps"], json.loads(stopped.out)["finished"]) == (5, False)
    assert stopped.status == 130
    assert stopped.err == f"hadamrnn train: stopped by SIGINT; continue with: hadamrnn train --resume {run}\n"
    assert json.loads(resumed.out)["finished"]


def test_a_run_that_is_being_written_is_refused_in_one_line(
    command: Command, run: Path, tmp_path: Path
) -> None:
    (tmp_path / "new").mkdir()
    with locked(run), locked(tmp_path / "new"):
        for arguments in (
            ("train", "--resume", run),
            ("train", "digits", *SMALL, "--out", tmp_path / "new"),
            ("quantize", run),
            ("quantize", run, "--finetune"),
        ):
            assert "Another process is writing" in refused(command(*arguments))


def test_two_resumes_at_once_leave_the_rows_of_one(tmp_path: Path) -> None:
    run = tmp_path / "run"
    config = resolve_config("digits", overrides={"epochs": 2, "hidden_size": 8})
    refusals = []

    class Second(Watcher):
        def row(self, row: MetricsRow, best: bool) -> None:
            with pytest.raises(InputError, match="Another process") as caught:
                runs.resume(run)
            refusals.append(caught)

    runs.train(config, run, runs.RunOptions(watcher=Second()))
    assert len(refusals) == len((run / "metrics.jsonl").read_text().splitlines()) == 2


def test_eval_of_ones_own_arrays_reads_them_and_shows_every_class(
    command: Command, arrays: Path, tmp_path: Path
) -> None:
    run, other = tmp_path / "run", tmp_path / "other.npz"
    assert command("train", arrays, *OWN, "--out", run).status == 0
    with np.load(arrays) as data:
        np.savez(other, x=data["x"][:10], y=np.where(data["y"][:10] == "slow", "fast", "slow"))

    right = json.loads(command("eval", run, arrays, "--json").out)
    wrong = json.loads(command("eval", run, other, "--json").out)
    text = command("eval", run, arrays).out

    assert right["value"] > 0.9 and wrong["value"] < 0.3 and wrong["samples"] == 10
    assert sum(map(sum, right["confusion"])) == 60 and list(right["recall"]) == ["fast", "slow"]
    assert "fast" in text and "recall" in text
    assert "hadamrnn eval" in refused(command("eval", run, "--data-dir", other))
    assert "hadamrnn eval" in refused(command("eval", run, "--data-dir", tmp_path))
    np.savez(other, x=np.zeros((3, 20, 3)), y=np.array(["slow", "fast", "idle"]))
    assert "got 'idle'" in refused(command("eval", run, other))


def test_predictions_never_replace_a_file_by_themselves(
    command: Command, arrays: Path, tmp_path: Path
) -> None:
    run, out = tmp_path / "run", tmp_path / "out.npz"
    assert command("train", arrays, *OWN, "--epochs", 1, "--out", run).status == 0
    before = arrays.read_bytes()
    out.write_text("mine")

    assert "exists" in refused(command("predict", run, arrays, "--out", out))
    assert "must not be the file" in refused(command("predict", run, arrays, "--out", arrays, "--force"))
    assert out.read_text() == "mine" and arrays.read_bytes() == before
    assert command("predict", run, arrays, "--out", out, "--force").status == 0
    assert command("quantize", run).status == 0
    integer = json.loads(command("predict", run, arrays, "--integer", "--json").out)
    assert len(integer["predictions"]) == 60


def test_a_run_knows_its_channels_whatever_the_order_of_the_axes(
    command: Command, arrays: Path, tmp_path: Path
) -> None:
    run, turned = tmp_path / "run", tmp_path / "turned.npz"
    assert command("train", arrays, *OWN, "--epochs", 1, "--out", run).status == 0
    with np.load(arrays) as data:
        np.savez(turned, x=data["x"].transpose(0, 2, 1), y=data["y"])

    assert "layout=channels-first" in refused(command("train", turned, *OWN, "--out", tmp_path / "other"))
    assert "layout=channels-first" in refused(command("predict", run, turned))
    same = command("predict", run, turned, "--layout", "channels-first")
    assert same.out == command("predict", run, arrays).out
