"""Fixtures of the tests of the paper's tables: a small job, and a result."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadamrnn.training.config import config_values
from hadamrnn_paper.results import IntegerFigures, Result
from hadamrnn_paper.rows import setup
from hadamrnn_paper.runner import Job, Places
from tests.conftest import command as command
from tests.conftest import seeded as seeded

SMALL = {"epochs": 2, "threads": 1}


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(tmp_path / "results", tmp_path / "runs")


@pytest.fixture
def job() -> Job:
    return Job(setup("digits", 8, 4), "quick", 0, SMALL)


@pytest.fixture
def result() -> Result:
    return made_up_result()


def made_up_result() -> Result:
    """Return a result as the runner writes it, with invented figures."""
    return Result(
        experiment="pmnist-512-4bit",
        preset="best",
        seed=0,
        config=config_values(Job(setup("pmnist", 512, 4), "best", 0, {"epochs": 12, "threads": 1}).config),
        metric="accuracy",
        test=0.9501,
        validation=0.9512,
        integer=IntegerFigures(12, 0.9494, 3.58, 0, 7),
        kilobytes=4.85,
        steps=9372,
        epochs=12.0,
        best_step=8000,
        seconds=312.5,
        ended="finished",
        threads=1,
        cpu="A Processor",
        versions={"python": "3.11.7", "torch": "2.13.0"},
        curve={"epoch": [1.0, 2.0], "loss": [1.5, 0.5], "validation": [0.8, 0.9512], "flips": [3, 0]},
    )
