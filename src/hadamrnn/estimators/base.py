"""What the classifier and the regressor share: the network, its training and its integer form.

A subclass turns y into targets and a loss (`fit`), and outputs into answers (`_answer`).
"""

from __future__ import annotations

import copy
import operator
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from hadamrnn.baselines.networks import KINDS, NEUTRAL, build_model
from hadamrnn.data.splits import Split, Splits
from hadamrnn.errors import InputError
from hadamrnn.estimators.cost import ACTIVATION_BITS, Cost, network_cost
from hadamrnn.estimators.fitting import Curve, Loss, SeriesObjective, threads
from hadamrnn.estimators.folding import raw_network
from hadamrnn.estimators.series import Floats, Scaling, Series, raw_codes, read_series
from hadamrnn.fixedpoint.encoding import encode_raw
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel, Metadata
from hadamrnn.network import HADAMRNN, Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.quantization.calibration import Calibration, calibrate
from hadamrnn.quantization.chain import ROWS_AT_ONCE
from hadamrnn.quantization.lowering import lower
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.draws import Draws
from hadamrnn.training.evaluate import predict_logits
from hadamrnn.training.loop import fit
from hadamrnn.training.presets import model_values
from hadamrnn.training.progress import choose_watcher

CALIBRATION_SAMPLES = 10_000
PASSES, FEWEST_STEPS, MOST_STEPS = 30, 300, 10_000  # of max_steps="auto"
LOOK_STEPS = 20  # least steps between two looks at the loss; a pass through the data if that is longer


