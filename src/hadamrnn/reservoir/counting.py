"""Counts and states of a pool of units, for fitting: what a device would count, on many series at once.

Start reading at `feature_counts`; `sampled_states` gives the states that thresholds are chosen from.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.integers import Int32, signed_range
from hadamrnn.reservoir.description import Reservoir
from hadamrnn.reservoir.reference import count_features, group_states
from hadamrnn.reservoir.units import Features, Units


def feature_counts(
    units: Units,
    features: Features,
    x: ArrayLike,
    lengths: ArrayLike | None = None,
    threads: int | None = None,
) -> NDArray[np.uint16]:
    """Return the counts `(n, features)` of series of codes `(n, time, channels)`, each up to its length.

    `reference.feature_steps` gives the steps that they are counted over.
    """
    codes, ends = checked_codes(units.network, x, lengths)
    return run_counts(units, features, codes, ends, threads)[0]


def run_counts(
    units: Units, features: Features, x: Int32, lengths: NDArray[np.int64], threads: int | None = None
) -> tuple[NDArray[np.uint16], int]:
    """Return the counts of checked codes and how many states were clipped."""
    _ = threads or os.cpu_count()
    return count_features(units, features, x, lengths)


def sampled_states(units: Units, x: ArrayLike, every: int = 1) -> list[NDArray[np.int16]]:
    """Return the states of each group after each `every`-th counted step, `(n, steps, units)`."""
    codes, _ = checked_codes(units.network, x, None)
    found = []
    for group, part in zip(units.network.groups, units.network.unit_slices, strict=True):
        steps = [h.T for n, (h, _) in enumerate(group_states(group, units, part, codes)) if n % every == 0]
        empty = np.zeros((len(codes), 0, group.units), np.int16)
        found.append(np.stack(steps, 1).astype(np.int16) if steps else empty)
    return found


def checked_codes(
    network: Reservoir, x: ArrayLike, lengths: ArrayLike | None
) -> tuple[Int32, NDArray[np.int64]]:
    """Return codes saturated to input_bits, and the lengths; refuse what the network cannot read."""
    array = np.asarray(x)
    if array.ndim != 3 or array.shape[2] != network.input_size or array.dtype.kind not in "iu":
        raise InputError(
            f"Series must be integer codes (n, time, {network.input_size}), got {array.dtype} of "
            f"{array.shape}. See fixedpoint.encoding."
        )
    n, time = array.shape[:2]
    ends = np.full(n, time) if lengths is None else np.asarray(lengths)
    if ends.dtype.kind not in "iu" or ends.shape != (n,) or np.any(ends < 0) or np.any(ends > time):
        raise InputError(f"lengths must be {n} integers in 0..{time}.")
    longest = int(ends.max(initial=0))
    if longest > network.longest:
        raise InputError(
            f"The counters of this network hold {network.longest} samples, got {longest}. Cut the series."
        )
    return np.clip(array, *signed_range(network.input_bits)).astype(np.int32), ends.astype(np.int64)
