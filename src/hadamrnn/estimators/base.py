"""Provide the base class of the estimators: parameters, fits, and the integer network.

A subclass of `SeriesEstimator` turns y into a `Target`, and outputs into labels or values.
"""

from __future__ import annotations

import copy
import sys
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Literal, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hadamrnn.architecture import Size, WeightBits
from hadamrnn.errors import InputError
from hadamrnn.estimators.closed_form import ClosedForm, SampleStream, fit_closed_form, ranges_of, refit
from hadamrnn.estimators.gradient import recipe, threads, train
from hadamrnn.estimators.integers import IntegerForm, fit_metadata
from hadamrnn.estimators.reading import align, read_samples, read_series
from hadamrnn.estimators.selection import Cost, ParameterSpace, check_ram, network_cost, state_bits
from hadamrnn.estimators.series import Floats, Samples, Scaling, Series
from hadamrnn.estimators.target import Target
from hadamrnn.fixedpoint.base import Metadata
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import MAX_LEAK, MAX_THRESHOLDS, READOUTS, RECURRENCES, Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import Calibration
from hadamrnn.quantization.lowering import lower
from hadamrnn.settings import Count, NotNegative, OneOf, Positive, Range
from hadamrnn.training.config import Between0And1
from hadamrnn.training.evaluate import predict_logits
from hadamrnn.training.models import RandomGenerator

DEFAULT_BYTES, DEFAULT_OUTPUTS = 4096, 10  # max_bytes up to this many outputs, then proportional to them
DEFAULT_BITS = 4  # weight_bits of a `Network`
GRADIENT_UNITS = 256  # default hidden_size for gradient training
SHAPE = ("hidden_size", "num_blocks", "leak", "readouts", "thresholds")  # chosen by the fit if None
Leak = tuple[Annotated[int, Range(0, MAX_LEAK)], ...]
Readouts = tuple[Annotated[str, OneOf(READOUTS)], ...]


