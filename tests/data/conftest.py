"""Every test here has an empty cache folder and no network; `real_data` is the folder of real files."""

from __future__ import annotations

import functools
import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hadamrnn.data import Split, Splits, files, load_task

REAL_DATA = os.environ.get("HADAMRNN_DATA")
urlopen = urllib.request.urlopen


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the cache folder of this test; only file: addresses can be opened."""

    def local_only(request: urllib.request.Request, **options: Any) -> Any:
        if request.type != "file":
            raise urllib.error.URLError("no network in tests")
        return urlopen(request, **options)

    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "cache_folder", lambda: folder)
    monkeypatch.setattr(urllib.request, "urlopen", local_only)
    monkeypatch.delenv("HADAMRNN_DATA", raising=False)
    return folder


@pytest.fixture
def real_data() -> str:
    if REAL_DATA is None:
        pytest.skip("HADAMRNN_DATA does not name a folder with the real data")
    return REAL_DATA


@pytest.fixture
def real_splits(real_data: str) -> Callable[[str], Splits]:
    """Return a loader of real tasks that loads each only once."""
    return lambda task: load_once(task, real_data)


@functools.cache
def load_once(task: str, folder: str) -> Splits:
    return load_task(task, folder)


@pytest.fixture
def fingerprint() -> Callable[[Split], str]:
    """Return the first 16 digits of the SHA-256 of a split's stored bytes."""

    def digest(split: Split) -> str:
        content = split.x.contiguous().numpy().tobytes()
        if split.y is not None:
            content += split.y.contiguous().numpy().tobytes()
        return hashlib.sha256(content).hexdigest()[:16]

    return digest
