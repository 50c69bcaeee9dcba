"""The memorization experiment: its curves, and the file that stores them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadamrnn_paper.memorization import run_memorization, write_memorization
from tests.conftest import Command


def test_linear_recurrences_remember_and_relu_forgets() -> None:
    found = run_memorization()

    assert len(found.e_linear) == 200
    for curve in (found.e_linear, found.f_linear):
        assert max(curve) - min(curve) < 1e-6 * max(curve)
    for curve in (found.e_relu, found.f_relu):
        assert sum(curve[:20]) < 0.8 * sum(curve[-20:])


def test_the_memorization_command_writes_its_curves(command: Command, tmp_path: Path) -> None:
    answer = command("reproduce", "memorization", "--results", tmp_path)
    figures = json.loads(command("reproduce", "memorization", "--results", tmp_path, "--json").out)

    assert answer.status == 0 and "relu" in answer.out
    assert figures["linear"]["first"] == pytest.approx(figures["linear"]["last"])
    assert figures["relu"]["first"] < figures["relu"]["last"]


@pytest.mark.parametrize("damage", [{"seq_length": 3}, {"e_relu": [1.0]}, {"f_linear": [float("nan")] * 20}])
def test_damaged_curves_of_the_memorization_take_one_line(
    damage: dict[str, object], command: Command, tmp_path: Path
) -> None:
    path = write_memorization(tmp_path / "results", run_memorization(hidden_size=16, seq_length=20))
    path.write_text(json.dumps({**json.loads(path.read_text()), **damage}))

    answer = command("report", "--results", tmp_path / "results", "--out", tmp_path)

    assert answer.status == 2 and answer.err.count("\n") == 1 and path.name in answer.err
