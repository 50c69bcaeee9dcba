"""Adapt the estimators to aeon; install with `pip install 'hadamrnn[aeon]'`.

aeon's series are `(channels, time)`, ours `(time, channels)`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from aeon.classification import BaseClassifier
from aeon.regression import BaseRegressor

from hadamrnn.estimators.adapter import Adapter, ClassifierAdapter, RegressorAdapter
from hadamrnn.estimators.series import Floats

TAGS = {
    "X_inner_type": ["np-list", "numpy3D"],
    "capability:multivariate": True,
    "capability:unequal_length": True,
    "algorithm_type": "deeplearning",
    "python_dependencies": "torch",
}


class AeonAdapter(Adapter):
    @staticmethod
    def _series(X: Iterable[Any]) -> list[Floats]:
        return [np.ascontiguousarray(series.T) for series in X]

    @classmethod
    def _get_test_params(cls, parameter_set: str = "default") -> dict[str, Any]:
        return cls._quick(8)


class AeonHadamRNNClassifier(AeonAdapter, ClassifierAdapter, BaseClassifier):
    """An aeon classifier that runs `estimator`, a `HadamRNNClassifier`; None means default settings."""

    _tags = TAGS


class AeonHadamRNNRegressor(AeonAdapter, RegressorAdapter, BaseRegressor):
    """An aeon regressor that runs `estimator`, a `HadamRNNRegressor`; None means default settings."""

    _tags = TAGS
