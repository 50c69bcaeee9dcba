"""The benchmark of training: the yardstick is the model, and the command reports what it measured."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch

from hadamrnn.baselines.networks import build_model
from hadamrnn.bench import training
from hadamrnn.bench.plain import plain_loss
from hadamrnn.bench.scaling import run_scaling
from hadamrnn.bench.training import SHAPES, extra_megabytes, make_batch, measure_loop
from hadamrnn.cli import main
from hadamrnn.training.trainer import Trainer


@pytest.mark.parametrize("name", SHAPES)
def test_the_plain_loop_computes_the_models_loss(name: str) -> None:
    network = replace(SHAPES[name].network, hidden_size=64)
    shape = replace(SHAPES[name], batch=3, time=9, network=network)
    x, target = make_batch(shape, data_dir=None)
    model = build_model(network).double()
    values = x.double() if x.is_floating_point() else x
    loss, expected = model.loss(values, target), plain_loss(model, values, target)
    torch.testing.assert_close(loss, expected)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters)
    )


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
    assert row["loop_share"] <= 1 and row["loop_ms"] > 0  # 1 where the clock is too coarse for the engine


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


def test_scaling_draws_every_point(tmp_path: Path) -> None:
    out = tmp_path / "plot.svg"
    points = run_scaling(out, threads=1, rounds=1, lengths=(10, 100), hidden_sizes=(4, 8, 16))
    assert [point.size for point in points] == [10, 100, 4, 8, 16]
    space = "{http://www.w3.org/2000/svg}"
    lines = [
        group
        for group in ElementTree.parse(out).getroot().iter(f"{space}g")
        if group.get("id") in ("scaling-length", "scaling-hidden-size")
    ]
    assert len(lines) == 2
    assert sum(len(list(line.iter(f"{space}use"))) for line in lines) == len(points)


def test_extra_memory_sees_a_buffer() -> None:
    size = 200 << 20
    assert extra_megabytes(lambda: bytearray(size).count(1)) == pytest.approx(200, rel=0.2)
