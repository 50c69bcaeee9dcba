"""`hadamrnn train`; tests/training has the tests of runs and of resuming."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadamrnn.data.tasks import find_task, task_names
from hadamrnn.training.config import OPTIONS
from tests.conftest import Command


@pytest.mark.parametrize("rank", ["1", "first"])
def test_a_single_process_reports_its_run_whatever_its_rank(
    rank: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)
    line = ("train", "digits", "--steps", 1, "--hidden-size", 8, "--threads", 1, "--quiet")

    answer = command(*line, "--out", tmp_path / "run")

    assert answer.status == 0 and answer.out.startswith("trained after 1 steps")


def test_help_lists_a_dozen_options_and_help_all_every_one(command: Command) -> None:
    short, full = command("train", "--help"), command("train", "--help-all")

    assert short.status == full.status == 0
    assert sum(line.startswith("  --") for line in short.out.splitlines()) <= 15
    assert "--hidden-size" in short.out and "--weight-average" not in short.out
    for name in OPTIONS:
        assert f"--{name.replace('_', '-')}" in full.out
    for task in task_names():
        assert task in short.out.replace("\n", " ") or task in ("npz", "recordings")
        assert f"  {task:12}{find_task(task).help}" in full.out
