"""The estimators as sktime knows them: `pip install 'hadamrnn[sktime]'`.

sktime hands over a list of tables `(time, channels)`, which is what ours read.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sktime.classification.base import BaseClassifier
from sktime.regression.base import BaseRegressor

from hadamrnn.estimators.classifier import HadamRNNClassifier
from hadamrnn.estimators.regressor import HadamRNNRegressor
from hadamrnn.estimators.series import Floats

TAGS = {
    "X_inner_mtype": "df-list",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:categorical_in_X": False,
    "python_dependencies": "torch",
}


class SktimeHadamRNNClassifier(BaseClassifier):
    """Passes series on to `estimator`, a `HadamRNNClassifier`; one with default settings if None.

    >>> from hadamrnn.estimators import HadamRNNClassifier
    >>> from hadamrnn.estimators.sktime import SktimeHadamRNNClassifier
    >>> SktimeHadamRNNClassifier(HadamRNNClassifier(64)).get_params()["estimator__hidden_size"]
    64
    """

    _tags: ClassVar[dict[str, Any]] = {**TAGS, "capability:predict_proba": True}

    def __init__(self, estimator: HadamRNNClassifier | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: list[Any], y: NDArray[Any]) -> SktimeHadamRNNClassifier:
        self.estimator_ = clone(self.estimator or HadamRNNClassifier()).fit(_series(X), y)
        return self

    def _predict(self, X: list[Any]) -> NDArray[Any]:
        answers: NDArray[Any] = self.estimator_.predict(_series(X))
        return answers

    def _predict_proba(self, X: list[Any]) -> Floats:
        probabilities: Floats = self.estimator_.predict_proba(_series(X))
        return probabilities

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings that sktime's own tests take: small and quick."""
        sizes = (8, 16)
        return [{"estimator": HadamRNNClassifier(size, max_steps=10, random_state=0)} for size in sizes]


class SktimeHadamRNNRegressor(BaseRegressor):
    """Passes series on to `estimator`, a `HadamRNNRegressor`; one with default settings if None.

    >>> from hadamrnn.estimators import HadamRNNRegressor
    >>> from hadamrnn.estimators.sktime import SktimeHadamRNNRegressor
    >>> SktimeHadamRNNRegressor(HadamRNNRegressor(64)).get_params()["estimator__hidden_size"]
    64
    """

    _tags = TAGS

    def __init__(self, estimator: HadamRNNRegressor | None = None) -> None:
        self.estimator = estimator
        super().__init__()

    def _fit(self, X: list[Any], y: NDArray[Any]) -> SktimeHadamRNNRegressor:
        self.estimator_ = clone(self.estimator or HadamRNNRegressor()).fit(_series(X), y)
        return self

    def _predict(self, X: list[Any]) -> Floats:
        values: Floats = self.estimator_.predict(_series(X))
        return values

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        """Return settings that sktime's own tests take: small and quick."""
        sizes = (8, 16)
        return [{"estimator": HadamRNNRegressor(size, max_steps=10, random_state=0)} for size in sizes]


def _series(tables: list[Any]) -> list[Floats]:
    return [np.asarray(table, np.float64) for table in tables]
