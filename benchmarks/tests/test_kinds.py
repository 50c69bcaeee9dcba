"""The step times of several kinds of network."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from hadamrnn import packages
from hadamrnn.cli import main
from hadamrnn_benchmarks import training
from hadamrnn_benchmarks.training import SHAPES


@pytest.mark.parametrize("shape", ["mnist", "copy", "imdb", "stack"])
def test_every_kind_is_timed_beside_hadamrnn(
    shape: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(SHAPES[shape], batch=2, time=9)
    if shape == "imdb":
        small = replace(small, network=replace(small.network, input_size=4))
    monkeypatch.setattr(training, "SHAPES", {shape: small})
    arguments = ["--hidden-size", "8", "--rounds", "1", "--threads", "1", "--json"]
    assert main(["bench", "training", "--model", "all", "--shapes", shape, *arguments]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]

    assert [row["model"] for row in rows] == ["hadamrnn", *packages.names(packages.NETWORKS)]
    first = rows[0]["milliseconds"]
    assert all(row["ratio"] == pytest.approx(row["milliseconds"] / first) for row in rows)
    assert {row["hidden_size"] for row in rows} == {8}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--model", "mamba"], "model must be one of all, hadamrnn, lstm"),
        (["--model", "lstm", "--shapes", "mnist", "cifar"], "A shape must be one of"),
        (["--model", "lstm", "--hidden-size", "0"], "--hidden-size must lie in 1.."),
    ],
)
def test_wrong_choices_are_one_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "training", *arguments]) == 2
    assert message in capsys.readouterr().err
