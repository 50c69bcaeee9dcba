"""Provide the base class of estimators with a reservoir: fit, stream, and integer form.

`CountedForm` is a `SeriesEstimator` that fits a reservoir unless its parameters ask for a `Network`.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hadamrnn.errors import InputError, missing_package
from hadamrnn.estimators.base import DEFAULT_BYTES, DEFAULT_OUTPUTS, SHAPE, SeriesEstimator
from hadamrnn.estimators.closed_form import SampleStream
from hadamrnn.estimators.counted import (
    INPUT_BITS,
    SEARCH_SERIES,
    Counted,
    FitPlan,
    SeriesEncoding,
    cost_of,
    fit_counted,
    moments_of,
    with_readout,
)
from hadamrnn.estimators.gradient import threads
from hadamrnn.estimators.reading import read_series
from hadamrnn.estimators.selection import Cost
from hadamrnn.estimators.series import Floats, Samples, Scaling
from hadamrnn.estimators.target import Target
from hadamrnn.reservoir import IntegerReservoir, Reservoir

COUNTED_BITS = ("auto", *range(2, 9))  # weight_bits that a reservoir supports
BITS, BITS_OF_MANY = 3, 2  # default weight_bits up to DEFAULT_OUTPUTS outputs, and beyond
MORE_BYTES = 320  # default bytes for each output beyond DEFAULT_OUTPUTS
PATH = (512, 1024, 2048, 4096, 8192, 16384)


@dataclass(eq=False, repr=False)
class CountedForm(SeriesEstimator):
    """An estimator that fits a reservoir; see `HadamRNNClassifier`."""

    _counted: Counted = field(init=False)

    def fit_path(
        self, X: Any, y: Any, max_bytes: Sequence[int] = PATH, sample_weight: Any = None, groups: Any = None
    ) -> list[Self]:
        """Return estimators of several sizes from one fit; each equals a `fit` with its `max_bytes`.

        Args:
            X, y, sample_weight, groups: as for `fit`.
            max_bytes: size limit of each estimator.
        """
        if self._solver() != "count":
            raise InputError('fit_path needs solver="count": leave out the parameters of other networks.')
        samples, target = self._samples(X, y, sample_weight, groups, reset=True)
        seed = int(check_random_state(self.random_state).randint(2**31))
        sizes = sorted({int(size) for size in max_bytes}, reverse=True)
        fitted = self._fit_sizes(samples, target, seed, sizes)
        found = []
        for size, counted in zip(sizes, fitted, strict=True):
            each = copy.copy(self).set_params(max_bytes=size)
            each._keep_counted(counted)
            found.append(each)
        return found[::-1]

    def quantize(
        self,
        activation_bits: int | None = None,
        input_bits: int | None = None,
        raw_unit: float | None = None,
    ) -> Any:
        """Return the integer network, which takes raw inputs and standardises them itself.

        Args:
            activation_bits, input_bits: for a `Network`, see `HadamRNNRegressor.quantize`; a reservoir
                always has states of 16 bits and inputs of 12.
            raw_unit: the value of one raw code. The default is 1 if the training data are whole numbers, else
                a power of two well below their deviation; it is stored in the model's metadata.
        """
        check_is_fitted(self)
        if not isinstance(self.network_, IntegerReservoir):
            return super().quantize(activation_bits, input_bits, raw_unit)
        if activation_bits is not None or input_bits is not None:
            raise InputError(
                "A reservoir has states of 16 bits and inputs of 12: leave activation_bits and "
                "input_bits out."
            )
        network = self.network_
        inputs = SeriesEncoding.reaching(network.input_scale, self.scaling_, raw_unit)
        return replace(
            network,
            **inputs.fields,
            metadata={
                "raw_unit": inputs.raw_unit,
                "estimator": type(self).__name__,
                **self._output_metadata(network.logit_scale),
                **self._identity(),
            },
        )

    @property
    def cost_(self) -> Cost:
        """The bytes of the weights and the operations of one step."""
        check_is_fitted(self)
        if not isinstance(self.network_, IntegerReservoir):
            return super().cost_
        return cost_of(self._counted.pool)

    @property
    def kept_(self) -> list[str]:
        """A description of each feature of a reservoir, in the order of its integers."""
        check_is_fitted(self)
        if not isinstance(self.network_, IntegerReservoir):
            raise AttributeError("Only a reservoir has kept features.")
        return self._counted.pool.names()

    @abstractmethod
    def _output_size(self, outputs: int) -> int:
        """Return the number of outputs of the network for a target of this size."""

    @staticmethod
    def default_bytes(outputs: int) -> int:
        """Return the default `max_bytes` for a reservoir with this many classes."""
        return DEFAULT_BYTES + MORE_BYTES * max(0, outputs - DEFAULT_OUTPUTS)

    def _solver(self) -> str:
        """Return the solver; "count" unless another is named or implied by a parameter."""
        parameters, solver = self._parameters(), super()._solver()
        asks = [name for name in SHAPE if getattr(parameters, name) is not None]
        asks += ["recurrence"] if parameters.recurrence != "linear" else []
        can = not asks and parameters.weight_bits in COUNTED_BITS
        if self.solver == "auto" and solver == "ridge" and can:
            solver = "count"
        if solver == "count" and not can:
            raise InputError(
                f'solver="count" takes weight_bits 2..8 and no {", ".join(SHAPE)} or recurrence, got '
                f"weight_bits {parameters.weight_bits!r} and {asks}. Leave them out."
            )
        return solver

    def _outputs(self, X: Any) -> Floats:
        check_is_fitted(self)
        if not isinstance(self.network_, IntegerReservoir):
            return super()._outputs(X)
        series = read_series(self, X, reset=False)
        codes = self._counted.plan.inputs.codes(self.scaling_, series)
        logits = self.network_.run(codes, series.steps_each()).logits
        outputs: Floats = logits.astype(np.float64) * self.network_.logit_scale
        return outputs

    def _fit_ridge(self, samples: Samples, target: Target, seed: int, *, search: bool = True) -> None:
        if self._solver() != "count":
            super()._fit_ridge(samples, target, seed, search=search)
            return
        default = self.default_bytes(target.values.shape[1])
        (counted,) = self._fit_sizes(samples, target, seed, [self._parameters().max_bytes or default])
        self._keep_counted(counted)

    def _fit_sizes(self, samples: Samples, target: Target, seed: int, sizes: list[int]) -> list[Counted]:
        """Fit a network for each size, in descending order."""
        parameters, outputs = self._parameters(), target.values.shape[1]
        bits = parameters.weight_bits
        if bits == "auto":
            bits = BITS_OF_MANY if outputs > DEFAULT_OUTPUTS else BITS
        # With more series, stretches of consecutive ones are left out, so their order must not change.
        if len(samples) <= SEARCH_SERIES:
            order = samples.order()
            samples, target = samples.at(order), target.at(torch.from_numpy(order))
        self.scaling_ = Scaling.of(samples.series, samples.weights)
        inputs = SeriesEncoding.of(self.scaling_, samples.series)
        network = Reservoir(
            samples.series.channels,
            output_size=self._output_size(outputs),
            weight_bits=bits,
            input_bits=INPUT_BITS,
        )
        plan = FitPlan(network, inputs, sizes, parameters.max_ram)
        codes = inputs.codes(self.scaling_, samples.series)
        with threads(self.n_jobs):
            return fit_counted(codes, samples.series.steps_each(), target, plan, seed, self._log)

    def _refit(self, stream: SampleStream, others: Samples) -> None:
        """Refit the read-out with further series of a stream; the features stay fixed."""
        if not isinstance(self.network_, IntegerReservoir):
            super()._refit(stream, others)
            return
        counted, kept = self._counted, stream.kept
        assert kept is not None
        pool, plan = counted.pool, counted.plan

        def codes(part: Samples) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
            return plan.inputs.codes(self.scaling_, part.series), part.series.steps_each()

        with threads(self.n_jobs):
            if len(others):
                more = moments_of(pool, *codes(others), self._target(others, reset=False))
                stream.others = more if stream.others is None else stream.others + more
            target = self._target(kept, reset=False)
            self._keep_counted(with_readout(pool, *codes(kept), target, plan, stream.others))

    def _keep_counted(self, counted: Counted) -> None:
        self._counted = counted
        self.network_, self.config_ = counted.network, counted.network.network
        self.penalty_ = counted.penalty
        self._quantized = None


def plot_path(path: Sequence[SeriesEstimator], X: Any, y: Any, axes: Any = None) -> Any:
    """Plot each estimator's accuracy on X and y against its bytes, and return matplotlib's axes.

    Args:
        path: estimators from `fit_path`.
        X, y: series and labels that the estimators were not fitted to.
        axes: matplotlib axes to draw into; by default, of a new figure.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing_package("Plots", error.name, "plots") from error
    if not path:
        raise InputError("path must hold the estimators that fit_path returns, got none.")
    axes = Figure().subplots() if axes is None else axes
    sizes = [each.cost_.bytes for each in path]
    axes.plot(sizes, [100 * each.score(X, y) for each in path], marker="o")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xlabel("bytes of weights")
    axes.set_ylabel("accuracy, %")
    return axes
