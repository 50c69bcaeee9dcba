"""The standing of each task: validation data selects the network, the test set gives its figure."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import pytest

from hadamrnn.cli import build_parser
from hadamrnn.pages.document import Cell
from hadamrnn.training.config import config_values
from hadamrnn_paper.cli import reproduce
from hadamrnn_paper.cli.reproduce import _jobs
from hadamrnn_paper.compare import show, trains_on_validation
from hadamrnn_paper.front import Standing, networks_section, selection_figure, standing_section, standings
from hadamrnn_paper.results import Result, read_results
from hadamrnn_paper.tables import TASKS

ROOT = Path(__file__).parents[1]


def standing(task: str, *results: Result) -> Standing:
    return next(each for each in standings(results) if each.task.name == task)


def network_line(task: str, *results: Result) -> tuple[Cell, ...]:
    part = networks_section(standings(results)).parts[0]
    assert part.grid is not None
    return next(line for line in part.grid.lines if line[0].text == TASKS[task].title)


def test_where_we_stand_is_chosen_on_validation_data(result: Result) -> None:
    """The other network is better on the test set, but must not be selected."""
    assert result.integer is not None
    integer = replace(result.integer, test=0.93)
    chosen = replace(result, preset="paper", validation=0.96, test=0.94, integer=integer)

    found = standing("pmnist", result, chosen)
    assert found.best is not None and found.best.text == "93.00"


def test_where_we_stand_is_a_mean_over_the_seeds_of_one_network(result: Result) -> None:
    assert result.integer is not None
    lucky = replace(result, seed=1, validation=0.99, test=0.97, integer=replace(result.integer, test=0.9694))
    found = standing("pmnist", result, lucky)

    assert found.best is not None and found.best.validation == pytest.approx((0.9512 + 0.99) / 2)
    assert found.best.text == "95.94 ± 1.41"
    assert network_line("pmnist", result, lucky)[2].text == "best, seeds 0, 1"


def test_a_network_of_five_seeds_goes_before_a_lucky_run(result: Result) -> None:
    lucky = replace(result, preset="paper", validation=0.99)
    often = [replace(result, seed=seed) for seed in range(5)]
    found = standing("pmnist", lucky, *often)

    assert found.best is not None and found.best.preset == "best"
    assert standing("pmnist", lucky, *often[:4]).best == standing("pmnist", lucky).best


def test_a_network_trained_on_its_validation_people_is_selected_by_cross_validation(result: Result) -> None:
    """Until all folds have run it cannot be selected, however good its figure on people it was trained on."""
    config = {**result.config, "task": "dsa19", "task_options": {"left_out": None}}
    everybody = replace(result, experiment="dsa19-512-6bit-q16", config=config, validation=0.99, test=0.85)
    folds = [
        replace(
            everybody,
            experiment=f"dsa19-512-6bit-q16-left_out{person}",
            config={**config, "task_options": {"left_out": person}},
            validation=0.8 + person / 100,
        )
        for person in (1, 2, 3, 4)
    ]

    assert standing("dsa19", everybody).best is None
    assert standing("dsa19", everybody, *folds[:3]).best is None
    chosen = standing("dsa19", everybody, *folds).best
    assert chosen is not None and chosen.results == (everybody,)
    assert selection_figure(chosen, folds) == pytest.approx(0.825)


def test_no_network_that_stands_for_a_task_was_selected_on_data_it_was_trained_on() -> None:
    results = read_results(ROOT / "results")
    for found in standings(results):
        for chosen in (found.best, found.least):
            trained = chosen is not None and any(map(trains_on_validation, chosen.results))
            if chosen is not None and trained:
                own = {result.validation for result in chosen.results}
                assert selection_figure(chosen, results) not in {None, *own}


def test_what_matches_the_paper_is_chosen_on_validation_data_too(result: Result) -> None:
    """A smaller network is ahead on the test set only, and must not be selected."""
    assert result.integer is not None
    lucky = replace(result, experiment="pmnist-256-4bit", validation=0.95, test=0.97)
    lucky = replace(lucky, config={**result.config, "hidden_size": 256})
    sound = replace(result, validation=0.96, test=0.95, integer=replace(result.integer, test=0.9499))

    assert [cell.text for cell in network_line("pmnist", lucky, sound)[3:5]] == ["3.58", "94.99"]


def test_where_we_stand_names_the_seed_the_recurrence_and_the_command_of_that_run(result: Result) -> None:
    config = {**result.config, "recurrence": "relu", "seed": 2}
    relu = replace(result, experiment="pmnist-512-4bit-relu", seed=2, config=config)
    line = network_line("pmnist", relu)

    assert "ReLU" in line[1].text and line[2].text == "best, seed 2"
    args = build_parser().parse_args(shlex.split(line[5].text)[1:])
    (job,) = _jobs(*reproduce.run.read(args))
    assert config_values(job.config) == config


def test_the_opening_table_names_seeds_and_a_relu_recurrence(result: Result) -> None:
    config = {**result.config, "recurrence": "relu"}
    relu = [
        replace(result, experiment="pmnist-512-4bit-relu", seed=seed, config={**config, "seed": seed})
        for seed in (0, 1)
    ]

    def ours(*results: Result) -> str:
        grid = standing_section(standings(results)).parts[0].grid
        assert grid is not None
        return grid.lines[0][2].text.replace("\u00a0", " ")

    assert ours(result) == "94.94 in 3.58 kB, 1 seed"
    assert ours(*relu) == "94.94 ± 0.00 in 3.58 kB, 2 seeds, ReLU recurrence"


def test_the_table_of_results_is_where_we_stand() -> None:
    page = (ROOT.parent / "docs" / "results.md").read_text().partition("## The paper's tasks")[2]
    rows = {
        line.split("|")[1].split()[0].lower().strip(","): line for line in page.splitlines() if "|" in line
    }
    results = read_results(ROOT / "results")
    for found in standings(results):
        row = rows[found.task.title.split()[0].lower()]
        if found.best is None:
            assert "missing" in row
            continue
        best = found.best
        line = network_line(found.task.name, *results)
        paper = (show(found.task.metric, found.paper.value), f"{found.paper.size:g}")
        numbers = [
            *paper,
            best.text,
            f"{best.kilobytes:.2f}",
            *(cell.text for cell in line[3:5] if cell.text),
        ]

        assert all(number in row for number in numbers), (numbers, row)
        assert f"| {len(best.results)} |" in row
        assert ("ReLU" in row) == ("ReLU" in best.setup.title)


def test_a_difference_within_one_standard_deviation_is_level(result: Result) -> None:
    """The paper's best here is 95.85; the means of both are ahead of it."""
    means = {"level": (0.955, 0.965), "ahead": (0.959, 0.961)}
    found = {
        name: standing(
            "pmnist", *(replace(result, seed=n, test=each, integer=None) for n, each in enumerate(values))
        )
        for name, values in means.items()
    }

    assert found["level"].is_level and found["level"].lead == Cell("+0.15, level", "better")
    assert not found["ahead"].is_level and found["ahead"].lead == Cell("+0.15", "better")
    assert not found["ahead"].is_leaky_stack
