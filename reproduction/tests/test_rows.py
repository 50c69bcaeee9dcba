"""The paper's rows: all of them parse, and their sizes and additions are those of `cost`."""

from __future__ import annotations

import pytest

from hadamrnn.fixedpoint.cost import paper_step_cost
from hadamrnn.network import Network, hadamard
from hadamrnn_paper.baselines.cost import baseline_step_cost
from hadamrnn_paper.baselines.networks import Baseline, ORNNNetwork, QORNNNetwork
from hadamrnn_paper.rows import Row, Setup
from hadamrnn_paper.runner import Job, setups
from hadamrnn_paper.tables import COMPLEXITY, SCALES, TABLES, TASKS, TRAINING_TIMES

ROWS = [(table.name, row) for table in TABLES.values() for row in table.rows]
HADAM = [row for _, row in ROWS if row.setup is not None and isinstance(row.setup.network, Network)]


def name(row: Row) -> str:
    assert row.setup is not None
    return f"{row.setup.key}-{row.activations}"


def test_every_row_of_every_table_is_there() -> None:
    counts = {table.name: len(table.rows) for table in TABLES.values() if table.label}

    assert counts == {
        "results": 36,
        "blocks": 19,
        "variability": 15,
        "glue": 18,
        "iot": 20,
        "ablation": 8,
        "columns": 8,
    }
    assert (len(COMPLEXITY), len(TRAINING_TIMES), len(SCALES)) == (6, 6, 4)


@pytest.mark.parametrize("row", [row for _, row in ROWS], ids=lambda row: f"{row.task}-{row.model}")
def test_a_row_has_a_task_and_figures_that_are_numbers(row: Row) -> None:
    assert row.task in TASKS
    assert row.published in ("", "BL") or row.value is not None
    if row.value is not None:
        assert (0 < row.value < 1) if TASKS[row.task].metric == "cross_entropy" else (20 < row.value < 100)
    assert all(float(text) > 0 for text in (row.kilobytes, row.deviation) if text)
    assert row.setup is not None or row.source, "a row that is not run names who published it"


@pytest.mark.parametrize("row", [row for row in HADAM if row.kilobytes], ids=name)
def test_printed_sizes_are_those_of_cost_but_for_the_one_misprint(row: Row) -> None:
    assert row.setup is not None
    size = row.setup.kilobytes(TASKS[row.task], row.activation_bits)
    digits = len(row.kilobytes.partition(".")[2])

    assert (f"{size:.{digits}f}" == row.kilobytes) is not row.misprint
    assert not row.misprint or (name(row), f"{size:.2f}") == ("copy-128-2bit-FP", "1.14")


def test_channels_that_a_tasks_option_adds_are_counted() -> None:
    """The option adds twelve columns to U, each with 64 weights of 4 bits."""
    network = Setup("har6", Network(hidden_size=64))
    plain, fine = (
        network.kilobytes(TASKS["har6"], config={"task_options": {"fine": fine}}) for fine in (False, True)
    )

    assert fine - plain == 12 * 64 * 4 / 8 / 1024


def test_outputs_that_a_tasks_option_adds_are_counted() -> None:
    """The option adds five rows to V, each with 64 weights of 4 bits, and five floats to its bias."""
    network = Setup("har2", Network(hidden_size=64))
    two, six = (
        network.kilobytes(TASKS["har2"], config={"task_options": {"activities": activities}})
        for activities in (False, True)
    )

    assert six - two == 5 * (64 * 4 / 8 + 4) / 1024


@pytest.mark.parametrize("preset", ["paper", "best"])
def test_a_network_of_the_paper_reads_the_papers_channels_under_every_preset(preset: str) -> None:
    rows = [row.setup for table, row in ROWS if table == "iot" and row.setup and row.task == "har2"]

    assert rows
    for each in rows:
        options = Job(each, preset).config.task_options
        assert not options.get("fine") and not options.get("activities")


@pytest.mark.parametrize("row", [row for row in HADAM if row.additions], ids=name)
def test_printed_additions_are_those_of_cost(row: Row) -> None:
    assert row.setup is not None
    cost = paper_step_cost(TASKS[row.task].network(hadamard(row.setup.network)))

    assert cost.recurrent.additions == row.additions


def test_the_complexity_table_is_what_cost_counts() -> None:
    d_in, d_h, d_out, q = 3, 64, 5, 4
    sizes = {"d_in": d_in, "d_h": d_h, "d_out": d_out, "q": q}
    costs = (
        baseline_step_cost(ORNNNetwork(d_in, d_h, d_out)),
        baseline_step_cost(QORNNNetwork(d_in, d_h, d_out)),
        paper_step_cost(Network(d_in, d_h, d_out)),
        paper_step_cost(Network(d_in, d_h, d_out, num_blocks=q)),
    )
    for layer, operation, *formulas in COMPLEXITY:
        for formula, cost in zip(formulas, costs, strict=True):
            assert eval(formula, {}, sizes) == getattr(getattr(cost, layer), operation)


@pytest.mark.parametrize("preset", ["paper", "best"])
def test_every_setup_has_a_configuration(preset: str) -> None:
    for setup, seeds in setups("all").values():
        config = Job(setup, preset, seeds[0]).config
        network, wanted = config.network, setup.network
        assert (config.task, network.kind, network.hidden_size) == (
            setup.task,
            wanted.kind,
            wanted.hidden_size,
        )
        if isinstance(network, Network) and isinstance(wanted, Network):
            assert (network.weight_bits, network.num_blocks) == (wanted.weight_bits, wanted.num_blocks)
        elif isinstance(network, Baseline) and isinstance(wanted, Baseline):
            assert network.bits == wanted.bits


def test_the_presets_of_the_paper_are_its_epochs() -> None:
    for row in TRAINING_TIMES:
        assert row.setup is not None
        assert Job(row.setup, "paper").config.epochs == TASKS[row.setup.task].epochs
