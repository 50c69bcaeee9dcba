"""Targets of a regression: their number is fixed, and their squares are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNRegressor


def test_targets_too_large_to_square_are_refused() -> None:
    X = np.random.default_rng(0).normal(size=(20, 8))
    with pytest.raises(InputError, match=r"y must lie within -1e\+100 and 1e\+100, got 1\.\d+e\+200"):
        HadamRNNRegressor(16).fit(X, 1e200 * (1 + np.arange(20) / 20))


@pytest.mark.parametrize("size", [1e-310, 1e-200, 1e90])
@pytest.mark.parametrize("offset", [0.0, 1e6])
def test_the_units_of_the_targets_do_not_matter(size: float, offset: float) -> None:
    X = np.random.default_rng(0).normal(size=(40, 8))
    y = X.sum(1)
    plain = HadamRNNRegressor(16, random_state=0).fit(X, y)
    scaled = HadamRNNRegressor(16, random_state=0).fit(X, (y + offset) * size)

    np.testing.assert_allclose(scaled.predict(X) / size - offset, plain.predict(X), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1e-200, 1e90])
def test_the_units_of_the_series_do_not_matter(size: float) -> None:
    X = np.random.default_rng(0).normal(size=(40, 8))
    y = X.sum(1)
    plain = HadamRNNRegressor(16, random_state=0).fit(X, y).predict(X)
    scaled = HadamRNNRegressor(16, random_state=0).fit(size * X, y).predict(size * X)

    np.testing.assert_allclose(scaled, plain, rtol=1e-2, atol=0.05)  # offsets are whole numbers of raw units


@pytest.mark.parametrize(("X", "y"), [(np.ones((20, 8)), np.arange(20.0)), (np.eye(20), np.full(20, 7.0))])
def test_without_anything_to_learn_the_mean_is_predicted(X: Any, y: Any) -> None:
    regressor = HadamRNNRegressor(16, random_state=0).fit(X, y)

    np.testing.assert_allclose(regressor.predict(X), y.mean())
    np.testing.assert_allclose(regressor.predict_integer(X), y.mean(), atol=0.01)


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_targets_that_are_no_numbers_are_refused(value: float) -> None:
    y = np.arange(20.0)
    y[3] = value
    with pytest.raises(ValueError, match=r"Input y contains (NaN|infinity)"):
        HadamRNNRegressor(16).fit(np.eye(20), y)


def test_a_stream_and_a_warm_start_keep_their_number_of_targets() -> None:
    X = np.random.default_rng(0).normal(size=(20, 8))
    stream = HadamRNNRegressor(16, random_state=0).partial_fit(X, X[:, :2])
    warm = HadamRNNRegressor(16, random_state=0, max_steps=2, warm_start=True).fit(X, X[:, :2])

    for again in (stream.partial_fit, warm.fit):
        with pytest.raises(InputError, match=r"2 targets, .* got 1"):
            again(X, X[:, 0])


def test_counts_of_very_different_size_become_integers() -> None:
    """Most series are zeros and ones: the threshold of the compression is no finer than a code."""
    rng = np.random.default_rng(0)
    X = rng.poisson(np.repeat([0.05, 2000.0], [30, 10])[:, None] * np.ones(20))
    y = np.log1p(X.sum(1))
    regressor = HadamRNNRegressor(32, random_state=0).fit(X[..., None].astype(float), y)

    assert regressor.scaling_.knee is not None
    np.testing.assert_allclose(
        regressor.predict_integer(X[..., None]), regressor.predict(X[..., None]), atol=0.5
    )
