"""Checks of the fields of an integer model: each error names the rule, the value and the way out."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from hadamrnn.errors import InputError, short

MAX_ENTRIES = 100
MAX_ENTRY_LENGTH = 4000


def check_scale(name: str, value: object) -> None:
    """Raise unless `value` is a finite positive float."""
    if not isinstance(value, float) or not math.isfinite(value) or value <= 0:
        raise InputError(f"{name} must be a finite positive float, got {short(value)}.")


def freeze_array(
    owner: object,
    name: str,
    dtype: type,
    shape: tuple[int, ...],
    bounds: tuple[int, int],
    *,
    zero: bool = True,
) -> None:
    """Replace an array of a frozen dataclass by a read-only copy; refuse all but integers within bounds.

    With `zero=False` the entry 0 is refused as well: with bounds -1..1 that leaves signs.
    """
    array = np.asarray(getattr(owner, name))
    if array.dtype.kind not in "iu" or array.shape != shape:
        raise InputError(f"{name} must hold integers of shape {shape}, got {array.dtype} of {array.shape}.")
    low, high = bounds
    if array.size and (array.min() < low or array.max() > high):
        raise InputError(f"{name} must lie in {low}..{high}, got {array.min()}..{array.max()}.")
    if not zero and not array.all():
        raise InputError(f"{name} must hold +1 and -1 only, got a 0.")
    array = array.astype(dtype, copy=True, order="C")
    array.setflags(write=False)
    object.__setattr__(owner, name, array)


def check_presence(owner: object, name: str, wanted: bool, where: str) -> bool:
    """Raise unless a field is there exactly when it is wanted; return whether it is."""
    if (getattr(owner, name) is not None) != wanted:
        raise InputError(f"{name} belongs to {where}, and only there.")
    return wanted


class ArrayFields:
    """A dataclass that equals another one of its class when every field does, arrays included."""

    def __eq__(self, other: object) -> bool:
        same_class = type(self) is type(other)
        return same_class and all(_same(value, vars(other)[name]) for name, value in vars(self).items())

    __hash__ = None  # type: ignore[assignment]


def _same(left: Any, right: Any) -> bool:
    if isinstance(left, np.ndarray) or isinstance(right, np.ndarray):
        return left is not None and right is not None and np.array_equal(left, right)
    return bool(left == right)


def check_metadata(metadata: Mapping[str, object]) -> dict[str, str | int | float | bool]:
    """Return a copy of `metadata`; raise unless it maps strings to short strings and finite numbers."""
    if not isinstance(metadata, Mapping) or len(metadata) > MAX_ENTRIES:
        raise InputError(f"metadata must be a mapping of at most {MAX_ENTRIES} entries.")
    copy: dict[str, str | int | float | bool] = {}
    for name, value in metadata.items():
        # Neither inf nor nan lies below the largest float, nor does an int of too many digits to print.
        finite = not isinstance(value, int | float) or abs(value) <= sys.float_info.max
        if not isinstance(name, str) or not isinstance(value, str | int | float) or not finite:
            raise InputError(
                f"metadata maps names to strings and finite numbers, got {name!r}: {short(value)}."
            )
        if len(name) + len(str(value)) > MAX_ENTRY_LENGTH:
            raise InputError(
                f"A metadata entry takes at most {MAX_ENTRY_LENGTH} characters, {name[:40]!r} more."
            )
        copy[name] = value
    return copy
