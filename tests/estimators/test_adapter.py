"""The adapters pass the checks of aeon and sktime, and predict what the estimators predict."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

from hadamrnn.estimators import HadamRNNClassifier


@pytest.fixture
def series() -> tuple[Any, Any]:
    """Rising and falling series of two channels, `(n, channels, time)` as in both libraries."""
    rng = np.random.default_rng(0)
    y = np.array(["down", "up"])[np.arange(24) % 2]
    slope = np.where(y == "up", 1.0, -1.0)[:, None, None]
    return slope * np.arange(9) * np.array([[1.0], [0.5]]) + rng.normal(size=(24, 2, 9)), y


@pytest.mark.slow
@pytest.mark.parametrize("name", ["SktimeHadamRNNClassifier", "SktimeHadamRNNRegressor"])
def test_sktime_finds_nothing(name: str) -> None:
    pytest.importorskip("sktime", reason="sktime is not installed")
    from hadamrnn.estimators import sktime as adapters

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # sktime's tests emit deprecation warnings of sktime
        from sktime.utils.estimator_checks import check_estimator

        results = check_estimator(getattr(adapters, name), raise_exceptions=False, verbose=False)

    assert results and {test: result for test, result in results.items() if result != "PASSED"} == {}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["AeonHadamRNNClassifier", "AeonHadamRNNRegressor"])
def test_aeon_finds_nothing(name: str) -> None:
    pytest.importorskip("aeon", reason="aeon is not installed")
    from hadamrnn.estimators import aeon as adapters

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from aeon.testing.estimator_checking import check_estimator

        results = check_estimator(getattr(adapters, name), raise_exceptions=False)

    assert results and {test: result for test, result in results.items() if result != "PASSED"} == {}


@pytest.mark.parametrize("library", ["sktime", "aeon"])
def test_channels_and_time_trade_places(library: str, series: tuple[Any, Any]) -> None:
    pytest.importorskip(library, reason=f"{library} is not installed")
    X, y = series
    ours = HadamRNNClassifier(32, random_state=0)
    if library == "sktime":
        from hadamrnn.estimators.sktime import SktimeHadamRNNClassifier as Adapter
    else:
        from hadamrnn.estimators.aeon import AeonHadamRNNClassifier as Adapter
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = Adapter(ours).fit(X, y).predict_proba(X)

    turned = X.transpose(0, 2, 1)
    np.testing.assert_allclose(theirs, ours.fit(turned, y).predict_proba(turned), atol=1e-12)
