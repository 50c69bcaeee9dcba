"""Prepare samples for splits: read text tables, cut windows, divide samples into three parts."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from torch import Tensor

from hadamrnn.data.options import HELD_OUT, HeldOutFiles
from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError, short
from hadamrnn.files import MAX_TENSOR_BYTES, check_regular, unreadable

PARTS = ("training", "validation", "test")
DRAWS, GROUPS_DRAWN = 50, 5000  # most random orders to try; most groups in all orders together


def read_numbers(path: Path, delimiter: str | None = None, **layout: Any) -> NDArray[np.float32]:
    """Read a text file, gzipped or not, as a table `(lines, numbers per line)`.

    The default delimiter is white space; `layout` is passed to `np.loadtxt`.
    """
    check_regular(path, MAX_TENSOR_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an empty file: the caller checks the shape
            return np.loadtxt(path, np.float32, delimiter=delimiter, ndmin=2, **layout)
    except ValueError as error:
        raise unreadable(path, "table of numbers", str(error).splitlines()[0].rstrip(".")) from error


def cut_windows(values: NDArray[Any], length: int, hop: int = 1) -> NDArray[Any]:
    """Return a view of the windows `(n, length, channels)` of a series `(time, channels)`, `hop` steps apart.

    >>> cut_windows(np.arange(5)[:, None], length=3, hop=2)[..., 0]
    array([[0, 1, 2],
           [2, 3, 4]])
    """
    found = np.lib.stride_tricks.sliding_window_view(values, length, axis=0)[::hop]
    return np.moveaxis(found, -1, 1)


def stratified_parts(
    labels: NDArray[np.int64],
    seed: int,
    copies: NDArray[np.generic] | None = None,
    shares: tuple[float, float] = (HELD_OUT, HELD_OUT),
) -> list[Tensor]:
    """Divide rows into training, validation and test, each sorted; `seed` determines the result.

    If a class has m samples, max(1, round(0.15 m)) go to validation and as many to test. A single label for
    all samples gives a plain random split.

    Args:
        copies: a value per sample, equal for copies of the same sample; copies stay in one part.
        shares: shares of validation and test; 0 leaves a part empty.

    >>> parts = stratified_parts(np.array([0, 1] * 10), seed=0)
    >>> [len(part) for part in parts]
    [12, 4, 4]
    """
    rng = np.random.RandomState(seed)  # numpy guarantees its stream
    _, first, content = np.unique(
        np.arange(len(labels)) if copies is None else copies, return_index=True, return_inverse=True
    )
    originals = first[content]  # index of the first sample equal to each
    part = np.zeros(len(labels), np.int64)
    for label in np.unique(labels):
        rows = np.flatnonzero((labels == label) & (originals == np.arange(len(labels))))
        if len(rows) < 1 + sum(share > 0 for share in shares):
            raise InputError(
                f"Training, validation and test need a sample of every class each, "
                f"got {len(rows)} of class {label}. Add samples or drop the class."
            )
        rng.shuffle(rows)
        validation, test = (max(1, round(share * len(rows))) if share else 0 for share in shares)
        part[rows[:validation]], part[rows[validation : validation + test]] = 1, 2
    return [torch.from_numpy(np.flatnonzero(part[originals] == number)) for number in range(3)]


def group_parts(
    groups: NDArray[np.generic],
    labels: NDArray[np.int64],
    seed: int,
    *,
    weights: NDArray[np.int64] | None = None,
    shares: tuple[float, float] = (HELD_OUT, HELD_OUT),
) -> list[Tensor]:
    """Divide rows into training, validation and test, with no group in two parts, determined by `seed`.

    Classes are stratified: several random orders of the groups are tried, and the best one is used. Its parts
    lack the fewest classes, above all training, and then come closest to the requested share of every class.

    Args:
        weights: weight of each row, such as its number of windows; by default 1.
        shares: shares of validation and test; 0 leaves a part empty.

    >>> parts = group_parts(np.array([1, 1, 2, 2, 3, 3]), np.array([0, 1, 0, 1, 0, 1]), seed=0)
    >>> [len(part) for part in parts]
    [2, 2, 2]
    """
    names, group = np.unique(groups, return_inverse=True)
    held = [part for part in (1, 2) if shares[part - 1]]
    if len(names) <= len(held):
        raise InputError(
            f"Training, validation and test need at least 3 groups, found {len(names)}. Record more groups."
        )
    counts = np.zeros((len(names), int(labels.max()) + 1))
    np.add.at(counts, (group, labels), 1 if weights is None else weights)
    random = np.random.RandomState(seed)
    best: tuple[tuple[float, ...], NDArray[np.int64]] | None = None
    for _ in range(max(1, min(DRAWS, GROUPS_DRAWN // len(names)))):
        order = random.permutation(len(names))
        part = np.zeros(len(names), np.int64)
        part[order] = _deal(counts[order], shares, held)
        cost = _cost(counts, part, shares, held)
        if best is None or cost < best[0]:
            best = cost, part
    assert best is not None
    if not set(held) <= set(best[1]):
        raise InputError(
            "Training must see every class, and has no group to spare: too few groups have each "
            "class. Record them in more groups."
        )
    return [torch.from_numpy(np.flatnonzero(best[1][group] == part)) for part in range(3)]


def _deal(counts: NDArray[np.float64], shares: tuple[float, float], held: list[int]) -> NDArray[np.int64]:
    """Assign each group to a part, in the order of `counts`, `(groups, classes)`.

    A part first receives a group of each class, rare classes first, if training keeps a group of it. Then it
    receives groups that bring it closer to its share of every class.
    """
    total = np.maximum(counts.sum(0), 1)
    has, part = counts > 0, np.zeros(len(counts), np.int64)
    left = has.sum(0)  # number of training groups that still contain each class
    sums = np.zeros((3, counts.shape[1]))

    def give(chosen: int, to: int) -> None:
        nonlocal left
        part[chosen], left = to, left - has[chosen]
        sums[to] += counts[chosen]

    for label in np.argsort(left, kind="stable"):
        for place, to in enumerate(held):
            reserve = np.ones_like(left)
            reserve[label] += sum(not sums[later, label] for later in held[place + 1 :])
            able = np.flatnonzero((part == 0) & has[:, label] & (~has | (left > reserve)).all(1))
            if sums[to, label] == 0 and len(able):
                new = (has[able] & (sums[to] == 0)).sum(1)
                give(int(able[np.argmax(new)]), to)
    target = np.array(shares)
    for chosen in np.flatnonzero(part == 0):
        if (~has[chosen] | (left > 1)).all():
            before = np.square(sums[1:] / total - target[:, None]).sum(1)
            after = np.square((sums[1:] + counts[chosen]) / total - target[:, None]).sum(1)
            gain = [(before - after)[to - 1] for to in held]
            if held and max(gain) > -1e-9:  # a tie goes to the held-out part
                give(int(chosen), held[int(np.argmax(gain))])
    return part


def _cost(
    counts: NDArray[np.float64], part: NDArray[np.int64], shares: tuple[float, float], held: list[int]
) -> tuple[float, ...]:
    """Return a division's cost: classes missing in training, then elsewhere, then error in the shares."""
    sums = np.stack([counts[part == number].sum(0) for number in range(3)])
    present = counts.sum(0) > 0
    lacking = (present & (sums == 0)).sum(1)
    requested = np.array([1 - sum(shares), *shares])[:, None]
    distance = np.square(sums / np.maximum(counts.sum(0), 1) - requested).sum()
    return float(lacking[0]), float(lacking[held].sum()), float(distance)


