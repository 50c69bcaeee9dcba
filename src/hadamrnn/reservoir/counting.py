"""Compute a pool's counts and states for fitting, as a device does, on many series at once.

Start reading at `feature_counts`; `sampled_states` returns the states from which thresholds are chosen. The
native library gives the same bits as `reference.py`, faster: it is compiled from
`runtime/hadamrnn_reservoir.h`, which devices run too, with the series of a batch in vector lanes
(`kernels/native/reservoir.c`).
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.fixedpoint.integers import Int32, check_integers, signed_range
from hadamrnn.kernels.library import Library, ReservoirArgs, ReservoirGroupArgs, load_library, run_slices_on
from hadamrnn.reservoir.constants import (
    block_constants,
    channel_bytes,
    group_fields,
    segment_constants,
    threshold_constants,
    unit_constants,
)
from hadamrnn.reservoir.description import Reservoir
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
    """Return the counts `(n, features)` for series of codes `(n, time, channels)`, each up to its length.

    `reference.feature_steps` returns the number of counted steps.
    """
    codes, ends = checked_codes(units.network, x, lengths)
    return run_counts(units, features, codes, ends, threads)[0]


def run_counts(
    units: Units, features: Features, x: Int32, lengths: NDArray[np.int64], threads: int | None = None
) -> tuple[NDArray[np.uint16], int]:
    """Return the counts for checked codes, and the number of clipped states."""
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
    advice = "cut longer ones into windows, or fit to some as long"
    check_int(f"The steps of a series ({advice})", int(ends.max(initial=0)), 0, network.longest)
    return np.clip(array, *signed_range(network.input_bits)).astype(np.int32), ends.astype(np.int64)


def count_native(
    library: Library,
    units: Units,
    features: Features,
    x: Int32,
    lengths: NDArray[np.int64],
    threads: int,
    states: list[NDArray[np.int16]] | None = None,
    every: int = 1,
) -> tuple[NDArray[np.uint16], int]:
    """Return the same as `reference.count_features`, for checked codes: counts, and clipped states.

    Args:
        states: arrays `(n, steps, units)`, one per group, to fill with the state of every `every`-th step.
    """
    network = units.network
    # All rows of a tile run as many steps as its longest row, so sort them by length.
    order = np.argsort(-lengths, kind="stable") if np.any(lengths[1:] != lengths[:-1]) else np.arange(len(x))
    tiles = -(-len(x) // library.kernel("integer_rows")())
    counts = np.zeros((len(x), len(features)), np.uint16)
    arrays: dict[str, NDArray[Any]] = {
        "block": block_constants(units),
        "unit": unit_constants(units, features),
        "threshold": threshold_constants(features),
        "segment": segment_constants(features),
        "x": np.ascontiguousarray(x[order], np.int16),
        "lengths": np.ascontiguousarray(lengths[order]),
        "counts": counts,
        "saturations": np.zeros(tiles * len(network.groups), np.int64),
    }
    groups = (ReservoirGroupArgs * len(network.groups))(*map(_group_args, group_fields(features)))
    for args, own in zip(groups, states or [], strict=False):
        args.states, args.sampled = own.ctypes.data, own.shape[1]
    args = ReservoirArgs(
        batch=len(x),
        time=x.shape[1],
        channels=network.input_size,
        num_groups=len(groups),
        channel_bytes=channel_bytes(network),
        features=len(features),
        every=every,
        groups=ctypes.addressof(groups),
        **{name: array.ctypes.data for name, array in arrays.items()},
    )
    run_slices_on(threads, library.kernel("reservoir"), args, len(arrays["saturations"]))
    found = np.empty_like(counts)
    found[order] = counts
    return found, int(arrays["saturations"].sum())


def _group_args(fields: dict[str, Any]) -> ctypes.Structure:
    return ReservoirGroupArgs(**{**fields, "ends": (ctypes.c_int64 * 3)(*fields["ends"])})
