"""`HadamRNNRegressor`: predict values from series."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sklearn.base import RegressorMixin
from sklearn.utils.validation import check_array, check_consistent_length

from hadamrnn.data.scaling import channel_statistics
from hadamrnn.errors import InputError
from hadamrnn.estimators.base import SeriesEstimator
from hadamrnn.estimators.closed_form import linear_networks
from hadamrnn.estimators.reading import align, check_size, read_series
from hadamrnn.estimators.selection import ParameterSpace
from hadamrnn.estimators.series import Floats, Samples, Series
from hadamrnn.estimators.target import ValueTarget
from hadamrnn.fixedpoint.base import Metadata
from hadamrnn.fixedpoint.encoding import target_metadata
from hadamrnn.network import Network


class HadamRNNRegressor(RegressorMixin, SeriesEstimator):
    """A regressor for series that takes kilobytes, minimising the squared error.

    X, the parameters and the other attributes are those of `HadamRNNClassifier`, without `class_weight`,
    `classes_` and the solver "count"; "auto" means "ridge" or "gradient". Unless parameters describe a
    `Network`, "ridge" also tries linear networks, which follow levels and trends beyond the range of
    training. y is `(n,)` or `(n, targets)`. It is standardised internally, and predictions are in its units.

    Attributes
    ----------
    target_offset_, target_scale_ : ndarray `(targets,)`
        y = output * target_scale_ + target_offset_.
    loss_curve_ : list of float, the loss of each step with gradients, on standardised targets

    Examples
    --------
    >>> X = np.random.default_rng(0).normal(size=(200, 10))
    >>> regressor = HadamRNNRegressor(hidden_size=64, random_state=0).fit(X, X.sum(1))
    >>> regressor.score(X, X.sum(1)) > 0.8
    True
    """

    target_offset_: Floats
    target_scale_: Floats

    def partial_fit(self, X: Any, y: Any, sample_weight: Any = None) -> HadamRNNRegressor:
        """Fit the network to the next part of the data; see `HadamRNNClassifier.partial_fit`."""
        series, columns = self._read(X, y, reset=not hasattr(self, "_stream"))
        self._fit_part(series, columns, align(X, sample_weight))
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return R^2, the mean over targets; see `sklearn.metrics.r2_score`."""
        return float(super().score(X, align(X, y), align(X, sample_weight)))

    def _read(self, X: Any, y: Any, *, reset: bool) -> tuple[Series, Floats]:
        """Return the series and the targets `(n, targets)`, with as many targets as before unless `reset`."""
        if y is None:
            raise ValueError(f"{type(self).__name__} requires y to be passed, but the target y is None.")
        series = read_series(self, X, reset=reset)
        targets = check_array(align(X, y), ensure_2d=False, dtype=np.float64, input_name="y")
        check_consistent_length(series, targets)
        check_size("y", targets)
        columns = targets.reshape(len(targets), -1)
        if not reset and columns.shape[1] != len(self.target_scale_):
            count = len(self.target_scale_)
            raise InputError(f"y must have {count} targets, as in the first call, got {columns.shape[1]}.")
        self.single_target_ = targets.ndim == 1
        return series, columns

    def _target(self, samples: Samples, *, reset: bool) -> ValueTarget:
        if reset:
            mean, deviation = channel_statistics(samples.known[:, None], weights=samples.weights)
            self.target_offset_, self.target_scale_ = mean, np.where(deviation > 0, deviation, 1.0)
        standard = torch.from_numpy((samples.known - self.target_offset_) / self.target_scale_)
        return ValueTarget(standard, torch.from_numpy(samples.weights), torch.from_numpy(samples.groups))

    def _linear(self, space: ParameterSpace) -> list[Network]:
        return linear_networks(space)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags

    def _decode(self, outputs: Floats) -> Floats:
        values: Floats = outputs * self.target_scale_ + self.target_offset_
        return values[:, 0] if self.single_target_ else values

    def _target_units(self) -> tuple[Floats, Floats]:
        return self.target_offset_, self.target_scale_

    def _output_metadata(self, logit_scale: float) -> Metadata:
        return target_metadata(logit_scale * self.target_scale_, self.target_offset_)
