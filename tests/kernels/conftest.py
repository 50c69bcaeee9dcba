"""Tests of the native library: without it they have nothing to say."""

from __future__ import annotations

import pytest

from hadamrnn.kernels import native_status


@pytest.fixture
def native() -> None:
    status = native_status()
    if status.backend != "native":
        pytest.skip(f"the native library is {status.reason}")
