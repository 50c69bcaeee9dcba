"""The classifier learns real series, and the command that says so works."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hadamrnn.bench.estimators import LOADERS, measure
from tests.conftest import Command

pytest.importorskip("sktime", reason="the sets come with sktime, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("dataset", LOADERS)
def test_real_series_are_learnt_in_under_a_minute(dataset: str) -> None:
    row = measure(dataset, "HadamRNN 256", seeds=1)

    assert row.accuracy > row.majority + 0.3
    assert row.integer is not None and abs(row.integer - row.accuracy) < 0.03
    assert row.seconds < 60 and row.bytes < 4096


def test_the_command_writes_its_page(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "estimators.md"
    bench = ("bench", "estimators", "--sets", "ItalyPowerDemand", "--seeds", 1)
    answer = command(*bench, "--out", page, "--json")
    rows = json.loads(answer.out)["rows"]

    assert answer.status == 0
    assert [row["network"] for row in rows] == ["HadamRNN 256", "GRU 32"]
    assert f"| {rows[0]['accuracy']:.1%} |" in page.read_text()


def test_an_unknown_set_is_refused(command: Command) -> None:
    answer = command("bench", "estimators", "--sets", "Iris")

    assert answer.status == 2
    assert answer.err.startswith("hadamrnn bench: A set is one of BasicMotions, GunPoint")
