"""Fixtures of the tests of training: small tasks, small runs, and the command line in this process."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.models import build

Draw = Callable[[TrainingConfig], tuple[SequenceModel, Splits]]


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
        return build(config, splits), splits

    return drawn
