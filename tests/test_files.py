"""Files are written whole, with the permissions that the user's umask gives."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hadamrnn.files import write_atomically


def test_a_file_gets_the_permissions_of_open_without_touching_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opened").touch()
    monkeypatch.setattr(os, "umask", None)
    write_atomically(tmp_path / "written", b"content")

    opened, written = ((tmp_path / name).stat().st_mode for name in ("opened", "written"))
    assert written == opened
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opened", "written"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, None)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
