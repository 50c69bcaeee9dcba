"""Answers of a regressor in fixed point: integers of 2^-frac_bits, from logits without floating point.

    value = saturate(round(logit * multiplier / 2^shift) + offset)        to int32, ties towards +infinity

The real answer is value / 2^frac_bits. One frac_bits serves all targets: the most that the largest value
that any logit can give leaves room for. Start reading at `value_format`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.fixedpoint.base import IntegerBase, Metadata
from hadamrnn.fixedpoint.integers import Int32, signed_range

MULTIPLIER_BITS, MAX_SHIFT, MAX_FRAC_BITS = 31, 62, 30
MAX_CHARACTERS = 3000  # of all targets in the metadata


@dataclass(frozen=True, eq=False)
class ValueFormat:
    """The conversion of logits to values; arrays have one entry for each target."""

    frac_bits: int
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]  # 1..62
    offset: NDArray[np.int32]

    def values(self, logits: ArrayLike) -> Int32:
        """Return the values of logits `(..., targets)`: the definition, which C equals bit for bit."""
        shift = self.shift.astype(np.int64)
        products = np.asarray(logits, np.int64) * self.multiplier.astype(np.int64)
        rounded = (products + (np.int64(1) << shift - 1) >> shift) + self.offset
        return np.asarray(np.clip(rounded, *signed_range(32)).astype(np.int32))


def target_metadata(scale: ArrayLike, offset: ArrayLike) -> Metadata:
    """Return the metadata of targets y = logit * scale + offset; none if they are too many to keep."""
    pairs = np.stack([np.asarray(scale, np.float64), np.asarray(offset, np.float64)], axis=1)
    for digits in (15, 9):
        text = json.dumps([[float(f"{number:.{digits}g}") for number in pair] for pair in pairs])
        if len(text) <= MAX_CHARACTERS:
            return {"targets": text}
    return {}


def target_units(model: IntegerBase) -> NDArray[np.float64] | None:
    """Return scale and offset of every target `(targets, 2)`; None if the metadata lacks them."""
    try:
        pairs = np.array(json.loads(str(model.metadata.get("targets", "[]"))), np.float64)
    except (ValueError, TypeError, RecursionError):
        return None
    usable = pairs.shape == (model.output_size, 2) and np.isfinite(pairs).all()
    return pairs if usable else None


def value_format(model: IntegerBase) -> ValueFormat | None:
    """Return the format of a regressor's values; None for other models."""
    pairs = target_units(model)
    if pairs is None:
        return None
    scales, offsets = pairs.T
    largest = float((np.abs(scales) * model.logit_bound + np.abs(offsets)).max())
    room = MULTIPLIER_BITS - math.frexp(largest)[1]  # largest < 2^exponent
    frac_bits = min(max(room, 0), MAX_FRAC_BITS)
    factors = np.ldexp(scales, frac_bits)
    _, exponents = np.frexp(factors)
    shifts = np.clip(MULTIPLIER_BITS - exponents, 1, MAX_SHIFT)
    low, high = signed_range(32)
    multipliers = np.clip(np.rint(np.ldexp(factors, shifts)), low + 1, high)
    whole = np.clip(np.floor(np.ldexp(offsets, frac_bits) + 0.5), low, high)
    return ValueFormat(
        frac_bits, multipliers.astype(np.int32), shifts.astype(np.int8), whole.astype(np.int32)
    )
