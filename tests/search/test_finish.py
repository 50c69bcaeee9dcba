"""The end of a search: it continues where it stopped, and reads the test set once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.run import RunOptions
from hadamrnn.search.space import Budget
from hadamrnn.search.trials import Search, finish, run_trials
from hadamrnn.training.config import resolve_config
from tests.search.searches import hush, small_search, study_of


@pytest.mark.parametrize("task", ["digits", "recordings"])
def test_the_final_training_goes_on_where_it_stopped(task: str, tmp_path: Path) -> None:
    """This includes a task that completes some of its options and stores them in the run's folder."""
    rows = [f"{step % 7 * sign},{label}" for sign, label in ((1, "up"), (-1, "down")) for step in range(400)]
    (tmp_path / "mine.csv").write_text("\n".join(["force,label", *rows]))
    mine = {"path": str(tmp_path / "mine.csv"), "window": 8, "group": "time"}
    overrides = {"epochs": 2, "threads": 1, "task_options": mine if task == "recordings" else {}}
    preset = resolve_config(task, preset="quick", overrides=overrides)
    search = Search(load_task(task, **preset.task_options), preset, Budget(300))
    study = study_of(search, tmp_path / "study")
    run_trials(study, search, 1, log=hush)
    asked = iter(range(10_000))
    with pytest.raises(InputError, match="best network stopped"):
        finish(study, search, tmp_path, RunOptions(stop=lambda: next(asked) == 2))

    figures = finish(study, search, tmp_path, RunOptions())

    assert figures["best"]["validation"] == figures["trials"][0]["validation"]


def test_figures_of_another_search_or_of_a_damaged_file_are_not_taken_over(tmp_path: Path) -> None:
    search = small_search()
    study = study_of(search, tmp_path / "study")
    run_trials(study, search, 1, log=hush)
    figures = finish(study, search, tmp_path, RunOptions())
    file = tmp_path / "search.json"
    best = {**figures["best"], "test": -1.0}  # a mark

    file.write_text(json.dumps({**figures, "best": best}))
    assert finish(study, search, tmp_path, RunOptions())["best"] == best  # the same search
    trials = [{**figures["trials"][0], "validation": 0.1}]
    others: list[dict[str, Any]] = [{"seed": 7, "best": best}, {"trials": trials, "best": best}]
    for other in (*others, {"best": []}, {"best": {}}):
        file.write_text(json.dumps({**figures, **other}))
        assert finish(study, search, tmp_path, RunOptions()) == figures
    for damaged in ("[]", "\xff"):
        file.write_text(damaged, encoding="latin-1")
        assert finish(study, search, tmp_path, RunOptions()) == figures
