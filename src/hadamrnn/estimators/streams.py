"""Read the user's X as recordings `(time, channels)`, whose rows are samples. Start at `read_streams`."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array
from sklearn.utils.validation import validate_data

from hadamrnn.errors import InputError
from hadamrnn.estimators.reading import check_size
from hadamrnn.estimators.series import Floats, Series


def read_streams(estimator: Any, X: Any, *, reset: bool) -> list[Floats]:
    """Return X as recordings: one array or frame, a list of arrays, or `(n, time, channels)`.

    `reset` sets the estimator's `n_features_in_`, the channels; otherwise X must agree with it.
    """
    several = isinstance(X, list | tuple) and bool(X) and all(np.ndim(each) == 2 for each in X)
    if not several and getattr(X, "ndim", 2) != 3:
        least = 2 if reset else 1
        found = [validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_min_samples=least)]
    else:
        found = [check_array(each, dtype=np.float64) for each in X]
        for index, each in enumerate(found):
            validate_data(estimator, each, reset=reset and index == 0)
        if reset and sum(map(len, found)) < 2:
            raise InputError("A fit needs 2 samples or more, got 1 sample.")
    for each in found:
        check_size("X", each)
    return found


def as_series(recordings: list[Floats]) -> Series:
    """Return recordings as series, shorter ones padded with zeros at their end."""
    lengths = np.array([len(each) for each in recordings])
    values = np.zeros((len(recordings), lengths.max(), recordings[0].shape[1]))
    for row, each in zip(values, recordings, strict=True):
        row[: len(each)] = each
    return Series(values, None if (lengths == lengths[0]).all() else lengths)
