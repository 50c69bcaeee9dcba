"""Targets of a regression: their number stays, and their squares are numbers."""

from __future__ import annotations

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNRegressor


def test_targets_too_large_to_square_are_refused() -> None:
    X = np.random.default_rng(0).normal(size=(20, 8))
    with pytest.raises(InputError, match=r"y must lie within -1e\+100 and 1e\+100, got 1\.\d+e\+200"):
        HadamRNNRegressor(16).fit(X, 1e200 * (1 + np.arange(20) / 20))


def test_a_stream_and_a_warm_start_keep_their_number_of_targets() -> None:
    X = np.random.default_rng(0).normal(size=(20, 8))
    stream = HadamRNNRegressor(16, random_state=0).partial_fit(X, X[:, :2])
    warm = HadamRNNRegressor(16, random_state=0, max_steps=2, warm_start=True).fit(X, X[:, :2])

    for again in (stream.partial_fit, warm.fit):
        with pytest.raises(InputError, match="y must have 2 targets, as in the first call, got 1"):
            again(X, X[:, 0])