@dataclass(eq=False, repr=False)
class SeriesEstimator(BaseEstimator):
    """Everything but the meaning of y; the parameters are documented with `HadamRNNClassifier`."""

    hidden_size: int = 256
    _: KW_ONLY
    num_blocks: int = 1
    weight_bits: int | str | None = 4
    recurrence: str = "linear"
    model: str = HADAMRNN
    max_steps: int | str = "auto"
    batch_size: int = 32
    learning_rate: float = 1e-2
    input_noise: float = 0.2
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 5
    tol: float = 1e-3
    warm_start: bool = False
    n_jobs: int | None = None
    verbose: bool | int = False
    random_state: Any = None

    config_: Network = field(init=False)
    network_: SequenceModel = field(init=False)
    scaling_: Scaling = field(init=False)
    calibration_: Calibration | None = field(init=False)

    @abstractmethod
    def _answer(self, outputs: Floats) -> Any:
        """Return labels or values from the network's outputs `(n, output_size)`."""

    @abstractmethod
    def _target_units(self) -> tuple[Floats, Floats]:
        """Return offset and scale of every output: the user's unit is output * scale + offset."""

    @abstractmethod
    def _output_metadata(self, logit_scale: float) -> Metadata:
        """Return the metadata of an integer network that explains its outputs."""

    def predict(self, X: Any) -> Any:
        """Return the answer for each series of X, from the float network."""
        return self._answer(self._outputs(X))

    def predict_integer(self, X: Any, model: IntegerModel | None = None) -> Any:
        """Return the answers of the integer network: bit for bit what the exported C computes.

        Args:
            X: as for `predict`; the network reads raw codes round(x / raw_unit).
            model: from `quantize`; by default quantized again.
        """
        check_is_fitted(self)
        integer = self.quantize() if model is None else model
        series = read_series(self, X, reset=False)
        codes, _ = encode_raw(integer, raw_codes(series, float(integer.metadata["raw_unit"])))
        logits = Engine(integer).run(codes, series.lengths).logits
        return self._answer(logits.astype(np.float64) * integer.logit_scale)

    def quantize(
        self,
        activation_bits: int = ACTIVATION_BITS,
        input_bits: int | None = None,
        raw_unit: float | None = None,
    ) -> IntegerModel:
        """Return the integer network; it takes raw inputs and standardises them itself.

        Args:
            activation_bits: of states and biases, 6..16.
            input_bits: of standardised inputs; `activation_bits` by default.
            raw_unit: the value of one raw code. By default 1 if the training data are whole numbers, else
                a power of two well below their deviation; the model's metadata holds it.
        """
        check_is_fitted(self)
        if self.calibration_ is None:
            raise InputError(f"Only a {HADAMRNN} has an integer form, and this estimator is a {self.model}.")
        integer = lower(
            self.network_,
            self.calibration_,
            activation_bits=activation_bits,
            input_bits=input_bits,
            raw=self.scaling_.raw_inputs(raw_unit),
        )
        metadata = {"estimator": type(self).__name__, **self._output_metadata(integer.logit_scale)}
        return replace(integer, metadata={**integer.metadata, **metadata})

    def to_c(
        self,
        out: str | Path,
        name: str = "hadamrnn",
        *,
        model: IntegerModel | None = None,
        force: bool = False,
    ) -> Path:
        """Write C of the integer network, with its own build and test, to the new folder `out`."""
        from hadamrnn.export.c import export_c

        return export_c(self.quantize() if model is None else model, out, name, force=force)

    def to_onnx(
        self,
        out: str | Path,
        name: str = "hadamrnn",
        *,
        model: IntegerModel | None = None,
        force: bool = False,
    ) -> Path:
        """Write ONNX of both networks to the new folder `out`.

        The float graphs take X in its own units and return logits, or the values of a regression; the
        integer graphs take input codes.
        """
        from hadamrnn.export.onnx import export_onnx

        integer = self.quantize() if model is None else model
        folded = raw_network(self.network_, self.config_, self.scaling_, *self._target_units())
        return export_onnx(out, name, float_model=folded, integer_model=integer, force=force)

    @property
    def cost_(self) -> Cost:
        """Bytes of weights and operations of one step."""
        check_is_fitted(self)
        return network_cost(self.config_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.three_d_array = True
        tags.target_tags.required = True
        return tags

    def _outputs(self, X: Any) -> Floats:
        """Return the float network's outputs, float64 `(n, output_size)`."""
        check_is_fitted(self)
        series = read_series(self, X, reset=False)
        with threads(effective_n_jobs(self.n_jobs)):
            outputs: Floats = predict_logits(self.network_, self.scaling_.split(series, np.float64)).numpy()
        return outputs

    def _train(
        self, series: Series, target: torch.Tensor, output_size: int, loss: Loss, strata: NDArray[Any] | None
    ) -> None:
        """Fit the network to targets; a warm start continues with the present one."""
        seed = int(check_random_state(self.random_state).randint(2**31))
        warm = self.warm_start and hasattr(self, "network_")
        config = self._model_config(series.channels, output_size)
        if warm and self.config_ != config:
            raise InputError(
                "A warm start needs a network of the same shape, got "
                f"{config} after {self.config_}. Set warm_start=False."
            )
        scaling = self.scaling_ if warm else Scaling.of(series)
        samples = scaling.split(series, np.float32, target)
        splits = self._splits(samples, config, strata, seed)
        recipe = self._recipe(len(series), seed)
        with Draws(seed):
            network = copy.deepcopy(self.network_).float() if warm else build_model(config)
        curve = Curve(choose_watcher(quiet=not self.verbose))
        with threads(effective_n_jobs(self.n_jobs)):
            objective = SeriesObjective(network, loss)
            outcome = fit(network, splits, recipe, objective=objective, watcher=curve)
        # Answers in float64 do not depend on how samples are batched.
        self.network_ = outcome.model.double()
        self.config_ = config
        self.scaling_ = scaling
        self.n_iter_ = outcome.step
        self.loss_curve_ = curve.losses
        self.calibration_ = _calibrate(self.network_, samples)

    def _model_config(self, channels: int, output_size: int) -> Network:
        """Return the network; a baseline gets only the settings it has."""
        given: dict[str, Any] = {
            "num_blocks": operator.index(self.num_blocks),
            "weight_bits": self.weight_bits,
            "recurrence": self.recurrence,
        }
        if self.model in KINDS:
            given = {name: value for name, value in given.items() if name in KINDS[self.model].reads}
            given.setdefault("weight_bits", NEUTRAL["weight_bits"])
        return Network(channels, operator.index(self.hidden_size), output_size, model=self.model, **given)

    def _recipe(self, samples: int, seed: int) -> TrainingConfig:
        """Return the recipe for this number of samples."""
        batch_size = operator.index(self.batch_size)
        if isinstance(self.max_steps, str):
            if self.max_steps != "auto":
                raise InputError(f"max_steps must be a number or 'auto', got {self.max_steps!r}.")
            steps = min(max(FEWEST_STEPS, PASSES * samples // max(1, batch_size)), MOST_STEPS)
        else:
            steps = operator.index(self.max_steps)
        return TrainingConfig(
            task=type(self).__name__,
            steps=steps,
            evaluate_every=max(LOOK_STEPS, samples // max(1, batch_size)),
            batch_size=batch_size,
            learning_rate=float(self.learning_rate),
            gradient_clip=model_values(self.model).get("gradient_clip"),
            sign_freeze_epoch=0,
            input_noise=float(self.input_noise),
            patience=operator.index(self.n_iter_no_change) if self.early_stopping else None,
            tolerance=float(self.tol),
            seed=seed,
        )

    def _splits(self, samples: Split, config: Network, strata: NDArray[Any] | None, seed: int) -> Splits:
        """Return the samples as a task, with the held-out ones as validation data."""
        if self.early_stopping not in (True, False):
            raise InputError(f"early_stopping must be True or False, got {self.early_stopping!r}.")
        kept, held = np.arange(len(samples)), np.arange(0)
        if self.early_stopping:
            if strata is not None and np.unique(strata, return_counts=True)[1].min() < 2:
                strata = None  # a class with one sample cannot be split
            kept, held = train_test_split(
                kept, test_size=self.validation_fraction, stratify=strata, random_state=seed
            )
        train, validation = _rows(samples, np.sort(kept)), _rows(samples, np.sort(held))
        return Splits(
            type(self).__name__,
            train,
            validation,
            validation,
            samples.x.shape[1],
            config.input_size,
            config.output_size,
            metric="mse" if samples.y is not None and samples.y.is_floating_point() else "cross_entropy",
        )


def _rows(samples: Split, index: NDArray[np.int64]) -> Split:
    return Split(*samples.batch(torch.from_numpy(index)))


def _calibrate(network: SequenceModel, samples: Split) -> Calibration | None:
    """Return the ranges of states and inputs over `CALIBRATION_SAMPLES` series; None for a baseline."""
    if not isinstance(network.recurrent, HadamRNN):
        return None
    index = torch.arange(0, len(samples), -(-len(samples) // CALIBRATION_SAMPLES))
    batches = (samples.batch(part) for part in index.split(ROWS_AT_ONCE))
    return calibrate(network, ((x, lengths) for x, _, lengths in batches))
