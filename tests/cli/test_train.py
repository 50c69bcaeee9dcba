"""`hadamrnn train`; what a run is and how it resumes is tested in tests/training."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Command


@pytest.mark.parametrize("rank", ["1", "first"])
def test_a_single_process_reports_its_run_whatever_its_rank(
    rank: str, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", rank)
    line = ("train", "digits", "--steps", 1, "--hidden-size", 8, "--threads", 1, "--quiet")

    answer = command(*line, "--out", tmp_path / "run")

    assert answer.status == 0 and answer.out.startswith("trained after 1 steps")
