"""The estimators as aeon knows them: `pip install 'hadamrnn[aeon]'`.

aeon's series are `(channels, time)`, ours `(time, channels)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from aeon.classification import BaseClassifier
from aeon.regression import BaseRegressor
from numpy.typing import NDArray
from sklearn.base import clone

from hadamrnn.estimators.classifier import HadamRNNClassifier
from hadamrnn.estimators.regressor import HadamRNNRegressor
from hadamrnn.estimators.series import Floats

TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "algorithm_type": "deeplearning",
    "python_dependencies": "torch",
}


class AeonHadamRNNClassifier(BaseClassifier):
    """Passes series on to `estimator`, a `HadamRNNClassifier`; one with default settings if None."""

    _tags = TAGS

    def __init__(self, estimator: HadamRNNClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Iterable[Floats], y: NDArray[Any]) -> AeonHadamRNNClassifier:
        self.estimator_ = clone(self.estimator or HadamRNNClassifier()).fit(_series(X), y)
        return self

    def _predict(self, X: Iterable[Floats]) -> NDArray[Any]:
        answers: NDArray[Any] = self.estimator_.predict(_series(X))
        return answers

    def _predict_proba(self, X: Iterable[Floats]) -> Floats:
        probabilities: Floats = self.estimator_.predict_proba(_series(X))
        return probabilities

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Return settings that aeon's own tests take: small and quick."""
        return {"estimator": HadamRNNClassifier(8, max_steps=10, random_state=0)}


class AeonHadamRNNRegressor(BaseRegressor):
    """Passes series on to `estimator`, a `HadamRNNRegressor`; one with default settings if None."""

    _tags = TAGS

    def __init__(self, estimator: HadamRNNRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: Iterable[Floats], y: NDArray[Any]) -> AeonHadamRNNRegressor:
        self.estimator_ = clone(self.estimator or HadamRNNRegressor()).fit(_series(X), y)
        return self

    def _predict(self, X: Iterable[Floats]) -> Floats:
        values: Floats = self.estimator_.predict(_series(X))
        return values

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        """Return settings that aeon's own tests take: small and quick."""
        return {"estimator": HadamRNNRegressor(8, max_steps=10, random_state=0)}


def _series(X: Iterable[Floats]) -> list[Floats]:
    return [np.ascontiguousarray(series.T) for series in X]
