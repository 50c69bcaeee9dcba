"""The short form of `make fuzz`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fuzz.commands import fuzz_commands
from tests.fuzz.files import fuzz_files
from tests.fuzz.mixtures import fuzz_mixtures


@pytest.mark.slow
def test_damaged_files_are_read_the_same_or_refused_in_one_line(tmp_path: Path) -> None:
    tally, wrong = fuzz_files(tmp_path, 400)

    assert not wrong, "\n".join(wrong)
    assert all(counts["refused"] > 0 for counts in tally.values())


@pytest.mark.slow
def test_drawn_command_lines_succeed_or_are_refused_in_one_line(tmp_path: Path) -> None:
    tally, wrong = fuzz_commands(tmp_path, 30)

    assert not wrong, "\n".join(wrong)
    assert tally["refused"] > 0


@pytest.mark.slow
def test_files_of_different_runs_are_never_taken_for_one_run(tmp_path: Path) -> None:
    tally, wrong = fuzz_mixtures(tmp_path, 120)

    assert not wrong, "\n".join(wrong)
    assert tally["refused"] > 0 and tally["same"] > 0
