"""`HadamRNNDetector`: detect anomalies in a stream, learning from normal data only.

A network with random signs and U reads the stream and predicts each sample from the samples before it; V
comes from ridge regression. A sample's distance is the squared Mahalanobis distance of its residual, and the
level is an exponential mean of the distances. A level above those of normal data raises an alarm. The
covariance and the threshold come from residuals of samples that V was not fitted to. Start reading at
`HadamRNNDetector.fit`.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Annotated, Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import OutlierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from hadamrnn.architecture import Size, WeightBits
from hadamrnn.errors import InputError
from hadamrnn.estimators.closed_form import set_readout
from hadamrnn.estimators.gradient import threads
from hadamrnn.estimators.integers import IntegerForm, fit_metadata
from hadamrnn.estimators.reading import as_series, read_streams
from hadamrnn.estimators.ridge import Moments, solve
from hadamrnn.estimators.selection import Cost, draw_network, network_cost
from hadamrnn.estimators.series import Floats, Scaling, Series
from hadamrnn.estimators.target import ValueTarget
from hadamrnn.fixedpoint.alarms import (
    DISTANCE_BITS,
    LARGEST_BITS,
    MAX_CHANNELS,
    MAX_SMOOTHING,
    MAX_WARMUP,
    Detection,
    detection_of,
)
from hadamrnn.fixedpoint.base import Metadata
from hadamrnn.fixedpoint.encoding import encode_values
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import MAX_LEAK, Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import Calibration, calibrate, forward_layers
from hadamrnn.quantization.lowering import lower
from hadamrnn.settings import Positive, Range, Share

KEPT_ROWS = 1 << 14  # covariance and threshold come from this many rows of the latest recordings
FOLD_ROWS, FOLDS = 500, 5  # rows per fold; fewest folds
LARGEST_INPUT = 8.0  # in standard deviations; larger inputs are clipped
HEADROOM = 4.0  # factor by which states and features may exceed their range on normal data
LEAST_RESIDUAL = 2.0**-10  # relative to the input's deviation; this is four 16-bit codes
LARGEST_RESIDUAL = 2.0 ** (LARGEST_BITS - 1 - DISTANCE_BITS)
ACTIVATION_BITS = 16


@dataclass(eq=False, repr=False)
class HadamRNNDetector(OutlierMixin, IntegerForm):
    """An anomaly detector for streams that takes kilobytes, fitted to normal data in closed form.

    The rows of X are consecutive samples, `(time, channels)`, and the score of a row depends on the rows
    before it. Pass several recordings as a list of such arrays, or as `(n, time, channels)`. The state starts
    at zero for each recording, and the rows are returned one recording after another. Because the state is
    empty at the start of a recording, or when a device starts, the first `warmup_` samples count as normal:
    2^(max(leak) + 1) of them, or half of the shortest recording.

    Parameters
    ----------
    hidden_size : int
        Number of units, a multiple of the number of blocks.
    leak : sequence of int
        One k, in lambda = 1 - 2^-k, for each diagonal block of the recurrent weight. A block remembers about
        2^k samples.
    weight_bits : int or "ternary"
        Bits of the input and output weights. The recurrent weight takes one bit per unit.
    penalty : float
        Penalty of the ridge regression, relative to the number of samples.
    shrinkage : float
        Shrinkage of the residuals' covariance towards their mean variance; 0 for none. Less shrinkage
        detects smaller deviations in channels that are predicted much better than the others.
    smoothing : int
        k of the level, an exponential mean over about 2^k distances; with 0 every sample is judged
        separately.
    quantile : float
        The threshold is this quantile of the levels of normal data, times `margin`.
    margin : float
        Factor of the threshold; a larger margin gives fewer false alarms and misses more anomalies.
    n_jobs : int or None
        Number of threads; None means one, and -1 means all.
    random_state : int, RandomState or None
        The seed of the random weights.

    Attributes
    ----------
    network_ : SequenceModel, float64, which predicts the next sample
    offset_ : float, minus the threshold; rows with lower `score_samples` are anomalies
    levels_ : ndarray `(samples,)`, cross-validated levels of the normal data
    warmup_ : int, number of samples at the start of a recording that raise no alarm
    whitening_ : ndarray `(channels, channels)`, the inverse Cholesky factor of the residuals' covariance
    n_features_in_ : int, number of channels
    cost_ : Cost, bytes of weights, operations of one step and RAM of the states

    Examples
    --------
    >>> time = np.arange(2000)
    >>> X = np.stack([np.sin(time / 4), np.cos(time / 7)], axis=1)
    >>> X += np.random.default_rng(0).normal(0, 0.05, X.shape)
    >>> detector = HadamRNNDetector(random_state=0).fit(X[:1000])
    >>> X[1700:1720, 1] = np.random.default_rng(1).uniform(-1, 1, 20)  # within the range of normal data
    >>> alarms = detector.predict(X[1000:]) == -1
    >>> bool(alarms[:700].mean() < 0.02), bool(alarms[705:720].all())
    (True, True)
    """

    hidden_size: Size = 128
    _: KW_ONLY
    leak: tuple[Annotated[int, Range(1, MAX_LEAK)], ...] = (1, 1, 2, 2)
    weight_bits: WeightBits = 6
    penalty: Positive = 0.25
    shrinkage: Share = 0.05
    smoothing: Annotated[int, Range(0, MAX_SMOOTHING)] = 3
    quantile: Share = 0.99
    margin: Positive = 1.25
    n_jobs: int | None = None
    random_state: Any = None

    network_: SequenceModel = field(init=False)
    calibration_: Calibration = field(init=False)
    scaling_: Scaling = field(init=False)
    whitening_: Floats = field(init=False)
    levels_: Floats = field(init=False)
    offset_: float = field(init=False)
    warmup_: int = field(init=False)
    _kept: list[Tensor] = field(init=False)  # inputs of the latest recordings
    _older: Moments | None = field(init=False)  # statistics of the recordings before those

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the detector to a normal recording X `(time, channels)`, or several; y is ignored."""
        recordings, network = read_streams(self, X, reset=True), self._network()
        self.scaling_ = Scaling.of(as_series(recordings), np.ones(len(recordings)))
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.warmup_ = min(2 << max(network.leak), min(map(len, recordings)) // 2, MAX_WARMUP)
        with threads(self.n_jobs):
            self.network_ = draw_network(network, seed).double()
            self.config_ = network
            self._kept, self._older = [], None
            self._add(recordings)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Fit the detector to more normal recordings; the first call fixes scaling and random weights.

        V is fitted to all recordings so far; covariance and threshold to the latest ones, which together have
        at least 16,384 samples.
        """
        if not hasattr(self, "network_"):
            return self.fit(X)
        recordings = read_streams(self, X, reset=False)
        with threads(self.n_jobs):
            self._add(recordings)
        return self

    def score_samples(self, X: Any) -> Floats:
        """Return minus the level of each row; lower is more abnormal."""
        check_is_fitted(self)
        recordings = read_streams(self, X, reset=False)
        with threads(self.n_jobs):
            inputs = [self._inputs(each) for each in recordings]
            scores = [self._levels(x - self._predictions(x)) for x in inputs]
        return -np.concatenate(scores)

    def decision_function(self, X: Any) -> Floats:
        """Return `score_samples - offset_`, which is negative for anomalies."""
        return self.score_samples(X) - self.offset_

    def predict(self, X: Any) -> NDArray[np.int64]:
        """Return -1 for rows that are anomalies and 1 for the others."""
        return np.where(self.decision_function(X) < 0, -1, 1)

    def score_samples_integer(self, X: Any, model: IntegerModel | None = None) -> Floats:
        """Return the scores of the integer network, bit for bit those of the exported C.

        Args:
            X: as for `score_samples`; the network reads raw codes round(x / raw_unit).
            model: a network returned by `quantize`; by default, by `quantize()`.
        """
        levels, _ = self._integer_levels(X, model)
        scores: Floats = -np.ldexp(levels.astype(np.float64), -2 * DISTANCE_BITS)
        return scores

    def predict_integer(self, X: Any, model: IntegerModel | None = None) -> NDArray[np.int64]:
        """Return -1 and 1 as `predict` does, using the integer network."""
        levels, threshold = self._integer_levels(X, model)
        return np.where(levels > threshold, -1, 1)

    def quantize(self, activation_bits: int = ACTIVATION_BITS, raw_unit: float | None = None) -> IntegerModel:
        """Return the integer network followed by the detector stage; it takes raw inputs.

        Args:
            activation_bits: bits of states, biases and standardised inputs, 6..16.
            raw_unit: the value of one raw code. The default is 1 if the training data are whole numbers, else
                a power of two well below their deviation; it is stored in the model's metadata.
        """
        check_is_fitted(self)
        integer = lower(
            self.network_,
            self.calibration_,
            activation_bits=activation_bits,
            raw=self.scaling_.raw_inputs(raw_unit),
        )
        detection = Detection.of(
            self.whitening_,
            -self.offset_,
            self._smoothing,
            self.warmup_,
            step=integer.input_scale * 2.0 ** (1 - integer.input_bits),
            logit_scale=integer.logit_scale,
        )
        metadata = {"estimator": type(self).__name__, **detection.metadata()}
        return replace(integer, metadata={**integer.metadata, **metadata, **self._identity()})

    @property
    def cost_(self) -> Cost:
        """The bytes of the weights and the operations of one step, without the detector stage."""
        check_is_fitted(self)
        return network_cost(self.config_, ACTIVATION_BITS)

    def _identity(self) -> Metadata:
        return fit_metadata(self.network_, self.scaling_)

    def _network(self) -> Network:
        parameters, channels = self._parameters(), self.n_features_in_
        if not parameters.leak:
            raise InputError("leak must list one k or more, got none.")
        if channels > MAX_CHANNELS:
            raise InputError(
                f"A detector reads at most {MAX_CHANNELS} channels, got {channels}. Choose some."
            )
        return Network(
            channels,
            parameters.hidden_size,
            channels,
            num_blocks=len(parameters.leak),
            leak=parameters.leak,
            weight_bits=parameters.weight_bits,
            normalize=True,
            every_output=True,
        )

    def _add(self, recordings: Sequence[Floats]) -> None:
        """Add these recordings to the fit of V, the covariance and the threshold."""
        kept = [*self._kept, *(self._inputs(each) for each in recordings)]
        older, model = self._older, copy.deepcopy(self.network_)
        while sum(map(len, kept[1:])) >= KEPT_ROWS:
            moments = Moments.of(_features(model, kept[0]), _target(kept[0]))
            older = moments if older is None else older + moments
            del kept[0]
        features, target = torch.cat([_features(model, x) for x in kept]), _target(torch.cat(kept))
        moments = Moments.of(features, target)
        count = len(features)
        folds = torch.arange(count) * max(min(FOLDS, count), count // FOLD_ROWS) // count
        parameters = self._parameters()
        solution = solve(
            features,
            target,
            (parameters.penalty,),
            folds=folds,
            moments=moments if older is None else older + moments,
        )
        set_readout(model, solution, target, features)
        self.network_, self._kept, self._older, self._quantized = model, kept, older, None
        self._smoothing = parameters.smoothing
        self._calibrate()
        # Rounding V adds error to the cross-validated residuals.
        outputs = torch.cat([self._predictions(x) for x in kept])
        residuals = target.values - outputs + solution.predict(features) - solution.held_out
        self.whitening_ = _whitening(residuals, parameters.shrinkage)
        ends = np.cumsum([len(x) for x in kept])[:-1].tolist()
        parts = [self._levels(part)[self.warmup_ :] for part in torch.tensor_split(residuals, ends)]
        self.levels_ = np.concatenate(parts)
        self.offset_ = -parameters.margin * float(np.quantile(self.levels_, parameters.quantile))

    def _calibrate(self) -> None:
        found = calibrate(self.network_, [(x[None], None) for x in self._kept])
        self.calibration_ = replace(
            found,
            max_state=HEADROOM * found.max_state,
            max_feature=HEADROOM * found.max_feature,
            max_input=LARGEST_INPUT,
        )

    def _inputs(self, recording: Floats) -> Tensor:
        """Return the inputs of the network, `(time, channels)`."""
        x = self.scaling_.split(Series(recording[None]), np.float64).x[0]
        return x.clamp(-LARGEST_INPUT, LARGEST_INPUT)

    @torch.no_grad()
    def _predictions(self, x: Tensor) -> Tensor:
        """Return the prediction of each row of x, `(time, channels)`."""
        scale, weight, bias = self.network_.folded_readout()
        return (_features(self.network_, x) * scale) @ weight.T + bias

    def _levels(self, residuals: Tensor) -> Floats:
        """Return the level after each row of a recording's residuals."""
        z = np.clip(residuals.numpy() @ self.whitening_.T, -LARGEST_RESIDUAL, LARGEST_RESIDUAL)
        distances, levels, level, share = (z * z).sum(1), [], 0.0, 2.0**-self._smoothing
        distances[: self.warmup_] = 0.0
        for distance in distances.tolist():
            level += share * (distance - level)
            levels.append(level)
        return np.array(levels)

    def _integer_levels(self, X: Any, model: IntegerModel | None) -> tuple[NDArray[np.int64], int]:
        """Return the integer level of each row, and the threshold."""
        integer = self._integer(model)
        recordings = read_streams(self, X, reset=False)
        detection = detection_of(integer)
        if detection is None:
            raise InputError("model must be what quantize of a detector returns, got one without a detector.")
        levels = [detection.run(integer, encode_values(integer, each)[0]) for each in recordings]
        return np.concatenate(levels), detection.threshold


@torch.no_grad()
def _features(model: SequenceModel, x: Tensor) -> Tensor:
    """Return the input of V for each row of x: max(h, 0) after the previous row, and 0 for the first row."""
    states = forward_layers(model).every_state(x[None])[0].relu()
    return torch.cat([torch.zeros_like(states[:1]), states[:-1]])


def _target(x: Tensor) -> ValueTarget:
    """Return the rows of x as a target with equal weights."""
    return ValueTarget(x, x.new_ones(len(x)), torch.arange(len(x)))


def _whitening(residuals: Tensor, shrinkage: float) -> Floats:
    """Return L with L C L' = 1, lower triangular, for the shrunk covariance C of residuals."""
    covariance = (residuals.T @ residuals / len(residuals)).numpy()
    spread = shrinkage * np.trace(covariance) / len(covariance) + LEAST_RESIDUAL**2
    shrunk = (1 - shrinkage) * covariance + spread * np.eye(len(covariance))
    return np.asarray(np.linalg.inv(np.linalg.cholesky(shrunk)))
