"""Specify the arithmetic of a reservoir in numpy; C and JavaScript give the same bits.

All integers, `round` with ties towards +infinity. A group averages m samples of each channel; its step j is

    v_j = round((x_(mj) + ... + x_(mj + m - 1)) / m)
    u_j = v_j - v_(j-d) if the group reads differences, else v_j
    h_j = saturate16(round(H D h_(j-d) / 4) + 2^q U u_j)         h = 0 before; H Sylvester's, in blocks of 8

Differences begin at j = d; before that, nothing is computed. If there are J counted steps so far, or so far
in the feature's third of the window (counted step n of N in a whole window is in third floor(3 n / N)):

    count_i = number of counted steps with h > theta_i
    rate    = floor(2^30 / max(J, 1))                             at most one division per window and segment
    code_i  = round(count_i rate / 2^(15 + e_i))                  0 .. 2^(15 - e_i)
    logits  = V code + (b_o << output_bias_shift)

Trailing samples that do not fill a mean are ignored. Start reading at `group_states`.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import Int32, hadamard_transform, round_shift, saturate
from hadamrnn.reservoir.description import BLOCK, Group, Reservoir
from hadamrnn.reservoir.units import Features, Units

STATE_BITS = 16
DECAY_SHIFT = 2  # H / 4 is an orthogonal matrix times 8^0.5 / 4, so states decay by 0.71 per step
RATE_BITS = 30
CODE_BITS = 15


def group_states(group: Group, units: Units, part: slice, x: Int32) -> Iterator[tuple[Int32, Int32]]:
    """Yield the states `(units, n)` of one group after each counted step, and a mask of clipped ones.

    Args:
        part: the group's units.
        x: input codes `(n, time, channels)`.
    """
    n, _, channels = x.shape
    steps = x.shape[1] // group.width
    sums = x[:, : steps * group.width].reshape(n, steps, group.width, channels).sum(2, dtype=np.int32)
    v = round_shift(sums, group.width.bit_length() - 1)
    signs = units.signs[part, None].astype(np.int32)
    weight = units.input_weight_int[part, None].astype(np.int32)
    channel = units.unit_channel[part]
    states = np.zeros((group.dilation, group.units, n), np.int32)
    for j in range(group.start, steps):
        u = v[:, j] - v[:, j - group.dilation] if group.is_difference else v[:, j]
        mixed = hadamard_transform(signs * states[j % group.dilation], BLOCK)
        a = round_shift(mixed, DECAY_SHIFT) + weight * (u.T[channel] << group.input_shift)
        h, _ = saturate(a.copy(), STATE_BITS)
        states[j % group.dilation] = h
        yield h, np.not_equal(h, a).astype(np.int32)


def count_features(
    units: Units, features: Features, x: Int32, lengths: NDArray[np.int64]
) -> tuple[NDArray[np.uint16], int]:
    """Return the counts `(n, features)` of rows up to their lengths, and the number of clipped states."""
    network = units.network
    counts = np.zeros((len(x), len(features)), np.uint16)
    saturations, first = 0, 0
    for group, part, size in zip(network.groups, network.unit_slices, features.per_group, strict=True):
        own = slice(first, first + int(size))
        rows, threshold = features.unit[own] - part.start, features.threshold[own, None]
        ends = group.counted_steps(lengths)
        boundaries = group.boundaries(network.seq_length)
        for n, (h, clipped) in enumerate(group_states(group, units, part, x)):
            segment = np.searchsorted(boundaries[1:-1], n, side="right")
            is_counted = (features.segment[own, None] == segment) & (n < ends)
            counts[:, own] += ((h[rows] > threshold) & is_counted).T
            saturations += int(clipped[:, n < ends].sum())
        first += int(size)
    return counts, saturations


def feature_steps(network: Reservoir, features: Features, lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the number of steps that each count is out of, `(n, features)`."""
    columns, first = [], 0
    for group, size in zip(network.groups, features.per_group, strict=True):
        segment = features.segment[first : first + int(size)]
        counted = group.counted_steps(lengths)[:, None]
        if group.segments > 1:
            boundaries = np.array(group.boundaries(network.seq_length))
            counted = np.clip(counted, boundaries[segment], boundaries[segment + 1]) - boundaries[segment]
        columns.append(np.broadcast_to(counted, (len(lengths), int(size))))
        first += int(size)
    return np.concatenate(columns, 1)


def feature_codes(
    counts: NDArray[np.uint16], steps: NDArray[np.int64], exponents: NDArray[np.int8]
) -> NDArray[np.int64]:
    """Return the codes of the features `(n, features)`: the fraction of steps times 2^(15 - exponent)."""
    rate = (1 << RATE_BITS) // np.maximum(steps, 1)
    shift = exponents.astype(np.int64) + (RATE_BITS - CODE_BITS)
    return np.asarray((counts * rate + (np.int64(1) << shift - 1)) >> shift)
