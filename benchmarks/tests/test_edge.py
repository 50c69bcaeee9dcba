"""Networks on microcontrollers compared with two other cells."""

from __future__ import annotations

import numpy as np
import pytest

from hadamrnn.export.targets import TARGETS
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn_benchmarks import inference
from hadamrnn_benchmarks.edge import NETWORKS, RIVALS, edge_page, measure_rival
from hadamrnn_benchmarks.instructions import run_instructions
from tests.edge_targets import installed


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


@pytest.mark.edge
def test_estimates_of_drawn_networks_are_within_15_percent_of_the_counts() -> None:
    installed("cortex-m4")
    rows = run_instructions(10, seed=2)

    assert max(abs(row.error) for row in rows) < 0.15
    assert np.median([abs(row.error) for row in rows]) < 0.05


def test_the_page_names_what_was_left_out() -> None:
    front_end = ("mel, 16 kHz", "cortex-m4", "2,336", "1,844", "240", "85,879", "13.4%")
    page = edge_page([], [f"{target.name}: no tools" for target in TARGETS], front_ends=[front_end])

    assert all(target.name in page for target in TARGETS)
    assert page.index("## The signal front end") < page.index("85,879") < page.index("## Left out")
