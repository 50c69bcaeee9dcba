"""Turn labels into classes: canonical text, order, and class numbers of new data."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError, printable, short

MAX_LABEL = 200  # longest label, in characters
MOST_NUMBERED = 30  # most classes with numeric names; more numbers than this are hardly classes


def canonical_label(value: Any) -> str:
    """Return a label as text, whole numbers without a decimal point.

    >>> [canonical_label(value) for value in (3, 3.0, "3.0", " 07 ", True, "1.5")]
    ['3', '3', '3', '07', '1', '1.5']
    """
    text = str(int(value) if isinstance(value, (bool, np.bool_)) else value).strip()
    whole = re.fullmatch(r"([+-]?\d+)\.0*", text)
    return whole[1] if whole else text


def class_names(labels: Collection[str], source: str | Path) -> tuple[str, ...]:
    """Return the sorted classes: by number if all are whole numbers, else by name."""
    for label in sorted(labels):
        check_label(label, source)
        if re.fullmatch(r"[+-]?\d*\.\d+([eE][+-]?\d+)?", label):
            raise InputError(
                f"Labels are classes, got the number {label} in {source}. To predict values, use "
                "--target COLUMN, HadamRNNRegressor, or an npz file with float y."
            )
    if len(labels) < 2:
        raise InputError(f"Classification needs two classes or more, got {min(labels)!r} alone in {source}.")
    whole = all(re.fullmatch(r"[+-]?\d+", label) for label in labels)
    return tuple(sorted(labels, key=(lambda label: (int(label), label)) if whole else None))


def count_classes(labels: NDArray[np.int64], path: str | Path) -> int:
    """Return k if the labels are exactly 0 ... k - 1."""
    found = np.unique(labels)
    missing = np.flatnonzero(found != np.arange(len(found)))
    if len(missing):
        raise InputError(
            f"Integer labels must be 0 ... k - 1, each present, got {found[missing[0]]} for "
            f"{missing[0]} in {path}. numpy.unique(y, return_inverse=True)[1] renumbers them."
        )
    return len(found)


def check_label(label: str, source: str | Path) -> None:
    """Refuse a label that could not be printed on one line of a table."""
    if printable(label) != label or len(label) > MAX_LABEL:
        raise InputError(
            f"Labels must be printable text of at most {MAX_LABEL} characters, got {label!a:.60} in "
            f"{source}. Rename this class."
        )


def class_numbers(y: NDArray[np.generic], names: tuple[str, ...], source: str | Path) -> Tensor:
    """Return the class numbers `(n,)` of labels y of any type.

    >>> class_numbers(np.array([3, 1]), ("1", "2", "3"), "the file")
    tensor([2, 0])
    """
    found, places = np.unique(y, return_inverse=True)
    numbers = {canonical_label(name): number for number, name in enumerate(names)}
    labels = [canonical_label(label) for label in found.tolist()]
    unknown = [label for label in labels if label not in numbers]
    if unknown:
        raise InputError(
            f"Labels must be classes of the run, {short(', '.join(names))}, got {short(unknown[0])}"
            f"{f' and {len(unknown) - 1} more' if len(unknown) > 1 else ''} in {source}."
        )
    return torch.tensor([numbers[label] for label in labels])[torch.from_numpy(places)]
