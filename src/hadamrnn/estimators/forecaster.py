"""`HadamRNNForecaster`: forecast the next steps of a multivariate series.

One network reads each channel separately, in units of the channel's standard deviation and relative to the
last value of the window, and returns the change until each of the next steps. Signs and U are random and
fixed; V comes from ridge regression. Start reading at `HadamRNNForecaster.fit`.
"""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np
import torch
from sklearn.utils import check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor

from hadamrnn.architecture import Size, WeightBits
from hadamrnn.data.samples import cut_windows
from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.estimators.closed_form import keep_linear, set_readout
from hadamrnn.estimators.gradient import threads
from hadamrnn.estimators.integers import IntegerForm
from hadamrnn.estimators.reading import check_size
from hadamrnn.estimators.ridge import PENALTIES, Moments, solve
from hadamrnn.estimators.selection import Cost, draw_network, features_of, network_cost
from hadamrnn.estimators.series import Floats
from hadamrnn.estimators.target import ValueTarget
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import MAX_LEAK, Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import Calibration, RawInputs, calibrate
from hadamrnn.quantization.lowering import lower
from hadamrnn.settings import Positive, Range
from hadamrnn.training.evaluate import predict_logits

MOST_WINDOWS = 1 << 16  # most windows for fitting V, evenly spaced
COMPARED_WINDOWS = 1 << 13  # most windows for comparing networks
CALIBRATION_WINDOWS = 10_000
HELD_OUT = 0.2  # fraction at the end of the series that selects the network and the penalty
ACTIVATION_BITS = 14  # half of a state's range is needed for the offset that keeps it positive
RAW_UNIT = 2.0**-10  # in units of the channel's standard deviation
Steps = Annotated[int, Range(1, 1 << 14)]


class Windows(NamedTuple):
    """Windows of single channels, ordered by time, then by channel."""

    past: Tensor  # (n, lookback, 1)
    future: Tensor  # (n, horizon)
    starts: Tensor  # (n,), first step of each window
    channels: int

    def at_most(self, count: int) -> Windows:
        """Return this many windows, evenly spaced over time and channels."""
        hop = _hop(len(self.past), count, self.channels)
        return Windows(self.past[::hop], self.future[::hop], self.starts[::hop], self.channels)

    def target(self) -> ValueTarget:
        """Return the futures as a target with equal weights."""
        count = len(self.future)
        return ValueTarget(self.future, self.future.new_ones(count), torch.arange(count))


class Trial(NamedTuple):
    error: float
    penalty: float
    model: SequenceModel


