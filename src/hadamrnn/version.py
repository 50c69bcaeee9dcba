"""The version of this package: the installed one, or that of the source tree it runs from."""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from pathlib import Path

NAME = "hadamrnn"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"  # there only in a source tree


@cache
def package_version() -> str:
    """Return the version, as `0.1.0`.

    >>> package_version()[0].isdigit()
    True
    """
    return installed_version(NAME) or source_version(PYPROJECT)


def installed_version(package: str) -> str | None:
    """Return the version of a package, None if it is not installed."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None


def source_version(pyproject: Path) -> str:
    """Return the version that a project file states, `unknown` if it is not this package's."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"] if pyproject.is_file() else {}
    return str(project["version"]) if project.get("name") == NAME else "unknown"
