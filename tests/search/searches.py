"""Small searches for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from optuna.study import Study

from hadamrnn.data.tasks import load_task
from hadamrnn.search.space import Budget
from hadamrnn.search.study import open_study
from hadamrnn.search.trials import Search
from hadamrnn.training.config import resolve_config


def small_search(epochs: int = 1, **budget: Any) -> Search:
    preset = resolve_config("digits", preset="quick", overrides={"epochs": epochs, "threads": 1})
    splits = load_task("digits")
    windows = {"window": splits.seq_length, "hop": splits.seq_length}  # one series after the other
    return Search(splits, preset, Budget(**{"max_bytes": 200, **windows, **budget}))


def study_of(search: Search, place: Path | str) -> Study:
    return open_study(str(place), "digits", search.settings, maximize=search.maximize)


def hush(line: str) -> None:
    pass
