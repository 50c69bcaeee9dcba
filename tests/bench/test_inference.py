"""The benches of a trained network at work: every engine is measured, and the plain loop is the layer."""

from __future__ import annotations

import json
import os
import threading

import numpy as np
import pytest
import torch

from hadamrnn.bench import inference
from hadamrnn.bench.edge import NETWORKS, RIVALS, edge_page, measure_rival
from hadamrnn.bench.plain import plain_logits
from hadamrnn.cli import main
from hadamrnn.errors import InputError
from hadamrnn.export.targets import TARGETS
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.network import Network
from tests.edge_targets import installed


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


def test_the_plain_loop_is_the_layer(small: None) -> None:
    for kind in ("dense", "one_hot"):
        network = Network(3, 16, 2, input_kind=kind)
        model, x = inference._float_network(
            inference.InferenceWork("net", network, batch=3, time=7, numpy_rows=3, rows=3)
        )

        torch.testing.assert_close(plain_logits(model, x), model(x))


def test_an_unknown_shape_is_refused() -> None:
    with pytest.raises(InputError, match="A shape must be one of mnist, mnist5120, har, copy"):
        inference.run_inference(["cifar"])


@pytest.mark.parametrize("name", NETWORKS)
def test_a_drawn_network_neither_vanishes_nor_saturates_throughout(name: str) -> None:
    model = draw_model(NETWORKS[name])
    engine = Engine(model)
    state = engine.init()
    for codes in inference.draw_codes(model, 1, 30)[0]:
        engine.step(state, codes)

    assert np.abs(state.h).mean() > 2 ** (model.activation_bits - 1) / 100
    assert state.saturations < 0.2 * 30 * model.hidden_size


@pytest.mark.edge
@pytest.mark.parametrize("rival", RIVALS)
def test_a_hadamard_step_costs_a_tenth_of_its_rivals_on_a_cortex_m4(rival: str) -> None:
    from hadamrnn.export.targets import measure

    target = installed("cortex-m4")
    network = NETWORKS["128, one channel"]
    ours = measure(draw_model(network), target)
    theirs = measure_rival(rival, network.hidden_size, target)

    assert 10 * ours.step < theirs.step
    page = edge_page([theirs], ["something"])
    assert f"{theirs.step:,}" in page and "Left out" in page


def test_the_page_names_what_was_left_out() -> None:
    page = edge_page([], [f"{target.name}: no tools" for target in TARGETS])

    assert all(target.name in page for target in TARGETS)


def test_the_reference_engine_works_in_the_thread_whose_clock_times_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise AssertionError("a second thread")

    model = draw_model(Network(2, 16, 3, activation_bits=12))
    work = inference.engine_work(model, inference.draw_codes(model, 500, 3), native=False)
    monkeypatch.setattr(threading.Thread, "start", refuse)

    assert work().shape == (500, 3)