@dataclass(eq=False, repr=False)
class SeriesEstimator(IntegerForm):
    """An estimator for series that leaves the meaning of y to subclasses; see `HadamRNNClassifier`."""

    hidden_size: Size | None = None
    _: KW_ONLY
    solver: Literal["auto", "ridge", "gradient", "count"] = "auto"
    max_bytes: Count | None = None
    max_ram: Count | None = None
    num_blocks: Size | None = None
    leak: Leak | None = None
    readouts: Readouts | None = None
    thresholds: Annotated[int, Range(0, MAX_THRESHOLDS)] | None = None
    weight_bits: WeightBits | Literal["auto"] = "auto"
    recurrence: Annotated[str, OneOf(RECURRENCES)] = "linear"
    max_steps: Count | Literal["auto"] = "auto"
    batch_size: Annotated[int, Range(1, 2**20)] = 32
    learning_rate: Positive = 1e-2
    input_noise: NotNegative = 0.2
    early_stopping: bool = False
    validation_fraction: Between0And1 = 0.1
    n_iter_no_change: Count = 5
    tol: NotNegative = 1e-3
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: bool | int = False
    random_state: Any = None

    network_: Any = field(init=False)  # a SequenceModel, or an IntegerReservoir
    scaling_: Scaling = field(init=False)
    calibration_: Calibration = field(init=False)
    penalty_: float = field(init=False)  # set by closed-form fits
    _stream: SampleStream = field(init=False)  # set by `partial_fit`

    @abstractmethod
    def _read(self, X: Any, y: Any, *, reset: bool) -> tuple[Series, NDArray[Any]]:
        """Return the series and their labels or values, which must match earlier calls unless `reset`."""

    @abstractmethod
    def _target(self, samples: Samples, *, reset: bool) -> Target:
        """Return the target of these samples; with `reset`, the units of the values are fitted first."""

    @abstractmethod
    def _decode(self, outputs: Floats) -> Any:
        """Return labels or values from the network's outputs `(n, output_size)`."""

    def _identity(self) -> Metadata:
        return fit_metadata(self.network_, self.scaling_)

    def _target_units(self) -> tuple[Floats, Floats] | tuple[None, None]:
        """Return the offset and scale of every output, y = output * scale + offset; None for logits."""
        return None, None

    @abstractmethod
    def _output_metadata(self, logit_scale: float) -> Metadata:
        """Return the metadata of an integer network that explains its outputs."""

    def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Self:
        """Fit the network to series X and their y: labels `(n,)`, or targets `(n,)` or `(n, targets)`.

        A weight of 2 has the same effect as repeating the sample, and a common factor of all weights has no
        effect. The weights also enter the standardisation. A warm start continues with the present network.

        `groups` `(n,)` names the source of each sample, such as a person; selection and early stopping then
        hold out whole groups.
        """
        parameters = self._parameters()
        warm = self.warm_start and hasattr(self, "network_") and self._solver() == "gradient"
        samples, target = self._samples(X, y, sample_weight, groups, reset=not warm)
        for name in ("_stream", "penalty_", "n_iter_", "loss_curve_"):  # left by an earlier fit
            self.__dict__.pop(name, None)
        seed = int(check_random_state(self.random_state).randint(2**31))
        if self._solver() == "gradient":
            self._fit_gradient(samples, target, parameters, seed, warm=warm)
        else:
            self._fit_ridge(samples, target, seed)
        return self

    def predict(self, X: Any) -> Any:
        """Return the label or values predicted for each series of X, by the float network."""
        return self._decode(self._outputs(X))

    def predict_integer(self, X: Any, model: IntegerModel | None = None) -> Any:
        """Return the predictions of the integer network, bit for bit those of the exported C.

        Args:
            X: as for `predict`; the network reads raw codes round(x / raw_unit).
            model: a network returned by `quantize`; by default, by `quantize()`.

        Warns:
            SaturationWarning: more than one in 10,000 values of X, or of the states, was clipped because it
                is outside the range found by the fit.
        """
        integer = self._integer(model)
        series = read_series(self, X, reset=False)
        return self._decode(self._integer_outputs(integer, series.values, series.lengths))

    def quantize(
        self,
        activation_bits: int | None = None,
        input_bits: int | None = None,
        raw_unit: float | None = None,
    ) -> IntegerModel:
        """Return the integer network, which takes raw inputs and standardises them itself.

        Args:
            activation_bits: bits of states and biases, 6..16. The default is 12 if only the last state is
                read, and 16 for sums over steps, or fewer if a series of the fit has more than 32,767 steps.
            input_bits: bits of standardised inputs; `activation_bits` by default.
            raw_unit: the value of one raw code. The default is 1 if the training data are whole numbers, else
                a power of two well below their deviation; it is stored in the model's metadata.
        """
        check_is_fitted(self)
        if activation_bits is None:
            activation_bits = state_bits(self.config_, self.calibration_.seq_length)
        integer = lower(
            self.network_,
            self.calibration_,
            activation_bits=activation_bits,
            input_bits=input_bits,
            raw=self.scaling_.raw_inputs(raw_unit),
        )
        metadata = {"estimator": type(self).__name__, **self._output_metadata(integer.logit_scale)}
        return replace(integer, metadata={**integer.metadata, **metadata, **self._identity()})

    def to_onnx(
        self,
        out: str | Path,
        name: str = "net",
        *,
        model: IntegerModel | None = None,
        force: bool = False,
    ) -> Path:
        """Write ONNX of the float and the integer network to the new folder `out`.

        All graphs take X in its own units. The float graphs return logits, or values for a regression. A
        reservoir has no float graph, because its `predict` already computes with integers.
        """
        from hadamrnn.export.onnx import ValueUnits, export_onnx

        integer, scaling = self._integer(model), self.scaling_
        return export_onnx(
            out,
            name,
            float_model=self.network_ if isinstance(self.network_, SequenceModel) else None,
            integer_model=integer,
            units=ValueUnits(scaling.offset, scaling.scale, scaling.knee, *self._target_units()),
            class_names=integer.class_names,
            force=force,
        )

    @property
    def cost_(self) -> Cost:
        """The bytes of the weights, the operations of one step, and the RAM of the states."""
        check_is_fitted(self)
        return network_cost(self.config_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags

    def _samples(
        self, X: Any, y: Any, sample_weight: Any, groups: Any, *, reset: bool
    ) -> tuple[Samples, Target]:
        """Return the distinct samples, weighted so that the largest weight is 1, and their target."""
        read = self._read(X, y, reset=reset)
        samples = read_samples(*read, align(X, sample_weight), align(X, groups))
        samples = replace(samples, weights=samples.weights / samples.weights.max())
        target = self._target(samples, reset=reset)
        owners = None if samples.owners is None else torch.from_numpy(samples.owners)
        return samples, replace(target, owners=owners)

    def _outputs(self, X: Any) -> Floats:
        """Return the float network's outputs, float64 `(n, output_size)`."""
        check_is_fitted(self)
        series = read_series(self, X, reset=False)
        with threads(self.n_jobs):
            outputs: Floats = predict_logits(self.network_, self.scaling_.split(series, np.float64)).numpy()
        return outputs

    def _fit_part(self, series: Series, known: NDArray[Any], sample_weight: Any) -> None:
        """Fit the network to the next part of a stream, whose labels or values are `known`."""
        if self._solver() == "gradient":
            raise InputError('partial_fit needs a ridge regression: use solver="ridge".')
        if hasattr(self, "_stream"):
            stream = copy.copy(self._stream)  # a part that fails leaves the stream as it was
        else:
            stream = SampleStream(int(check_random_state(self.random_state).randint(2**31)))
        was_full = stream.is_full
        others = stream.add(read_samples(series, known, sample_weight))
        kept = stream.kept
        assert kept is not None
        if not was_full:
            target = self._target(kept, reset=True)
            self._fit_ridge(kept, target, stream.seed, search=False)
        if was_full or len(others):
            self._refit(stream, others)
        self._stream = stream

    def _refit(self, stream: SampleStream, others: Samples) -> None:
        """Refit the read-out with further series of a stream; the network stays fixed."""
        assert stream.kept is not None
        kept_target, target = self._target(stream.kept, reset=False), self._target(others, reset=False)
        fitted = ClosedForm(self.network_, self.calibration_, self.penalty_)
        with threads(self.n_jobs):
            fitted = refit(fitted, self.scaling_, stream, kept_target, others, target)
        self._keep(fitted.model, self.scaling_, fitted.calibration)
        self.penalty_ = fitted.penalty

    def _solver(self) -> str:
        """Return the solver that the parameters imply: "ridge", "gradient" or "count"."""
        if self.solver == "auto":
            asks_for_steps = self.max_steps != "auto" or self.early_stopping or self.warm_start
            return "gradient" if asks_for_steps else "ridge"
        return self.solver

    def _fit_ridge(self, samples: Samples, target: Target, seed: int, *, search: bool = True) -> None:
        if self.solver == "count":
            raise InputError('solver="count" is for classifiers: use solver="ridge".')
        space = self._space(samples, target)
        candidates = space.candidates()
        candidates, linear = (candidates, self._linear(space)) if search else (candidates[:1], [])
        scaling = Scaling.of(samples.series, samples.weights)
        inputs = scaling.split(samples.series, np.float64)
        with threads(self.n_jobs):
            fitted = fit_closed_form(inputs, target, candidates, seed, self._log, linear)
        self._keep(fitted.model, scaling, fitted.calibration)
        self.penalty_ = fitted.penalty

    def _linear(self, space: ParameterSpace) -> list[Network]:
        """Return linear networks to compare with the candidates of the space."""
        return []

    def _fit_gradient(
        self, samples: Samples, target: Target, parameters: SimpleNamespace, seed: int, *, warm: bool
    ) -> None:
        network = Network(
            samples.series.channels,
            output_size=target.values.shape[1],
            weight_bits=_weight_bits(parameters),
            recurrence=parameters.recurrence,
            **{"hidden_size": GRADIENT_UNITS, **_shape(parameters)},
        )
        check_ram(network, parameters.max_ram)
        if warm and self.config_ != network:
            raise InputError(
                "A warm start needs a network of the same shape, got "
                f"{network} after {self.config_}. Set warm_start=False."
            )
        scaling = self.scaling_ if warm else Scaling.of(samples.series, samples.weights)
        inputs = scaling.split(samples.series, np.float32)
        with RandomGenerator(seed):
            model = copy.deepcopy(self.network_).float() if warm else SequenceModel(network)
        config = recipe(parameters, type(self).__name__, len(samples), seed)
        with threads(self.n_jobs):
            outcome, losses = train(parameters, model, inputs, target, config)
            # float64, so that outputs do not depend on how samples are batched.
            model = outcome.model.double()
            self._keep(model, scaling, ranges_of(model, inputs))
        self.n_iter_, self.loss_curve_ = outcome.step, losses

    def _keep(self, model: SequenceModel, scaling: Scaling, calibration: Calibration) -> None:
        self.network_ = model
        self.config_ = model.hadamard_layers.network
        self.scaling_ = scaling
        self.calibration_ = calibration
        self._quantized = None

    def _log(self, line: str) -> None:
        if self.verbose:
            print(f"{type(self).__name__}: {line}", file=sys.stderr)

    def _space(self, samples: Samples, target: Target) -> ParameterSpace:
        """Return the candidates of a closed-form fit."""
        parameters, outputs = self._parameters(), target.values.shape[1]
        base = Network(
            samples.series.channels,
            1,
            outputs,
            weight_bits=_weight_bits(parameters),
            recurrence=parameters.recurrence,
        )
        default = DEFAULT_BYTES * max(DEFAULT_OUTPUTS, outputs) // DEFAULT_OUTPUTS
        return ParameterSpace(base, parameters.max_bytes or default, parameters.max_ram, **_shape(parameters))


def _shape(parameters: SimpleNamespace) -> dict[str, Any]:
    """Return the parameters that describe the shape of the network."""
    return {name: value for name in SHAPE if (value := getattr(parameters, name)) is not None}


def _weight_bits(parameters: SimpleNamespace) -> WeightBits:
    """Return the bits of the weights of a `Network`."""
    bits: WeightBits | Literal["auto"] = parameters.weight_bits
    return DEFAULT_BITS if bits == "auto" else bits
