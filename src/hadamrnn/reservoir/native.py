"""Count the features of a reservoir in the native library: the bits of `reference.py`, faster.

The library compiles `runtime/hadamrnn_reservoir.h`, the program of devices, with the series of a batch in the
lanes of vectors (`kernels/native/reservoir.c`). Start reading at `count_native`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import Int32
from hadamrnn.kernels.library import Library, ReservoirArgs, ReservoirGroupArgs, run_slices_on
from hadamrnn.reservoir.constants import (
    block_constants,
    channel_bytes,
    group_fields,
    segment_constants,
    threshold_constants,
    unit_constants,
)
from hadamrnn.reservoir.units import Features, Units


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
    """Return counts for checked codes and the number of clipped states, like `reference.count_features`.

    Args:
        states: arrays `(n, steps, units)` per group, to fill with the state of every `every`-th step.
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
