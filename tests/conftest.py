"""Shared set-up: quiet, repeatable hypothesis and seeds; the command line in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import pytest
import torch
from hypothesis import settings

from hadamrnn.cli import main

settings.register_profile("hadamrnn", deadline=None, print_blob=True)
settings.load_profile("hadamrnn")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield


class Answer(NamedTuple):
    status: int
    out: str
    err: str


Command = Callable[..., Answer]


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Command:
    """Run `hadamrnn ARGUMENTS` and return its status and output."""

    def run(*arguments: object) -> Answer:
        capsys.readouterr()
        try:
            status = main([str(argument) for argument in arguments])
        except SystemExit as stop:
            status = int(str(stop.code))
        return Answer(status, *capsys.readouterr())

    return run
