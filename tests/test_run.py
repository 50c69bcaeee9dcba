"""A run directory: its configuration, data, model and integer model belong together."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from hadamrnn import fixedpoint
from hadamrnn.files import INTEGER_FILE
from hadamrnn.run import RunOptions, train
from hadamrnn.training.config import resolve_config

if TYPE_CHECKING:
    from tests.conftest import Answer, Command

SMALL = ("--hidden-size", 8, "--threads", 1, "--quiet")


def refused(answer: Answer) -> str:
    """Return the one line with which a command refused its input."""
    assert answer.status == 2, answer
    assert answer.out == "" and answer.err.count("\n") == 1 and "Traceback" not in answer.err
    return answer.err


def trained(command: Command, run: Path) -> Path:
    assert command("train", "digits", *SMALL, "--epochs", 1, "--out", run).status == 0
    return run


@pytest.mark.parametrize("line", ["eval RUN --integer", "predict RUN FILE --integer", "export RUN --out OUT"])
def test_an_integer_model_older_than_its_model_is_refused(
    line: str, command: Command, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    steps = iter(range(100))
    config = resolve_config(
        "digits", overrides={"hidden_size": 8, "epochs": 2, "evaluate_every": 5, "keep": "last"}
    )
    train(config, run, RunOptions(stop=lambda: next(steps) == 20))
    assert command("quantize", run).status == 0
    assert command("train", "--resume", run, "--quiet").status == 0
    np.savez(tmp_path / "file.npz", x=np.zeros((2, 64, 1), np.uint8))
    places = {"RUN": str(run), "FILE": str(tmp_path / "file.npz"), "OUT": str(tmp_path / "out")}
    words = [places.get(word, word) for word in line.split()]

    assert f"hadamrnn quantize {run}" in refused(command(*words))
    assert not (tmp_path / "out").exists()
    assert command("quantize", run).status == 0
    assert command(*words).status == 0


def test_an_integer_model_without_a_source_is_taken_on_its_own_and_refused_in_a_run(
    command: Command, tmp_path: Path
) -> None:
    run = trained(command, tmp_path / "run")
    assert command("quantize", run).status == 0
    model = fixedpoint.load(run / INTEGER_FILE)
    alone = tmp_path / INTEGER_FILE
    metadata = {name: value for name, value in model.metadata.items() if name != "source"}
    fixedpoint.save(type(model)(**{**vars(model), "metadata": metadata}), alone)

    assert command("export", alone, "--out", tmp_path / "c", "--golden", "random").status == 0
    shutil.copy(alone, run)
    assert f"hadamrnn quantize {run}" in refused(command("eval", run, "--integer"))
    assert "hadamrnn quantize" in refused(command("export", run / INTEGER_FILE, "--out", tmp_path / "d"))


@pytest.fixture
def waves(command: Command, tmp_path: Path) -> Path:
    """A run on two classes of waves in `waves.npz`."""
    rng = np.random.default_rng(0)
    labels = np.arange(60) % 2
    phase = np.linspace(0, 6, 20)[None, :, None] * (1 + labels[:, None, None])
    x = 50 + 10 * np.sin(phase) + rng.normal(size=(60, 20, 3))
    np.savez(tmp_path / "waves.npz", x=x, y=np.array(["slow", "fast"])[labels])
    run = tmp_path / "run"
    line = ("train", tmp_path / "waves.npz", *SMALL, "--epochs", 5, "--batch-size", 8, "--out", run)
    assert command(*line).status == 0
    return run


def test_eval_names_the_classes_that_its_data_lacks(command: Command, waves: Path, tmp_path: Path) -> None:
    with np.load(tmp_path / "waves.npz") as data:
        slow = data["y"] == "slow"
        np.savez(tmp_path / "slow.npz", x=data["x"][slow], y=data["y"][slow])

    line = command("eval", waves, tmp_path / "slow.npz").out.splitlines()[0]
    some = json.loads(command("eval", waves, tmp_path / "slow.npz", "--json").out)
    every = json.loads(command("eval", waves, tmp_path / "waves.npz", "--json").out)

    assert line.endswith("no samples of fast)")
    assert some["absent_classes"] == ["fast"] and every["absent_classes"] == []


def test_integer_predictions_report_saturation_as_eval_does(
    command: Command, waves: Path, tmp_path: Path
) -> None:
    assert command("quantize", waves).status == 0
    with np.load(tmp_path / "waves.npz") as data:
        np.savez(tmp_path / "loud.npz", x=50 + 40 * (data["x"] - 50), y=data["y"])
    loud = (waves, tmp_path / "loud.npz", "--integer")

    evaluated = json.loads(command("eval", *loud, "--json").out)
    predicted = json.loads(command("predict", *loud, "--json").out)
    printed = command("predict", *loud)

    assert evaluated["saturations"] > 0 and evaluated["input_saturations"] > 0
    for name in ("saturations", "input_saturations"):
        assert predicted[name] == evaluated[name]
    counted = f"{evaluated['saturations']} states and {evaluated['input_saturations']} inputs saturated"
    assert counted in printed.err and len(printed.out.splitlines()) == 60
    assert counted in command("predict", *loud, "--out", tmp_path / "out.csv").out
    assert command("predict", waves, tmp_path / "loud.npz").err == ""


def rewrite(path: Path, **changed: object) -> None:
    with np.load(path) as data:
        np.savez(path, **{**data, **changed})


@pytest.mark.parametrize("change", ["rescaled", "renamed", "added class", "reordered", "shortened"])
@pytest.mark.parametrize("line", ["eval RUN", "quantize RUN", "train --resume RUN --quiet"])
def test_a_run_refuses_data_that_have_changed(
    change: str, line: str, command: Command, waves: Path, tmp_path: Path
) -> None:
    path = tmp_path / "waves.npz"
    with np.load(path) as data:
        x, y = data["x"], data["y"]
    changes = {
        "rescaled": {"x": 10 * x},
        "renamed": {"y": np.where(y == "fast", "quick", y)},
        "added class": {"y": np.where(np.arange(60) < 9, "idle", y)},
        "reordered": {"x": x[::-1], "y": y[::-1]},
        "shortened": {"x": x[:50], "y": y[:50]},
    }
    rewrite(path, **changes[change])

    message = refused(command(*line.replace("RUN", str(waves)).split()))

    assert "hadamrnn eval RUN FILE" in message and str(path) in message


def test_a_file_added_to_a_directory_of_recordings_is_refused(command: Command, tmp_path: Path) -> None:
    folder, run = tmp_path / "people", tmp_path / "run"
    folder.mkdir()
    rng = np.random.default_rng(0)

    def record(name: str) -> None:
        rows = [f"{value:.3f},{label}" for label in ("up", "down") for value in rng.normal(size=60)]
        (folder / f"{name}.csv").write_text("\n".join(["a,label", *rows]) + "\n")

    for name in "abcdef":
        record(name)
    line = ("train", folder, "--group", "file", "--window", 10, *SMALL, "--epochs", 1, "--out", run)
    assert command(*line).status == 0
    before = command("eval", run, "--json")
    assert before.status == 0
    record("g")

    assert "hadamrnn eval RUN FILE" in refused(command("eval", run))
    (folder / "g.csv").unlink()
    assert command("eval", run, "--json") == before


@pytest.mark.parametrize("line", ["eval RUN", "quantize RUN", "train --resume RUN --quiet"])
def test_an_edited_configuration_is_refused_and_a_comment_is_not(
    line: str, command: Command, waves: Path
) -> None:
    config = waves / "config.yaml"
    words = line.replace("RUN", str(waves)).split()
    text = config.read_text()
    config.write_text(text.replace("epochs: 5", "epochs: 6"))

    assert "config.yaml" in refused(command(*words))
    config.write_text(f"# mine\n{text}")
    assert command(*words).status == 0


@pytest.mark.parametrize(
    ("name", "line"),
    [
        ("model.safetensors", "eval RUN"),
        ("model.safetensors", "quantize RUN"),
        ("model.int.safetensors", "eval RUN --integer"),
        ("resume.safetensors", "train --resume RUN --quiet"),
        ("config.yaml", "eval RUN"),
    ],
)
def test_a_file_of_another_run_is_refused(
    name: str, line: str, command: Command, waves: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    more = ("--epochs", 5, "--batch-size", 8, "--seed", 1, "--out", other)
    assert command("train", tmp_path / "waves.npz", *SMALL, *more).status == 0
    assert command("quantize", other).status == command("quantize", waves).status == 0
    shutil.copy(other / name, waves)

    assert name in refused(command(*line.replace("RUN", str(waves)).split()))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ('"class_names": ["fast", "slow"]', '"class_names": ["slow", "fast"]'),
        ('"scale": [', '"scale": [2'),  # a digit more
        ('"leak": [', '"leak": [1, '),
        ('"seq_length": 20', '"seq_length": 21'),
    ],
)
@pytest.mark.parametrize(
    "line", ["eval RUN", "predict RUN FILE", "quantize RUN", "train --resume RUN --quiet"]
)
def test_an_edited_record_is_refused(
    line: str, before: str, after: str, command: Command, waves: Path, tmp_path: Path
) -> None:
    record = waves / "run.json"
    text = record.read_text()
    assert before in text
    record.write_text(text.replace(before, after, 1))

    words = line.replace("RUN", str(waves)).replace("FILE", str(tmp_path / "waves.npz")).split()
    assert str(waves) in refused(command(*words))


@pytest.mark.parametrize("target", ["page", "onnx", "c"])
def test_both_models_of_another_run_are_not_exported_as_this_run(
    target: str, command: Command, waves: Path, tmp_path: Path
) -> None:
    other = tmp_path / "other"
    more = ("--epochs", 5, "--batch-size", 8, "--seed", 1, "--out", other)
    assert command("train", tmp_path / "waves.npz", *SMALL, *more).status == 0
    assert command("quantize", other).status == 0
    for name in ("model.safetensors", "model.int.safetensors"):
        shutil.copy(other / name, waves)

    answer = command("export", waves, "--to", target, "--out", tmp_path / "out")

    assert "model.safetensors must be of this run" in refused(answer)
