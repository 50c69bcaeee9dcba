"""The cost of 12-bit states in networks with leaks, pools and several layers, over every stored result."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadamrnn_paper.results import Result, read_results

RESULTS = Path(__file__).parents[1] / "results"
TASKS = ("har2", "har6", "dsa19", "google12")
MOST = 0.003  # largest loss of accuracy


def stacked(task: str) -> list[Result]:
    """Return the results of the task's networks that pool their states, if these were run in integers."""
    return [
        result
        for result in read_results(RESULTS)
        if result.config["task"] == task
        and result.preset == "best"
        and result.integer is not None
        and list(result.config.get("readouts", ["last"])) != ["last"]
    ]


@pytest.mark.parametrize("task", TASKS)
def test_twelve_bit_states_lose_at_most_three_in_a_thousand(task: str) -> None:
    results = stacked(task)
    if not results:
        pytest.skip(f"no network of {task} that pools its states was run in integers")

    for result in results:
        figures = result.integer
        assert figures is not None and figures.test is not None and result.test is not None
        assert figures.activation_bits == 12
        assert result.test - figures.test <= MOST, result.name
