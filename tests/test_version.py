"""The version is known wherever the package is installed."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path

import pytest

import hadamrnn
from hadamrnn.packages import package_version, source_version
from hadamrnn.training.folder import versions

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"


def test_a_source_tree_that_was_never_installed_knows_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    stated = next(line for line in PYPROJECT.read_text().splitlines() if line.startswith("version"))
    monkeypatch.setattr(metadata, "version", missing)
    package_version.cache_clear()

    assert f'version = "{hadamrnn.__version__}"' == stated
    assert versions()["hadamrnn"] == hadamrnn.__version__
    package_version.cache_clear()


@pytest.mark.parametrize("text", ["[project]\nname = 'other'\nversion = '9'\n", None])
def test_another_projects_file_is_not_ours(text: str | None, tmp_path: Path) -> None:
    path = tmp_path / "pyproject.toml"
    if text is not None:
        path.write_text(text)

    assert source_version(path) == "unknown"
