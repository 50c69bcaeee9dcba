"""Microcontrollers whose tools are installed, for the tests marked edge."""

from __future__ import annotations

import os

import pytest

from hadamrnn.export.targets import Board, target_named


def installed(name: str) -> Board:
    """Return the target; if its tools are missing, skip the test, or let it fail under HADAMRNN_EDGE=1."""
    target = target_named(name)
    if target.missing_tools and not os.environ.get("HADAMRNN_EDGE"):
        missing, packages = ", ".join(target.missing_tools), " ".join(target.packages)
        pytest.skip(f"no {missing}: make test-edge installs {packages}")
    return target
