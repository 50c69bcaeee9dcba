"""What the tests of training share: small tasks, small runs, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import pytest
import torch

from hadamrnn.cli import main
from hadamrnn.data import Splits, load_task
from hadamrnn.layers.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.models import build

Draw = Callable[[TrainingConfig], tuple[SequenceModel, Splits]]


class Answer(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `hadamrnn ARGUMENTS` and return its status and what it printed."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = int(str(stop.code))
        return Answer(status, *capsys.readouterr())

    return run


@pytest.fixture(scope="session")
def digits() -> Splits:
    return load_task("digits")


@pytest.fixture(scope="session")
def copy_task() -> Splits:
    return load_task("copy", delay=5, sentence_length=2, train_size=64, validation_size=32, test_size=32)


@pytest.fixture
def draw(digits: Splits, copy_task: Splits) -> Draw:
    """Return the model that a run of `config` begins with, and its task."""

    def drawn(config: TrainingConfig) -> tuple[SequenceModel, Splits]:
        splits = {"digits": digits, "copy": copy_task}[config.task]
        torch.manual_seed(config.seed)
        return build(config, splits), splits

    return drawn
