"""Samples on their way into splits: read from text tables, brought to one length, cut into parts."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError

HELD_OUT = 0.15  # of each class, for validation and for test alike
DRAWS = 200  # of groups, in search of parts that all have every class


def read_numbers(path: Path, delimiter: str | None = None, **layout: Any) -> NDArray[np.float32]:
    """Return the table `(lines, numbers per line)` of a text file, gzipped or not.

    The default delimiter is white space; `layout` is what else `np.loadtxt` takes.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing. Unpack the published archive again.")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # an empty file: its shape tells the caller
            return np.loadtxt(path, np.float32, delimiter=delimiter, ndmin=2, **layout)
    except ValueError as error:
        reason = str(error).splitlines()[0].rstrip(".")
        raise InputError(f"{path} must be a table of numbers: {reason}.") from error


def pad_left(rows: Sequence[Sequence[int] | NDArray[np.int64]], length: int, vocabulary_size: int) -> Tensor:
    """Return the last `length` ids of each row, zeros before them: `(n, length)`, int16 if ids fit.

    >>> pad_left([[7, 8], [1, 2, 3, 4]], length=3, vocabulary_size=10)
    tensor([[0, 7, 8],
            [2, 3, 4]], dtype=torch.int16)
    """
    padded = np.zeros((len(rows), length), np.int16 if vocabulary_size <= 2**15 else np.int32)
    for target, row in zip(padded, rows, strict=True):
        kept = row[-length:]
        target[length - len(kept) :] = kept
    return torch.from_numpy(padded)


def cut_windows(values: NDArray[Any], length: int, hop: int = 1) -> NDArray[Any]:
    """Return the windows `(n, length, channels)` of a series `(time, channels)`, `hop` steps apart: a view.

    >>> cut_windows(np.arange(5)[:, None], length=3, hop=2)[..., 0]
    array([[0, 1, 2],
           [2, 3, 4]])
    """
    found = np.lib.stride_tricks.sliding_window_view(values, length, axis=0)[::hop]
    return np.moveaxis(found, -1, 1)


def stratified_parts(labels: NDArray[np.int64], seed: int) -> list[Tensor]:
    """Return the rows of training, validation and test: a partition, each ascending, fixed by `seed`.

    Of the m samples of a class, max(1, round(0.15 m)) go to validation, as many to test. One label
    for all gives a plain random cut.

    >>> parts = stratified_parts(np.array([0, 1] * 10), seed=0)
    >>> [len(part) for part in parts]
    [12, 4, 4]
    """
    rng = np.random.RandomState(seed)  # its stream is frozen by numpy's policy
    parts: list[list[int]] = [[], [], []]
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        if len(rows) < 3:
            raise InputError(
                f"Training, validation and test need a sample of every class each, "
                f"got {len(rows)} of class {label}. Add samples or drop the class."
            )
        rng.shuffle(rows)
        held = max(1, round(HELD_OUT * len(rows)))
        for part, chosen in zip(parts, (rows[2 * held :], rows[:held], rows[held : 2 * held]), strict=True):
            part.extend(chosen)
    return [torch.tensor(sorted(part)) for part in parts]


def group_parts(groups: NDArray[np.generic], labels: NDArray[np.int64], seed: int) -> list[Tensor]:
    """Return the rows of training, validation and test with no group in two of them, fixed by `seed`.

    Of m groups, max(1, round(0.15 m)) go to validation, as many to test; training must see every class.
    The first draw whose three parts all have every class is taken, else the first whose training has.

    >>> parts = group_parts(np.array([1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 0, 1]), seed=0)
    >>> [len(part) for part in parts]
    [2, 2, 2]
    """
    names, group = np.unique(groups, return_inverse=True)
    if len(names) < 3:
        raise InputError(f"Training, validation and test need a group each, got {len(names)} in all.")
    present = np.zeros((len(names), int(labels.max()) + 1), np.bool_)  # who has which class
    present[group, labels] = True
    held = max(1, round(HELD_OUT * len(names)))
    random = np.random.RandomState(seed)
    orders = [random.permutation(len(names)) for _ in range(DRAWS)]
    cuts = [(order[2 * held :], order[:held], order[held : 2 * held]) for order in orders]
    lacking = [[not present[part].any(0).all() for part in parts] for parts in cuts]  # a class
    best = min(range(DRAWS), key=lambda draw: (lacking[draw][0], any(lacking[draw])))
    if lacking[best][0]:
        unseen = int(np.flatnonzero(~present[cuts[best][0]].any(0))[0])
        raise InputError(
            f"Training must see every class, and no group there has class {unseen}. Record it in more groups."
        )
    return [torch.from_numpy(np.flatnonzero(np.isin(group, part))) for part in cuts[best]]
