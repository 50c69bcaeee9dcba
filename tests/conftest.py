"""Shared set-up: quiet, repeatable hypothesis and seeds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from hypothesis import settings

settings.register_profile("hadamrnn", deadline=None, print_blob=True)
settings.load_profile("hadamrnn")


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    torch.manual_seed(0)
    yield
