"""Decide which columns of recordings are channels, labels or groups, and which are not used.

Options that the caller leaves unset follow from rules, and the decisions are reported. Start at `decide`.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hadamrnn.data.labels import MOST_NUMBERED
from hadamrnn.data.options import RecordingOptions
from hadamrnn.data.signals import common_rate, decide_features
from hadamrnn.data.tables import SAMPLE_ROWS, Recording, as_number, listed
from hadamrnn.errors import InputError, short

LABELS = ("label", "labels", "activity", "class")
GROUPS = ("group", "groups", "person", "subject", "user", "participant")
MARKS = (*LABELS, *GROUPS, "target", "anomaly", "changepoint")  # as channels, these would leak the label
CLOCKS = ("time", "timestamp", "datetime", "date", "index", "")
CLOCK_STAMPS = 16  # a column that never falls and has at least this many values is a clock
LEAST_GROUPS = 3  # files are the groups if every class is in this many of them
OF_FILE = ("file", "folder")  # where a label or a group may come from instead of a column


def decide(
    given: RecordingOptions, tables: list[Recording], labelled: bool = True
) -> tuple[RecordingOptions, dict[str, str]]:
    """Fill in unset options; return them, and the unused columns, each with a reason."""
    first = tables[0]
    is_sound = first.rate is not None
    if is_sound:
        given = replace(given, columns=given.columns or (first.names[0],), features=given.features or "mel")
    if given.target is not None and given.label is not None:
        raise InputError(
            f"--target predicts values and --label classes, got {short(given.target)} and "
            f"{short(given.label)}. Leave one of them out."
        )
    is_classified = labelled and given.target is None
    label = (given.label or _assumed_label(tables)) if is_classified else given.label
    group = given.group or _named(GROUPS, first)
    taken = {name for name in (label, group) if name in first.names and name != "time"}
    taken |= {given.target} if given.target is not None else set()
    both = taken.intersection(given.columns)
    if both:
        raise InputError(
            f"A column is a channel or the label or the group, got {both.pop()!r} for two of them."
        )
    others = [name for name in first.names if name not in taken and name not in given.columns]
    if given.columns:
        reasons = dict.fromkeys(others, "not asked for")
    else:
        labels = np.concatenate([row_labels(table, label) for table in tables])
        if label in first.names:
            _check_few_numbers(labels, str(label))
        reasons = {name: reason for name in others if (reason := why_not(tables, name, labels))}
    columns = given.columns or tuple(name for name in others if name not in reasons)
    if not columns:
        seen = [f"{name} ({reasons.get(name, 'the label or the group')})" for name in first.names]
        raise InputError(
            f"A recording needs a numeric column to read, and {first.path} has no usable one: "
            f"{listed(seen)}. Name columns with --columns."
        )
    options = replace(given, label=label, group=group, columns=columns)
    if given.features in (None, "none"):
        window, hop = given.window_and_hop
        rate = common_rate(given, tables) if is_sound else given.rate
        options = replace(options, window=window, hop=hop, rate=rate)
    else:
        options = decide_features(options, tables)
    return options if group else replace(options, group=_assumed_group(tables, options)), reasons


def _assumed_label(tables: list[Recording]) -> str:
    """Return a column with a usual name, `y` for arrays, or `folder` if the files are in several folders."""
    first = tables[0]
    arrays = ("y",) if first.path.suffix == ".npz" else ()
    found = _named((*LABELS, *arrays), first)
    if found is None and len({table.folder for table in tables}) > 1:
        return "folder"
    if found is None:
        raise InputError(
            f"Recordings need labels: name a column with --label ({listed(first.names)} in {first.path}), "
            "or use --label file (the name up to its first _) or --label folder."
        )
    return found


def _assumed_group(tables: list[Recording], options: RecordingOptions) -> str:
    """Return `file` if every class is in three files or more, else `time`."""
    files: dict[str, set[Path]] = {}
    for table in tables:
        for label in set(row_labels(table, options.label)):
            files.setdefault(label, set()).add(table.path)
    return "file" if min(map(len, files.values())) >= LEAST_GROUPS else "time"


def _named(usual: Collection[str], table: Recording) -> str | None:
    return next((name for name in table.names if name.lower() in usual), None)


def why_not(tables: list[Recording], name: str, labels: NDArray[np.object_]) -> str:
    """Return the reason why a column is not a channel, given the label of every row; empty if it is one."""
    if name.lower() in CLOCKS:
        return "a clock"
    if name.lower() in MARKS:
        return "a label or a group by its name"
    if not tables[0].is_numeric(name):
        return "text"
    columns = [table.numbers(name) for table in tables]
    if all((np.diff(each) >= 0).all() and len(np.unique(each)) >= CLOCK_STAMPS for each in columns):
        return "a clock, it never falls"
    return "it follows from the label" if _follows(np.concatenate(columns), labels) else ""


def _follows(values: NDArray[np.float64], labels: NDArray[np.object_]) -> bool:
    """Return whether the label determines the value, which is not constant."""
    for rows in (slice(SAMPLE_ROWS), slice(None)):  # for most columns a few rows decide
        pairs = pd.DataFrame({"label": labels[rows], "value": values[rows]}).drop_duplicates()
        if len(pairs) > pairs["label"].nunique():
            return False
    return pairs["value"].nunique() > 1


def row_labels(table: Recording, source: str | None) -> NDArray[np.object_]:
    """Return the label of every row, from a column or the file's name or folder; empty without either."""
    path = table.path.resolve()
    of_file = {None: "", "file": path.stem.partition("_")[0], "folder": table.folder}
    if source in table.names or source not in of_file:
        return table.texts(str(source))
    return np.broadcast_to(np.array(of_file[source], object), len(table))


def _check_few_numbers(labels: NDArray[np.object_], name: str) -> None:
    """Refuse a column of many different numbers, which are values rather than classes."""
    found = pd.unique(labels)
    if len(found) > MOST_NUMBERED and all(np.isfinite(as_number(text)) for text in found):
        raise InputError(
            f"Labels are classes, and column {short(name)} has {len(found)} different numbers. To predict "
            f"values: --target {name}. If they are classes, write them as text, as in c12."
        )


def row_groups(table: Recording, source: str | None) -> NDArray[np.object_]:
    """Return the group of every row, from a column, a pattern in the file's name, the folder, or the file.

    For `time`, the group is the file.
    """
    if source != "time" and (source in table.names or source not in OF_FILE):
        if source in table.names or "(" not in str(source):
            return table.texts(str(source))
        name = _matched(str(source), table.path)
    else:
        name = str(table.path.parent if source == "folder" else table.path)
    return np.broadcast_to(np.array(name, object), len(table))


def _matched(pattern: str, path: Path) -> str:
    r"""Return the text that the groups of a pattern match in the name of a file.

    >>> _matched(r"load(\d)", Path("inner_load3.csv"))
    '3'
    """
    found, reason = None, f"{path.name} does not match"
    try:
        found = re.search(pattern, path.name)
    except re.error as error:
        reason = str(error)
    if found is None or not found.re.groups:
        raise InputError(
            f"--group {short(pattern)} is no column, and as a pattern it must match the name of every file "
            f"with brackets around the group, but {reason}."
        )
    return " ".join(each or "" for each in found.groups())
