"""The paper's rows: they parse, they are all there, and their sizes and additions are what `cost` says."""

from __future__ import annotations

import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import dense_step_cost, paper_step_cost
from hadamrnn.paper.main_tables import TABLES, TASKS
from hadamrnn.paper.printed import COMPLEXITY, SCALES, TRAINING_TIMES
from hadamrnn.paper.rows import Row
from hadamrnn.paper.runner import Job
from hadamrnn.paper.selection import experiments, parse_settings, select

ROWS = [(table.name, row) for table in TABLES.values() for row in table.rows]
HADAM = [row for _, row in ROWS if row.experiment is not None and row.experiment.model == "hadamrnn"]


def name(row: Row) -> str:
    assert row.experiment is not None
    return f"{row.experiment.key}-{row.activations}"


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
    assert row.experiment is not None or row.source, "a row that is not run names who published it"


@pytest.mark.parametrize("row", [row for row in HADAM if row.kilobytes], ids=name)
def test_printed_sizes_are_those_of_cost_but_for_the_one_misprint(row: Row) -> None:
    assert row.experiment is not None
    size = row.experiment.kilobytes(TASKS[row.task], row.activation_bits)
    digits = len(row.kilobytes.partition(".")[2])

    assert (f"{size:.{digits}f}" == row.kilobytes) is not row.misprint
    assert not row.misprint or (name(row), f"{size:.2f}") == ("copy-128-2bit-FP", "1.14")


@pytest.mark.parametrize("row", [row for row in HADAM if row.additions], ids=name)
def test_printed_additions_are_those_of_cost(row: Row) -> None:
    experiment, task = row.experiment, TASKS[row.task]
    assert experiment is not None
    cost = paper_step_cost(
        experiment.hidden_size, task.input_size, task.output_size, num_blocks=experiment.num_blocks
    )

    assert cost.recurrent.additions == row.additions


def test_the_complexity_table_is_what_cost_counts() -> None:
    d_in, d_h, d_out, q = 3, 64, 5, 4
    sizes = {"d_in": d_in, "d_h": d_h, "d_out": d_out, "q": q}
    costs = {
        "ornn": dense_step_cost(d_h, d_in, d_out),
        "qornn": dense_step_cost(d_h, d_in, d_out, weight_bits=8),
        "hadamrnn": paper_step_cost(d_h, d_in, d_out),
        "block_hadamrnn": paper_step_cost(d_h, d_in, d_out, num_blocks=q),
    }
    for row in COMPLEXITY:
        for model, cost in costs.items():
            assert eval(getattr(row, model), {}, sizes) == getattr(getattr(cost, row.layer), row.operation)


def test_the_same_network_is_one_experiment_in_every_table() -> None:
    for table in ("results", "blocks", "ablation", "columns", "scales", "times"):
        assert experiments(table)["pmnist-512-4bit"] == experiments("results")["pmnist-512-4bit"]
    everything = experiments("all")
    assert len({job.key for job, _ in everything.values()}) == len(everything)


@pytest.mark.parametrize("preset", ["paper", "best"])
def test_every_experiment_has_a_configuration(preset: str) -> None:
    for experiment, seeds in experiments("all").values():
        config = Job(experiment, preset, seeds[0]).config
        assert (config.task, config.hidden_size) == (experiment.task, experiment.hidden_size)
        assert (config.num_blocks, config.weight_bits) == (experiment.num_blocks, experiment.weight_bits) or (
            experiment.model != "hadamrnn"
        )


def test_the_presets_of_the_paper_are_its_epochs() -> None:
    for row in TRAINING_TIMES:
        assert Job(row.experiment, "paper").config.epochs == row.epochs == TASKS[row.experiment.task].epochs
        assert TASKS[row.experiment.task].hours == row.hours


def test_rows_are_chosen_by_pattern() -> None:
    chosen = [experiment.key for experiment, _ in select("blocks", ["copy-*", "pmnist-512-4bit"])]

    assert chosen == [*(f"copy-128-4bit-q{q}" for q in (32, 8, 2)), "copy-128-4bit", "pmnist-512-4bit"]


@pytest.mark.parametrize(
    ("table", "patterns", "complaint"),
    [
        ("reslts", [], "Did you mean 'results'"),
        ("blocks", ["pmnits-512"], "No row of blocks fits 'pmnits-512'"),
    ],
)
def test_names_that_do_not_exist_are_refused(table: str, patterns: list[str], complaint: str) -> None:
    with pytest.raises(InputError, match=complaint):
        select(table, patterns)


def test_settings_are_names_with_values() -> None:
    assert parse_settings(["learning_rate=1e-3", "weight_bits=none"]) == {
        "learning_rate": 1e-3,
        "weight_bits": None,
    }
    with pytest.raises(InputError, match="must be NAME=VALUE"):
        parse_settings(["epochs"])
    with pytest.raises(InputError, match="nearest valid name is 'epochs'"):
        parse_settings(["epoch=3"])
