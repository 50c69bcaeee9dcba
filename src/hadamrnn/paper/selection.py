"""From names on the command line to jobs. Start at `select`."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Any

from hadamrnn.errors import InputError, check_name
from hadamrnn.paper.appendix_tables import SCALES, TRAINING_TIMES, ScaleRow, TimeRow
from hadamrnn.paper.main_tables import TABLES
from hadamrnn.paper.rows import Setup

# These use runs of other tables.
DERIVED: dict[str, tuple[TimeRow, ...] | tuple[ScaleRow, ...]] = {"times": TRAINING_TIMES, "scales": SCALES}
NAMES = (*TABLES, *DERIVED, "memorization", "all")


def setups(table: str) -> dict[str, tuple[Setup, tuple[int, ...]]]:
    """Return the setups of a table by key, each with its seeds.

    >>> list(setups("scales"))
    ['copy-128-4bit', 'smnist-512-4bit', 'pmnist-512-4bit', 'imdb-512-4bit']
    """
    if table == "all":
        found: dict[str, tuple[Setup, tuple[int, ...]]] = {}
        for each in TABLES.values():
            found |= each.setups
        return found
    if table in DERIVED:
        return {row.setup.key: (row.setup, (0,)) for row in DERIVED[table]}
    check_name("A table", table, NAMES)
    return TABLES[table].setups if table in TABLES else {}


def select(table: str, patterns: Sequence[str] = ()) -> list[tuple[Setup, tuple[int, ...]]]:
    """Return the setups whose key matches a pattern such as `pmnist-*`; all without patterns."""
    found = setups(table)
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in found):
            nearest = get_close_matches(pattern, list(found), n=1, cutoff=0.0)[0]
            raise InputError(
                f"No row of {table} matches {pattern!r}. The nearest is {nearest!r}; --list shows all."
            )
    return [
        chosen
        for key, chosen in found.items()
        if not patterns or any(fnmatchcase(key, pattern) for pattern in patterns)
    ]


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Return NAME=VALUE texts as fields of `TrainingConfig`.

    >>> parse_settings(["epochs=3", "decay=none"])
    {'epochs': 3, 'decay': 'none'}
    """
    from hadamrnn.training.config import check_names, parse_value

    settings: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise InputError(f"--set must be NAME=VALUE, such as epochs=10, got {text!r}.")
        check_names({name: value})
        settings[name] = parse_value(name, value)
    return settings
