"""Tasks, network types and commands of other packages, found through their entry points.

A package that is installed beside this one extends it by entry points in the groups below. Looking for names
imports nothing; `load` imports the one object that is asked for. Start at `load`.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from hadamrnn.errors import InputError, check_name, short

TASKS = "hadamrnn.tasks"
NETWORKS = "hadamrnn.networks"
COMMANDS = "hadamrnn.commands"


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
    except Exception as error:  # whatever a foreign module raises while it is imported
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        raise InputError(
            f"{name} cannot be imported from {entry.value} ({reason}). Reinstall its package."
        ) from error
