"""Kinds of network side by side: their step times, and binary weights with and without structure."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hadamrnn.baselines.networks import MODELS
from hadamrnn.bench import kinds
from hadamrnn.bench.training import SHAPES
from hadamrnn.cli import main
from hadamrnn.paper import naive_binary
from hadamrnn.paper.naive_binary import CONTENDERS, Contest, compare, guessing, write
from hadamrnn.training.trainer import Diverged


@pytest.mark.parametrize("shape", ["mnist", "copy", "imdb", "stack"])
def test_every_kind_is_timed_beside_hadamrnn(
    shape: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(SHAPES[shape], batch=2, time=9)
    if shape == "imdb":
        small = replace(small, network=replace(small.network, input_size=4))
    monkeypatch.setattr(kinds, "SHAPES", {shape: small})
    arguments = ["--hidden-size", "8", "--rounds", "1", "--threads", "1", "--json"]
    assert main(["bench", "training", "--model", "all", "--shapes", shape, *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]

    assert [row["model"] for row in rows] == list(MODELS)
    first = rows[0]["milliseconds"]
    assert all(row["ratio"] == pytest.approx(row["milliseconds"] / first) for row in rows)
    assert {row["hidden_size"] for row in rows} == {8}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "mamba"], "model must be one of all, hadamrnn, lstm"),
        (["--model", "lstm", "--shapes", "cifar"], "A shape must be one of"),
        (["--model", "lstm", "--hidden-size", "0"], "--hidden-size must lie in 1.."),
    ],
)
def test_wrong_choices_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "training", *arguments]) == 2
    assert message in capsys.readouterr().err


def test_each_contender_keeps_its_own_best_rate(tmp_path: Path) -> None:
    budget = Contest(delay=3, steps=8, hidden_size=8, batch_size=4)
    lines: list[str] = []
    contenders = compare(budget, rates=(1e-2, 1e-3), tell=lines.append)

    assert [each.name for each in contenders] == list(CONTENDERS)
    assert len(lines) == 2 * len(CONTENDERS)
    for each in contenders:
        found = {trial.learning_rate: trial.validation for trial in each.trials}
        assert each.learning_rate is not None and each.test is not None
        assert found[each.learning_rate] == min(value for value in found.values() if value is not None)
    written = json.loads(write(budget, contenders, tmp_path).read_text())
    assert written["budget"]["delay"] == 3
    assert written["guessing"] == pytest.approx(guessing(3))


def test_a_contender_that_diverges_is_reported_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def diverge(*arguments: object, **settings: object) -> None:
        raise Diverged("the loss is nan at step 3")

    monkeypatch.setattr(naive_binary, "fit", diverge)
    first, *_ = compare(Contest(delay=3, steps=8, hidden_size=8, batch_size=4), rates=(1e-2,))

    assert first.test is None and first.learning_rate is None
    assert first.trials[0].diverged == "the loss is nan at step 3"
