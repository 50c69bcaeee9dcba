"""Find values that two parts share although no whole file or sample is repeated.

Overlapping recordings, and overlapping windows that were shuffled, put the same rows into training and test.
Runs of rows are compared by a rolling hash. Start at `repeated_windows`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.data.scaling import row_blocks

MIXER, BASE = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD6E8FEB86659FD93)  # odd numbers with random bits
INVERSE = np.uint64(pow(int(BASE), -1, 1 << 64))
CONSTANT = np.uint64(0)  # hash of a run of equal rows, whose repetition proves nothing

Hashes = NDArray[np.uint64]


def run_hashes(values: NDArray[Any], length: int) -> Hashes:
    """Return a hash of every run of `length` rows of values `(..., time, channels)`.

        hash_i = sum_(j < length) r_(i+j) B^j mod 2^64        r_t is a hash of row t

    >>> hashes = run_hashes(np.array([[5.0], [1.0], [2.0], [5.0], [1.0], [3.0], [3.0]]), 2)
    >>> bool(hashes[0] == hashes[3]), len(set(hashes.tolist())), int(hashes[5])
    (True, 5, 0)
    """
    bits = (values.astype(np.float64) + 0.0).view(np.uint64)  # -0.0 + 0.0 is 0.0
    bits = (bits ^ (bits >> np.uint64(32))) * MIXER
    bits ^= bits >> np.uint64(29)
    rows = (bits * _powers(MIXER, values.shape[-1])).sum(-1, dtype=np.uint64)
    time, start = rows.shape[-1], np.zeros((*rows.shape[:-1], 1), np.uint64)
    sums = np.concatenate([start, np.cumsum(rows * _powers(BASE, time), -1, dtype=np.uint64)], -1)
    hashes = (sums[..., length:] - sums[..., :-length]) * _powers(INVERSE, time - length + 1)
    moves = np.concatenate([start, np.cumsum(rows[..., 1:] != rows[..., :-1], -1, dtype=np.uint64)], -1)
    return np.where(moves[..., length - 1 :] == moves[..., : time - length + 1], CONSTANT, hashes)


def occurring(wanted: Hashes, among: Iterable[Hashes]) -> NDArray[np.bool_]:
    """Return which of the wanted hashes occur among the others, ignoring hashes of constant runs."""
    different, place = np.unique(wanted, return_inverse=True)
    found = np.zeros(len(different), np.bool_)
    for hashes in among:
        nearest = np.minimum(np.searchsorted(different, hashes), len(different) - 1)
        found[nearest[different[nearest] == hashes]] = True
    found &= different != CONSTANT
    return found[place]


def repeated_windows(
    part: Iterable[NDArray[Any]], training: Iterable[NDArray[Any]], window: int, hop: int
) -> int:
    """Return how many windows of a part also occur in training, starting at any row.

    Both are series `(time, channels)`; windows are `hop` rows apart.
    """
    wanted = [run_hashes(series, window)[::hop] for series in part if len(series) >= window]
    if not wanted:
        return 0
    among = (run_hashes(series, window) for series in training if len(series) >= window)
    return int(occurring(np.concatenate(wanted), among).sum())


def overlapping_samples(held: NDArray[Any], training: NDArray[Any]) -> int:
    """Return how many samples `(n, time, channels)` begin or end with a quarter that also occurs in training.

    >>> series = np.random.default_rng(0).normal(size=(48, 1))
    >>> windows = np.stack([series[start : start + 16] for start in range(0, 33, 8)])
    >>> overlapping_samples(windows[1::2], windows[::2])
    2
    """
    length = max(held.shape[1] // 4, 2)
    if not len(held) or held.shape[1] < length:
        return 0
    ends = np.concatenate([run_hashes(held[rows], length)[:, [0, -1]] for rows in row_blocks(held)])
    among = (run_hashes(training[rows], length).ravel() for rows in row_blocks(training))
    return int(occurring(ends.ravel(), among).reshape(ends.shape).any(1).sum())


def _powers(base: np.uint64, count: int) -> Hashes:
    """Return base, base^2, ... modulo 2^64."""
    return np.multiply.accumulate(np.full(count, base))
