"""The benchmark of training: the command reports its measurements, and the loop's share is measured."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hadamrnn.cli import main
from hadamrnn.training.trainer import Trainer
from hadamrnn_benchmarks import training
from hadamrnn_benchmarks.training import SHAPES, extra_megabytes, make_batch, measure_loop


def test_drawn_reviews_hold_as_many_distinct_words_as_real_ones(tmp_path: Path) -> None:
    ids, _ = make_batch(SHAPES["imdb"], data_dir=tmp_path)
    assert 3_300 < ids.unique().numel() < 4_000


def test_the_command_reports_a_ratio(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    small = replace(SHAPES["mnist"], batch=2, time=20)
    monkeypatch.setattr(training, "SHAPES", {"mnist": small})
    assert main(["bench", "training", "--rounds", "1", "--threads", "1", "--no-memory", "--json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["rows"]
    assert row["shape"] == "mnist"
    assert row["ratio"] == pytest.approx(row["plain_ms"] / row["engine_ms"])
    assert row["gru_ms"] > 0 and row["rnn_ms"] > 0 and row["obvious_ms"] > 0
    assert row["loop_share"] <= 1 and row["loop_ms"] > 0  # 1 if the clock is too coarse for the engine


@pytest.mark.slow
def test_the_loop_around_the_engine_costs_less_than_three_tenths_of_a_step() -> None:
    _, share = measure_loop(SHAPES["mnist"], steps=200, data_dir=None)

    assert share < 0.3


@pytest.mark.parametrize("name", SHAPES)
def test_the_loop_trains_every_shape(name: str) -> None:
    network = replace(SHAPES[name].network, hidden_size=64)
    shape = replace(SHAPES[name], batch=3, time=9, network=network)
    milliseconds, _ = measure_loop(shape, steps=2, data_dir=None)

    assert milliseconds > 0


def test_a_slow_loop_shows_in_its_share(monkeypatch: pytest.MonkeyPatch) -> None:
    shape = replace(SHAPES["mnist"], batch=2, time=9)
    step = Trainer.step

    def slow(trainer: Trainer) -> float:
        time.sleep(0.05)
        return step(trainer)

    monkeypatch.setattr(Trainer, "step", slow)
    _, share = measure_loop(shape, steps=5, data_dir=None)

    assert share > 0.5


def test_an_unknown_shape_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "training", "--shapes", "cifar"]) == 2
    assert "A shape must be one of mnist, copy" in capsys.readouterr().err


def test_extra_memory_sees_a_buffer() -> None:
    size = 200 << 20
    assert extra_megabytes(lambda: bytearray(size).count(1)) == pytest.approx(200, rel=0.2)
