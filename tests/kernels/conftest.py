"""Skip the tests of the native library if it is missing."""

from __future__ import annotations

import pytest

from hadamrnn.kernels import native_status


@pytest.fixture
def native() -> None:
    status = native_status()
    if status.backend != "native":
        pytest.skip(f"the native library is {status.reason}")
