"""Adapt the estimators to sktime; install with `pip install 'hadamrnn[sktime]'`.

sktime passes a list of tables `(time, channels)`, which these estimators read.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

import numpy as np
from sktime.classification.base import BaseClassifier
from sktime.regression.base import BaseRegressor

from hadamrnn.estimators.adapter import Adapter, ClassifierAdapter, RegressorAdapter
from hadamrnn.estimators.series import Floats

TAGS = {
    "X_inner_mtype": "df-list",
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "capability:categorical_in_X": False,
    "python_dependencies": "torch",
}


class SktimeAdapter(Adapter):
    @staticmethod
    def _series(X: Iterable[Any]) -> list[Floats]:
        return [np.asarray(table, np.float64) for table in X]

    @classmethod
    def get_test_params(cls, parameter_set: str = "default") -> list[dict[str, Any]]:
        return [cls._quick(8), cls._quick(16)]


class SktimeHadamRNNClassifier(SktimeAdapter, ClassifierAdapter, BaseClassifier):
    """An sktime classifier that runs `estimator`, a `HadamRNNClassifier`; None means default settings.

    >>> from hadamrnn.estimators import HadamRNNClassifier
    >>> from hadamrnn.estimators.sktime import SktimeHadamRNNClassifier
    >>> SktimeHadamRNNClassifier(HadamRNNClassifier(64)).get_params()["estimator__hidden_size"]
    64
    """

    _tags: ClassVar[dict[str, Any]] = {**TAGS, "capability:predict_proba": True}


class SktimeHadamRNNRegressor(SktimeAdapter, RegressorAdapter, BaseRegressor):
    """An sktime regressor that runs `estimator`, a `HadamRNNRegressor`; None means default settings.

    >>> from hadamrnn.estimators import HadamRNNRegressor
    >>> from hadamrnn.estimators.sktime import SktimeHadamRNNRegressor
    >>> SktimeHadamRNNRegressor(HadamRNNRegressor(64)).get_params()["estimator__hidden_size"]
    64
    """

    _tags = TAGS
