"""Compute counts and states of a pool of units for fitting, like a device, on many series at once.

Start reading at `feature_counts`; `sampled_states` gives the states that thresholds are chosen from.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.fixedpoint.integers import Int32, check_integers, signed_range
from hadamrnn.kernels.library import load_library
from hadamrnn.reservoir.description import Reservoir
from hadamrnn.reservoir.native import count_native
from hadamrnn.reservoir.reference import count_features, group_states
from hadamrnn.reservoir.units import Features, Units
from hadamrnn.settings import check_int, check_shape


def feature_counts(
    units: Units,
    features: Features,
    x: ArrayLike,
    lengths: ArrayLike | None = None,
    threads: int | None = None,
) -> NDArray[np.uint16]:
    """Return the counts `(n, features)` of series of codes `(n, time, channels)`, each up to its length.

    `reference.feature_steps` returns the number of steps that they cover.
    """
    codes, ends = checked_codes(units.network, x, lengths)
    return run_counts(units, features, codes, ends, threads)[0]


def run_counts(
    units: Units, features: Features, x: Int32, lengths: NDArray[np.int64], threads: int | None = None
) -> tuple[NDArray[np.uint16], int]:
    """Return the counts for checked codes and the number of clipped states."""
    library = load_library()
    if library is None:
        return count_features(units, features, x, lengths)
    return count_native(library, units, features, x, lengths, threads or os.cpu_count() or 1)


def sampled_states(
    units: Units, x: ArrayLike, every: int = 1, threads: int | None = None
) -> list[NDArray[np.int16]]:
    """Return the states of each group after each `every`-th counted step, `(n, steps, units)`."""
    network = units.network
    codes, lengths = checked_codes(network, x, None)
    found = [
        np.zeros((len(codes), -(-int(group.counted_steps(codes.shape[1])) // every), group.units), np.int16)
        for group in network.groups
    ]
    library = load_library()
    if library is not None:
        none = Features(network, *np.zeros((3, 0), np.int64))
        count_native(library, units, none, codes, lengths, threads or os.cpu_count() or 1, found, every)
        return found
    for group, part, states in zip(network.groups, network.unit_slices, found, strict=True):
        for n, (h, _) in enumerate(group_states(group, units, part, codes)):
            if n % every == 0:
                states[:, n // every] = h.T
    return found


def checked_codes(
    network: Reservoir, x: ArrayLike, lengths: ArrayLike | None
) -> tuple[Int32, NDArray[np.int64]]:
    """Return codes saturated to input_bits, and the lengths; refuse inputs that do not fit the network."""
    array = np.asarray(x)
    check_shape("Series", array, "n", "time", network.input_size)
    check_integers("Series", array, array.shape, advice=" See fixedpoint.encoding.")
    n, time = array.shape[:2]
    ends = np.full(n, time) if lengths is None else np.asarray(lengths)
    check_integers("lengths", ends, (n,), (0, time))
    check_int("The samples that counters hold", int(ends.max(initial=0)), 0, network.longest)
    return np.clip(array, *signed_range(network.input_bits)).astype(np.int32), ends.astype(np.int64)
