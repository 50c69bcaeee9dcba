from __future__ import annotations

import errno
import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.nn.storage import load_model
from hadamrnn.run import Run, RunOptions, resume, train
from hadamrnn.training.config import config_values, make_config
from hadamrnn.training.folder import RunFolder, check_free, open_events, read_checkpoint

OPTIONS = {"delay": 5, "sentence_length": 2, "train_size": 64, "validation_size": 16, "test_size": 16}
CONFIG = make_config(task="copy", task_options=OPTIONS, hidden_size=8, steps=12, evaluate_every=4)
EVERY_STEP = RunOptions(checkpoint_seconds=0.0)


class Stop:
    """A callback that stops a run after some steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps

    def __call__(self) -> bool:
        self.left -= 1
        return self.left == 0


def rows(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def steps(run: Path) -> list[int]:
    return [row["step"] for row in rows(run)]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An uninterrupted run."""
    run = tmp_path_factory.mktemp("runs") / "whole"
    train(CONFIG, run)
    return run


def test_a_run_folder_tells_the_whole_run(whole: Path) -> None:
    run = Run.open(whole)
    folder, model = run, run.model

    assert config_values(folder.config) == config_values(CONFIG)
    assert folder.config.network == model.network  # the task has completed it
    assert folder.facts.metric == "cross_entropy"
    assert folder.record.seed == 0 and folder.record.versions["torch"]
    assert folder.version_changes() == []
    assert model.network is not None and model.network.hidden_size == 8
    assert steps(whole) == [4, 8, 12]
    row = {"step", "epoch", "loss", "validation_metric", "flips", "learning_rate", "seconds"}
    assert set(rows(whole)[0]) == row
    assert [path.suffix for path in (whole / "tensorboard").iterdir()]


def test_the_event_file_holds_the_rows(whole: Path) -> None:
    from tensorboardX.proto.event_pb2 import Event

    (file,) = (whole / "tensorboard").iterdir()
    content, position, losses = file.read_bytes(), 0, []
    while position < len(content):  # length (8 bytes), its checksum (4), the event, its checksum (4)
        size = int.from_bytes(content[position : position + 8], "little")
        event = Event.FromString(content[position + 12 : position + 12 + size])
        losses += [value.simple_value for value in event.summary.value if value.tag == "loss"]
        position += size + 16

    assert losses == pytest.approx([row["loss"] for row in rows(whole)])


