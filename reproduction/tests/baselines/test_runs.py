"""Baselines from the command line: train, resume, evaluate, cost."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadamrnn import run as runs
from hadamrnn.cli import main
from hadamrnn.training.config import resolve_config

QUICK = ["--hidden-size", "8", "--steps", "4", "--threads", "1", "--quiet"]


def test_model_is_the_only_difference(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for model in ("hadamrnn", "lstm"):
        out = str(tmp_path / model)
        assert main(["train", "digits", "--model", model, *QUICK, "--out", out]) == 0
        assert main(["eval", out]) == 0
        capsys.readouterr()
        assert main(["cost", out, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["kilobytes"] > 0


def test_a_runs_cost_is_that_of_its_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--model", "fastgrnn", "--model-option", "recurrent_rank=2"]
    out = str(tmp_path / "run")
    assert main(["train", "digits", *options, *QUICK, "--out", out]) == 0
    capsys.readouterr()
    assert main(["cost", out, "--json"]) == 0
    of_run = json.loads(capsys.readouterr().out)
    shape = ["--hidden-size", "8", "--input-size", "1", "--output-size", "10"]
    assert main(["cost", *options, *shape, "--json"]) == 0

    assert of_run == json.loads(capsys.readouterr().out)
    assert of_run["bits"]["recurrent"] == 8 * 2 * (8 + 8)
    assert main(["cost", *options, *shape]) == 0
    assert "by the paper's rule" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("binary_lstm", {"norm_steps": 4}),  # samples weights, keeps running statistics
        ("ornn", {"orthogonal_map": "projection"}),  # is projected after every step
        ("fastgrnn", {"recurrent_density": 0.5}),  # changes with the progress of the run
    ],
)
def test_a_resumed_baseline_ends_as_the_uninterrupted_one(
    model: str, options: dict[str, object], tmp_path: Path
) -> None:
    overrides = {"hidden_size": 8, "steps": 6, "evaluate_every": 2, "batch_size": 8, "threads": 1}
    config = resolve_config("digits", overrides={**overrides, "model": model, **options})
    runs.train(config, tmp_path / "whole")
    asked = iter([False, False, True])
    stopped = runs.train(config, tmp_path / "halves", runs.RunOptions(stop=lambda: next(asked)))
    assert not stopped.finished
    runs.resume(tmp_path / "halves")

    whole, halves = (tmp_path / name / "resume.safetensors" for name in ("whole", "halves"))
    models = [(path.parent / "model.safetensors").read_bytes() for path in (whole, halves)]
    assert models[0] == models[1]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "lstm", "--weight-bits", "4"], "no setting 'weight_bits' of lstm"),
        (["--model", "lstm", "--model-option", "rank=3"], "no setting 'rank' of lstm"),
        (["--model", "lstm", "--model-option", "rank"], "--model-option must be NAME=VALUE"),
        (["--model", "lstn"], "Did you mean 'lstm'?"),
    ],
)
def test_bad_choices_are_one_line_and_leave_no_folder(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "run"

    assert main(["train", "digits", *QUICK, *arguments, "--out", str(out)]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()
