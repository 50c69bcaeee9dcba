"""The classifier learns real series, and the command that measures it works."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import RidgeClassifier, RidgeClassifierCV

from hadamrnn_benchmarks.estimators import (
    HADAMRNN,
    LARGER,
    PENALTY_ROWS,
    RIDGE,
    SETS,
    EstimatorRow,
    SampledRidge,
    estimators_page,
    measure_classifier,
    verdict,
)
from tests.conftest import Command

pytest.importorskip("sktime", reason="the sets come with sktime, which is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")


@pytest.mark.slow
@pytest.mark.parametrize("dataset", ["BasicMotions", "GunPoint", "ItalyPowerDemand", "JapaneseVowels"])
def test_real_series_are_learnt_in_seconds(dataset: str) -> None:
    row = measure_classifier(dataset, HADAMRNN, seeds=1)

    assert row.accuracy > row.majority + 0.3
    assert row.integer is not None and abs(row.integer - row.accuracy) < 0.01
    assert row.seconds < 5 and row.bytes <= 4096


def test_the_command_writes_its_page(command: Command, tmp_path: Path) -> None:
    page = tmp_path / "estimators.md"
    bench = ("bench", "estimators", "--sets", "ItalyPowerDemand", "--seeds", 1)
    answer = command(*bench, "--out", page, "--json")
    figures = json.loads(answer.out)
    rows = figures["rows"]
    rocket = [] if figures["left_out"] else ["MiniRocket"]

    assert answer.status == 0
    assert [row["network"] for row in rows] == [
        HADAMRNN,
        LARGER,
        RIDGE,
        "GRU 32",
        *rocket,
        "logistic regression",
    ]
    assert all(row["accuracy"] > 0.9 for row in rows)
    assert f"| {rows[0]['accuracy']:.1%} |" in page.read_text()


def test_rows_that_were_kept_are_not_measured_again(command: Command, tmp_path: Path) -> None:
    kept = tmp_path / "rows.json"
    bench = ("bench", "estimators", "--sets", "ItalyPowerDemand", "--classifiers", "logistic regression")
    first = command(*bench, "--keep", kept, "--json")
    rows = json.loads(kept.read_text())
    kept.write_text(json.dumps([{**rows[0], "accuracy": 0.123}]))
    second = command(*bench, "--keep", kept, "--json")
    assert json.loads(first.out)["rows"] == rows
    assert json.loads(second.out)["rows"][0]["accuracy"] == 0.123


@pytest.mark.parametrize(
    "content", ["", "{}", "[1]", '[{"row": 1}]', "[" * 100_000, '[{"dataset": "PLAID"}]', "[null]", "\xff"]
)
def test_a_file_that_holds_no_rows_is_refused(content: str, command: Command, tmp_path: Path) -> None:
    (tmp_path / "rows.json").write_text(content, encoding="latin-1")
    sets = ("--sets", "ItalyPowerDemand", "--classifiers", "logistic regression")

    answer = command("bench", "estimators", *sets, "--keep", tmp_path / "rows.json")

    assert answer.status == 2 and "rows.json" in answer.err and answer.err.count("\n") == 1
    assert (tmp_path / "rows.json").read_text(encoding="latin-1") == content


def test_an_unknown_set_is_refused(command: Command) -> None:
    answer = command("bench", "estimators", "--sets", "ItalyPowerDemand", "Iris")

    assert answer.status == 2
    assert answer.err.startswith(
        "hadamrnn bench: A set must be one of ACSF1, ArrowHead, BasicMotions, GunPoint"
    )


def test_the_page_says_where_the_classifier_loses_and_what_was_not_measured() -> None:
    def row(dataset: str, network: str, accuracy: float) -> EstimatorRow:
        return EstimatorRow(dataset, network, accuracy, accuracy, accuracy, None, 0.5, 100, 1.0, 10, 1)

    rows = [
        *(row("GunPoint", HADAMRNN, 0.9), row("GunPoint", "GRU 32", 0.8)),
        *(row("PLAID", HADAMRNN, 0.3), row("PLAID", "MiniRocket", 0.9)),
    ]
    text = verdict(rows)

    assert (
        "most accurate on GunPoint." in text and "MiniRocket is ahead of it on PLAID (60.0 points)." in text
    )
    assert all(name in text for name in SETS)
    assert "\nLeft out: a reason.\n" in estimators_page(rows, 1, ["a reason"])


@pytest.mark.parametrize("count", [PENALTY_ROWS, 3 * PENALTY_ROWS])
def test_a_sampled_ridge_is_the_ridge_with_the_penalty_of_its_rows(count: int) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(count, 20)), rng.integers(0, 3, count)
    X[:, 0] += y
    found = SampledRidge().fit(X, y)

    every = count // PENALTY_ROWS
    penalty = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)).fit(X[::every], y[::every]).alpha_
    ridge = RidgeClassifier(alpha=every * penalty).fit(X, y)
    np.testing.assert_allclose(found.coef_, ridge.coef_, atol=1e-4)
    assert (found.predict(X) == ridge.predict(X)).mean() > 0.99