@dataclass(eq=False, repr=False)
class HadamRNNForecaster(IntegerForm):
    """A forecaster for series that takes kilobytes, fitted in closed form.

    Parameters
    ----------
    horizon : int
        Number of steps to forecast.
    lookback : int
        Number of past steps that a forecast reads.
    hidden_size : int
        Number of units, a multiple of `num_blocks`.
    num_blocks : int
        Number of diagonal blocks of the recurrent weight; `hidden_size / num_blocks` must be a Hadamard
        order.
    leak : sequence of int
        Values of k in lambda = 1 - 2^-k, assigned to the blocks in turn. A block remembers about 2^k steps.
    weight_bits : int or "ternary"
        Bits of the input and output weights. The recurrent weight takes one bit per unit.
    draws : int
        Number of random networks to compare. Each is fitted to the first four fifths of the series and
        evaluated on the last fifth; the best is then fitted to the whole series.
    penalty : float or "auto"
        Penalty of the ridge regression; "auto" selects it in the same way.
    n_jobs : int or None
        Number of threads; None means one, and -1 means all.
    random_state : int, RandomState or None
        The seed of the random weights.

    Attributes
    ----------
    network_ : SequenceModel, float64
    scale_ : ndarray `(channels,)`, the standard deviations of the channels
    penalty_ : float, the ridge penalty
    n_features_in_ : int, number of channels
    cost_ : Cost, bytes of weights, operations of one step and RAM of the states, for one channel

    Examples
    --------
    >>> time = np.arange(600)
    >>> X = np.stack([np.sin(time / 4), 100 * np.sin(time / 7)], axis=1)
    >>> forecaster = HadamRNNForecaster(horizon=12, random_state=0).fit(X[:500])
    >>> bool(np.abs(forecaster.predict() - X[500:512]).max(0)[1] < 10)
    True
    """

    horizon: Steps = 24
    _: KW_ONLY
    lookback: Steps = 96
    hidden_size: Size = 64
    num_blocks: Size = 1
    leak: tuple[Annotated[int, Range(1, MAX_LEAK)], ...] = (5,)
    weight_bits: WeightBits = 6
    draws: Steps = 8
    penalty: Positive | Literal["auto"] = "auto"
    n_jobs: int | None = None
    random_state: Any = None

    network_: SequenceModel = field(init=False)
    calibration_: Calibration = field(init=False)
    scale_: Floats = field(init=False)

    def fit(self, X: Any, y: Any = None) -> HadamRNNForecaster:
        """Fit the network to a series X `(time, channels)`, or `(time,)` for one channel."""
        series = _columns(self._values(X, reset=True))
        network = self._network()
        least = self.lookback + self.horizon + 1
        if len(series) < least:
            raise InputError(
                f"A fit needs lookback + horizon + 1 = {least} steps, got {len(series)}. Choose shorter ones."
            )
        deviation = series.std(0)
        self.scale_ = np.where(deviation > 0, deviation, 1.0)
        self.n_features_in_ = series.shape[1]
        windows = _cut(series / self.scale_, self.lookback, self.horizon, MOST_WINDOWS)
        seeds = check_random_state(self.random_state).randint(2**31, size=self.draws)
        with threads(self.n_jobs):
            compared = windows.at_most(COMPARED_WINDOWS)
            tried = [self._try(draw_network(network, int(seed)), compared, len(series)) for seed in seeds]
            best = min(tried, key=lambda trial: trial.error)
            keep_linear(best.model, windows.past)
            features, target = features_of(best.model, Split(windows.past, None)), windows.target()
            solution = solve(features, target, (best.penalty,))
            set_readout(best.model, solution, target, features)
            some = windows.at_most(CALIBRATION_WINDOWS).past
            self.calibration_ = calibrate(best.model, [(some, None)])
        self.network_, self.config_, self.penalty_ = best.model, network, best.penalty
        self.latest_ = series[-self.lookback :].copy()
        self._quantized = None
        return self

    def predict(self, X: Any = None) -> Floats:
        """Return the next steps, `(horizon, channels)`, in the units of the series.

        Args:
            X: the past, `(time, channels)`, of which the last `lookback` steps are read; by default the
                series of `fit`. Several pasts `(n, time, channels)` give `(n, horizon, channels)`.
        """
        check_is_fitted(self)
        values = self._read(X)
        with threads(self.n_jobs):
            split = Split(torch.from_numpy(self._relative(values)), None)
            rises = predict_logits(self.network_, split).numpy()
        return self._decode(values, rises, X)

    def predict_integer(self, X: Any = None, model: IntegerModel | None = None) -> Floats:
        """Return the forecast of the integer network, bit for bit that of the exported C.

        X is that of `predict`; `model` and the warning are those of `HadamRNNRegressor.predict_integer`.
        """
        integer = self._integer(model)
        values = self._read(X)
        return self._decode(values, self._integer_outputs(integer, self._relative(values)), X)

    def quantize(self, activation_bits: int = ACTIVATION_BITS) -> IntegerModel:
        """Return the integer network of one channel.

        It takes the window relative to its last value, as codes of (value - last) / (scale_ * raw_unit), and
        returns the change until each step, in units of scale_ * logit_scale.

        Args:
            activation_bits: bits of states and biases, 6..16.
        """
        check_is_fitted(self)
        lookback, horizon = len(self.latest_), self.config_.output_size  # as fitted, not as set since
        return lower(
            self.network_,
            self.calibration_,
            activation_bits=activation_bits,
            raw=RawInputs.standardised([0.0], [1.0], RAW_UNIT),
            metadata={"estimator": type(self).__name__, "lookback": lookback, "horizon": horizon},
        )

    @property
    def cost_(self) -> Cost:
        """The bytes of the weights and the operations of one step of one channel."""
        check_is_fitted(self)
        return network_cost(self.config_, ACTIVATION_BITS)

    def _network(self) -> Network:
        parameters = self._parameters()
        if not parameters.leak:
            raise InputError("leak must list one k or more, got none.")
        return Network(
            1,
            parameters.hidden_size,
            parameters.horizon,
            num_blocks=parameters.num_blocks,
            leak=parameters.leak,
            weight_bits=parameters.weight_bits,
            normalize=True,
        )

    def _try(self, model: SequenceModel, windows: Windows, steps: int) -> Trial:
        """Return a network's held-out error and its best penalty."""
        penalties = PENALTIES if isinstance(self.penalty, str) else (float(self.penalty),)
        keep_linear(model.double(), windows.past)
        features, target = features_of(model, Split(windows.past, None)), windows.target()
        cut = steps - int(HELD_OUT * steps)
        fitted = windows.starts + self.lookback + self.horizon <= cut
        held_out = windows.starts + self.lookback >= cut
        if not fitted.any() or not held_out.any():  # a short series: leave out each window in turn
            solution = solve(features, target, penalties)
            return Trial(solution.error, solution.penalty, model)
        moments = Moments.of(features[fitted], target.at(fitted))
        few = target.at(torch.arange(1))  # held-out predictions are not used here
        fits = [solve(features[:1], few, (penalty,), moments=moments) for penalty in penalties]
        errors = [
            float((fit.predict(features[held_out]) - windows.future[held_out]).square().mean())
            for fit in fits
        ]
        best = int(np.argmin(errors))
        return Trial(errors[best], penalties[best], model)

    def _read(self, X: Any) -> Floats:
        """Return the windows to forecast from, `(n, lookback, channels)`."""
        if X is None:
            return self.latest_[None]
        values = self._values(X, reset=False)
        values = values if values.ndim == 3 else _columns(values)[None]
        lookback = len(self.latest_)  # as fitted, not as set since
        if values.shape[1] < lookback or values.shape[2] != self.n_features_in_:
            raise InputError(
                f"A forecast needs {lookback} steps or more of {self.n_features_in_} channels, got "
                f"{values.shape[1]} of {values.shape[2]}."
            )
        return values[:, -lookback:]

    def _values(self, X: Any, *, reset: bool) -> Floats:
        """Return X as an array; later frames must have the same columns as the first, in the same order."""
        values: Floats = check_array(X, dtype=np.float64, ensure_2d=False, allow_nd=True)
        check_size("X", values)
        if reset:
            self.__dict__.pop("feature_names_in_", None)  # left by an earlier fit to a frame
        if hasattr(X, "columns"):
            validate_data(self, X, reset=reset, skip_check_array=True)
        return values

    def _relative(self, values: Floats) -> Floats:
        """Return the inputs of the network: a row `(lookback, 1)` for each window and channel."""
        relative = (values - values[:, -1:]) / self.scale_
        return np.ascontiguousarray(relative.transpose(0, 2, 1).reshape(-1, values.shape[1], 1))

    def _decode(self, values: Floats, rises: Floats, X: Any) -> Floats:
        rows = rises.reshape(len(values), self.n_features_in_, -1).transpose(0, 2, 1)
        forecasts: Floats = values[:, -1:] + rows * self.scale_
        return forecasts if np.ndim(X) == 3 else forecasts[0]


def _columns(series: Floats) -> Floats:
    if series.ndim not in (1, 2):
        raise InputError(f"A series is (time, channels) or (time,), got {series.shape}.")
    return series.reshape(len(series), -1)


def _cut(series: Floats, lookback: int, horizon: int, most: int) -> Windows:
    """Cut at most this many windows from all channels, relative to the last value of the past."""
    cut = cut_windows(series, lookback + horizon)
    steps, channels = len(cut), series.shape[1]
    chosen = np.arange(0, steps * channels, _hop(steps * channels, most, channels))
    starts = chosen // channels
    rows = cut[starts, :, chosen % channels]
    rows = rows - rows[:, lookback - 1 : lookback]
    past, future = rows[:, :lookback, None].copy(), rows[:, lookback:].copy()
    return Windows(torch.from_numpy(past), torch.from_numpy(future), torch.from_numpy(starts), channels)


def _hop(windows: int, most: int, channels: int) -> int:
    """Return the least hop that gives at most `most` windows and still covers all channels.

    >>> _hop(10_000, 8_192, channels=2)
    3
    """
    hop = -(-windows // most)
    while math.gcd(hop, channels) > 1:
        hop += 1
    return hop
