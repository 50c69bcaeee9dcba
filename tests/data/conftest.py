"""Every test here has an empty cache folder and no network; `real_data` is the folder of real files."""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests

from hadamrnn.data import files
from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import load_task

REAL_DATA = os.environ.get("HADAMRNN_DATA")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Return the cache folder of this test; only this machine is reachable."""
    get, answers = requests.get, list[requests.Response]()

    def local_only(url: str, **options: Any) -> requests.Response:
        if urlsplit(url).hostname != "127.0.0.1":
            raise requests.ConnectionError("no network in tests")
        answers.append(get(url, **options))
        return answers[-1]

    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "cache_folder", lambda: folder)
    monkeypatch.setattr(requests, "get", local_only)
    monkeypatch.delenv("HADAMRNN_DATA", raising=False)
    yield folder
    for answer in answers:  # pooch leaves a failed one open
        answer.close()


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
