"""Provide the base class of the adapters for sktime and aeon."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from numpy.typing import NDArray
from sklearn.base import clone

from hadamrnn.estimators.base import SeriesEstimator
from hadamrnn.estimators.classifier import HadamRNNClassifier
from hadamrnn.estimators.regressor import HadamRNNRegressor
from hadamrnn.estimators.series import Floats


class Adapter:
    """An adapter that passes series to `estimator`; None means one with default settings."""

    kind: ClassVar[type[SeriesEstimator]]

    def __init__(self, estimator: Any = None) -> None:
        self.estimator = estimator
        super().__init__()

    @staticmethod
    def _series(X: Iterable[Any]) -> list[Floats]:
        """Return the library's series as arrays `(time, channels)`."""
        raise NotImplementedError

    def _fit(self, X: Iterable[Any], y: NDArray[Any]) -> Any:
        self.estimator_ = clone(self.estimator or self.kind()).fit(self._series(X), y)
        return self

    def _predict(self, X: Iterable[Any]) -> NDArray[Any]:
        answers: NDArray[Any] = self.estimator_.predict(self._series(X))
        return answers

    @classmethod
    def _quick(cls, hidden_size: int) -> dict[str, Any]:
        """Return small, fast settings for the library's own tests."""
        return {"estimator": cls.kind(hidden_size, max_steps=10, random_state=0)}


class ClassifierAdapter(Adapter):
    kind = HadamRNNClassifier

    def _predict_proba(self, X: Iterable[Any]) -> Floats:
        probabilities: Floats = self.estimator_.predict_proba(self._series(X))
        return probabilities


class RegressorAdapter(Adapter):
    kind = HadamRNNRegressor
