"""The inference benchmark compares every engine with the plain loop."""

from __future__ import annotations

import json
import os
import threading

import pytest

from hadamrnn.cli import main
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.network import Network
from hadamrnn_benchmarks import inference


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    network = Network(2, 16, 3, activation_bits=12)
    shape = inference.InferenceWork("small", network, batch=40, time=5, numpy_rows=8, rows=4, rival_units=6)
    monkeypatch.setattr(inference, "SHAPES", {"small": shape})


def test_every_engine_is_measured_against_the_plain_loop(
    small: None, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["bench", "inference", "--json", "--rounds", "1"]) == 0

    figures = json.loads(capsys.readouterr().out)
    measured = {row["engine"] for row in figures["rows"]}
    assert {"native", "numpy", "torch", "plain"} <= measured
    assert len(measured) + 4 * len(figures["left_out"]) >= 9
    assert {row["numpy_ratio"] for row in figures["rows"] if row["engine"] == "numpy"} == {1.0}
    shares = [row["limit_share"] for row in figures["rows"] if row["limit_share"] is not None]
    cores = os.cpu_count() or 1
    assert cores == 1 or f"native, {cores} threads" in measured
    assert all(0 < share < 1 for share in shares) and len(shares) == ("c" in measured)
    assert {row["ratio"] for row in figures["rows"] if row["engine"] == "plain"} == {1.0}


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(InputError, match="mnist, mnist5120, har, copy"):
        inference.run_inference(["cifar"])


def test_the_reference_engine_works_in_the_thread_whose_clock_times_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise AssertionError("a second thread")

    model = draw_model(Network(2, 16, 3, activation_bits=12))
    work = inference.engine_work(model, inference.draw_codes(model, 500, 3), native=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert work().shape == (500, 3)