def merge_copies(groups: NDArray[np.generic], copies: NDArray[np.generic]) -> NDArray[np.int64]:
    """Return a group number for each row, merging groups that share copies of a row.

    Args:
        copies: a value per row, equal for copies of the same row.

    >>> merge_copies(np.array(["a", "b", "c", "d"]), np.array([7, 8, 7, 9])).tolist()
    [0, 1, 0, 2]
    """
    names, group = np.unique(groups, return_inverse=True)
    contents, content = np.unique(copies, return_inverse=True)
    nodes = len(names) + len(contents)
    links = coo_matrix((np.ones(len(group)), (group, len(names) + content)), (nodes, nodes))
    _, component = connected_components(links, directed=False)
    merged: NDArray[np.int64] = np.unique(component[group], return_inverse=True)[1]
    return merged


def digests(rows: Iterable[NDArray[Any]]) -> NDArray[np.str_]:
    """Return a digest of each array's bytes; every constant array gets a unique one."""

    def digest(number: int, row: NDArray[Any]) -> str:
        constant = bool((row == row.flat[0]).all())
        return (
            f"constant {number}" if constant else hashlib.sha256(np.ascontiguousarray(row).data).hexdigest()
        )

    return np.array([digest(number, row) for number, row in enumerate(rows)])


def divide_arrays(
    labels: NDArray[np.int64],
    groups: NDArray[np.generic],
    origin: NDArray[np.int64],
    held_out: HeldOutFiles,
    seed: int,
    grouped: bool,
) -> list[Tensor]:
    """Return the samples of each part; training excludes copies of held-out samples, and their groups."""
    own = np.flatnonzero((origin == 0) & ~np.isin(groups, groups[origin > 0]))
    if not any(held_out.shares):
        parts = [torch.arange(len(own)), *[torch.empty(0, dtype=torch.int64)] * 2]
    elif grouped:
        parts = group_parts(groups[own], labels[own], seed, shares=held_out.shares)
    else:
        parts = stratified_parts(labels[own], seed, groups[own], held_out.shares)
    parts = [torch.from_numpy(own)[part] for part in parts]
    for number, part in enumerate(held_out.parts, 1):
        parts[part] = torch.from_numpy(np.flatnonzero(origin == number))
    return parts


def check_training(parts: Sequence[Tensor], labels: NDArray[np.int64], names: Sequence[str]) -> None:
    """Refuse a training part that lacks a class."""
    for unseen in sorted(set(range(len(names))) - set(labels[parts[0].numpy()].tolist())):
        raise InputError(
            f"Training must see every class, and has no sample of {short(names[unseen])}. "
            "Record it in more groups."
        )


def array_table(splits: Splits, groups: NDArray[np.generic] | None) -> list[str]:
    """Return a table of the parts, and notes on classes that a part lacks."""
    lines = [
        f"parts       {'groups':>6} {'samples':>8}  {'of each class' if splits.class_names else ''}".rstrip()
    ]
    remarks = []
    parts = (splits.train, splits.validation, splits.test)
    for called, part, rows in zip(PARTS, parts, splits.members, strict=True):
        count = "-" if groups is None else str(len(np.unique(groups[list(rows)])))
        shown = ""
        if splits.class_names and part.y is not None:
            counts = part.y.bincount(minlength=len(splits.class_names)).tolist()
            pairs = list(zip(splits.class_names, counts, strict=True))
            shown = ", ".join(f"{name} {count:,}" for name, count in pairs[:10])
            shown += f" and {len(pairs) - 10} more" if len(pairs) > 10 else ""
            absent = [name for name, count in pairs if not count]
            if absent and called != "training":
                remarks.append(f"note: {called} has no sample of {short(', '.join(absent))}")
        lines.append(f"  {called:<10}{count:>6} {len(rows):>8,}  {shown}".rstrip())
    return lines + remarks
