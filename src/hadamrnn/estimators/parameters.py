"""An estimator's parameters as plain Python values: grid searches often pass numpy's."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from typing import Any

import numpy as np

from hadamrnn.errors import InputError, short


def plain(value: Any) -> Any:
    """Return a numpy scalar as Python's; anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def whole(name: str, value: Any, least: int | None = None) -> int:
    """Return a parameter that is a whole number, of at least `least`.

    >>> whole("hidden_size", np.int64(64))
    64
    """
    rule = "a whole number" if least is None else f"a whole number from {least} on"
    try:
        number = operator.index(value)
    except TypeError:
        raise InputError(f"{name} must be {rule}, got {short(value)}.") from None
    if least is not None and number < least:
        raise InputError(f"{name} must be {rule}, got {number}.")
    return number


def listed(name: str, value: Any) -> tuple[Any, ...]:
    """Return a parameter that lists values.

    >>> listed("leak", np.array([2, 3]))
    (2, 3)
    """
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise InputError(f"{name} must be a list of values, got {short(value)}.")
    return tuple(map(plain, value))