def test_event_files_are_left_out_without_tensorboardx(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "tensorboardX", None)

    assert open_events(tmp_path / "events", 0) is None
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("stops", [[1], [3, 1, 4], [4], [12]])
def test_a_run_stopped_and_resumed_ends_with_the_same_bytes(
    stops: list[int], whole: Path, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    stopped = train(CONFIG, run, RunOptions(stop=Stop(stops[0])))
    for count in stops[1:]:
        stopped = resume(run, RunOptions(stop=Stop(count)))
    assert stopped.outcome is not None and stopped.outcome.step == sum(stops)

    assert resume(run).finished
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert steps(run) == steps(whole)


def test_rows_after_the_last_checkpoint_come_again_and_once(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(CONFIG, run, RunOptions(stop=Stop(5)))
    with (run / "metrics.jsonl").open("a") as file:  # as if killed two rows later, in the middle of one
        file.write('{"step": 8}\n{"step": 12, "lo')
    resume(run)

    assert steps(run) == [4, 8, 12]
    assert [row["loss"] for row in rows(run)] == [row["loss"] for row in rows(whole)]


def test_a_run_killed_before_its_first_checkpoint_begins_again(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(CONFIG, run)
    (run / "resume.safetensors").unlink()
    (run / "model.safetensors").unlink()
    resume(run)

    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert steps(run) == [4, 8, 12]


@pytest.mark.parametrize("name", ["run.json", "config.yaml", "resume.safetensors", "model.safetensors"])
def test_a_file_that_a_killed_process_left_half_written_is_removed(name: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / f".{name}.0123456789abcdef").write_bytes(b"half")

    train(CONFIG, run)

    assert [path.name for path in run.glob(".*")] == [".lock"]


def test_resuming_a_finished_run_changes_nothing_but_mends_the_model(whole: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(CONFIG, run)
    content = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").unlink()  # killed between the checkpoint and the model
    (run / ".resume.safetensors.half").write_text("left by a kill")
    outcome = resume(run)

    assert outcome.finished and (run / "model.safetensors").read_bytes() == content
    assert [path.name for path in run.glob(".*")] == [".lock"]


@given(syncs=st.integers(1, 24))
@settings(deadline=None, max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_disk_that_is_full_at_any_moment_leaves_a_run_to_resume(
    whole: Path, tmp_path_factory: pytest.TempPathFactory, syncs: int
) -> None:
    run = tmp_path_factory.mktemp("full") / "run"
    left = syncs
    fsync = os.fsync

    def full(descriptor: int) -> None:
        nonlocal left
        left -= 1
        if left < 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        fsync(descriptor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError) as stopped:
            train(CONFIG, run, EVERY_STEP)
    if syncs < 2:  # the folder itself could not be written: no run yet
        assert not (run / "config.yaml").exists()
        train(CONFIG, run)
    else:
        line = str(stopped.value)
        assert "No space left" in line and f"--resume {run}" in line and "\n" not in line
        if (run / "resume.safetensors").exists():
            saved = read_checkpoint(run / "resume.safetensors")[1].step
            assert f"the checkpoint of step {saved} is intact" in line
        resume(run)
    assert (run / "model.safetensors").read_bytes() == (whole / "model.safetensors").read_bytes()
    assert steps(run) == [4, 8, 12]


def test_a_folder_that_holds_files_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")

    with pytest.raises(InputError, match=r"new or empty folder.*--resume"):
        train(CONFIG, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    with pytest.raises(InputError, match="is a file"):
        check_free(tmp_path / "file")


@pytest.mark.parametrize(
    ("task", "setting", "complaint"),
    [
        ("digits", {"embedding_size": 4}, "has no embedding"),
        ("digits", {"rotation": 5.0}, "rotation has no effect here: it turns sensors"),
        ("copy", {"input_noise": 0.1}, "input_noise has no effect here: it changes numbers"),
        ("copy", {"balanced": True}, "one class label per sample"),
    ],
)
def test_bad_input_leaves_no_folder_behind(
    task: str, setting: dict[str, Any], complaint: str, tmp_path: Path
) -> None:
    config = make_config(task=task, epochs=1, **setting)

    with pytest.raises(InputError, match=complaint):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_run_of_another_version_is_refused_and_left_as_it_was(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(CONFIG, run, RunOptions(stop=Stop(1)))
    metadata = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**metadata, "version": 99}))
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}

    with pytest.raises(InputError, match=r"version 3, got format 'hadamrnn run', version 99"):
        resume(run)
    assert before == {path: path.read_bytes() for path in run.iterdir() if path.is_file()}


@pytest.mark.parametrize(
    ("file", "content", "complaint"),
    [
        ("run.json", "{", "damaged"),
        ("run.json", "[]", "damaged"),
        ("config.yaml", "task: copy\nhidden: 3\n", "There is no setting .*Did you mean"),
        ("config.yaml", "epochs: 3\n", "task must be str, got None"),
        ("resume.safetensors", "no tensors", "no safetensors file"),
        ("metrics.jsonl", "", "shorter than"),
        ("run.json", '{"format": "hadamrnn run", "version": 3}', "has no seed"),
        ("config.yaml", "task: 2020-13-45\n", "not a readable YAML file"),
    ],
)
def test_a_damaged_run_is_refused_in_one_line(
    file: str, content: str, complaint: str, tmp_path: Path
) -> None:
    run = tmp_path / "run"
    train(CONFIG, run, RunOptions(stop=Stop(5)))
    (run / file).write_text(content)

    with pytest.raises(InputError, match=complaint) as refusal:
        resume(run)
    assert "\n" not in str(refusal.value)


def test_a_model_file_is_no_checkpoint(whole: Path) -> None:
    with pytest.raises(InputError, match="got format 'hadamrnn'"):
        read_checkpoint(whole / "model.safetensors")


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must be a run folder"):
        RunFolder.open(tmp_path)


def test_a_run_without_a_validation_has_no_model_yet(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(CONFIG, run, RunOptions(stop=Stop(1)))

    with pytest.raises(InputError, match="holds no model yet"):
        _ = Run.open(run).model


def test_a_finished_run_without_validation_data_has_its_last_model(copy_task: Splits, tmp_path: Path) -> None:
    validation = replace(copy_task.validation, x=copy_task.validation.x[:0])
    splits = replace(copy_task, validation=validation)
    outcome = train(CONFIG, tmp_path / "run", RunOptions(splits=splits))

    model = Run.open(tmp_path / "run").model
    assert all(map(torch.equal, model.state_dict().values(), outcome.model.state_dict().values()))


def test_the_best_model_on_disk_is_the_best_rows(whole: Path) -> None:
    counters = read_checkpoint(whole / "resume.safetensors")[1]
    best = min(rows(whole), key=lambda row: float(row["validation_metric"]))

    assert (counters.best_step, counters.best_metric) == (best["step"], best["validation_metric"])
    load_model(whole / "model.safetensors")


def test_rows_that_were_changed_are_not_continued(tmp_path: Path) -> None:
    run = tmp_path / "run"
    train(CONFIG, run, RunOptions(stop=Stop(9)))
    content = (run / "metrics.jsonl").read_text()
    (run / "metrics.jsonl").write_text(content.replace("1", "2", 1))
    with pytest.raises(InputError, match="or was changed"):
        resume(run)
    (run / "metrics.jsonl").write_text(content + "rows that the checkpoint does not know")
    assert resume(run).finished


@pytest.mark.parametrize(
    ("facts", "complaint"),
    [
        ({"levels": 0}, "levels must lie in 1"),
        ({"seq_length": 10**20}, "seq_length must lie in 1"),
        ({"metric": "beauty"}, "metric must be"),
        ({"offset": [1.0], "scale": [0]}, "no scale may be 0"),
        ({"scale": ["x"]}, "scale must be"),
        ({"class_names": ["sit", "\x1b[2Jwalk"]}, r"Labels must be printable text .*, got '\\x1b\[2Jwalk'"),
    ],
)
def test_facts_that_cannot_be_are_refused(
    facts: dict[str, object], complaint: str, whole: Path, tmp_path: Path
) -> None:
    values = json.loads((whole / "run.json").read_text())
    values["facts"] |= facts
    (tmp_path / "run.json").write_text(json.dumps(values))
    (tmp_path / "config.yaml").write_bytes((whole / "config.yaml").read_bytes())
    with pytest.raises(InputError, match=complaint):
        RunFolder.open(tmp_path)
