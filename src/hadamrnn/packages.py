"""Find the version of this package, and the tasks, network kinds and commands that other packages offer.

Installed packages extend this one through entry points in the groups below. Looking for names
imports nothing; `load` imports one requested object. Start at `load`.
"""

from __future__ import annotations

import tomllib
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from hadamrnn.errors import InputError, check_name, short

TASKS = "hadamrnn.tasks"
NETWORKS = "hadamrnn.networks"
COMMANDS = "hadamrnn.commands"
NAME = "hadamrnn"
PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"  # exists only in a source tree


@cache
def _entries(group: str) -> dict[str, list[EntryPoint]]:
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        if entry.value not in (each.value for each in found.get(entry.name, ())):
            found.setdefault(entry.name, []).append(entry)
    return found


def names(group: str) -> tuple[str, ...]:
    """Return the names that installed packages offer in a group."""
    return tuple(_entries(group))


def load(group: str, name: str) -> Any:
    """Return the object behind a name.

    Raises:
        InputError: the name is unknown, two packages offer it, or its package cannot be imported.
    """
    check_name(f"A name in {group}", name, names(group))
    entry, *others = _entries(group)[name]
    if others:
        values = " and ".join(each.value for each in (entry, *others))
        raise InputError(f"{short(name)} must be offered by one package, got {values}. Uninstall one.")
    try:
        return entry.load()
    except Exception as error:  # a foreign module may raise anything while it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{name} cannot be imported from {entry.value} ({reason}). Reinstall its package."
        ) from error


@cache
def package_version() -> str:
    """Return the version of this package, such as `0.1.0`.

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
    """Return the version in a project file, or `unknown` if the file belongs to another package."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"] if pyproject.is_file() else {}
    return str(project["version"]) if project.get("name") == NAME else "unknown"
