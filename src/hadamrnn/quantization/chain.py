"""Quantize a network for a task: calibrate on training and validation data, lower, and fine-tune.

    integer = quantize(model, splits, QuantizeConfig(activation_bits=12))
    fixedpoint.save(integer, "model.int.safetensors")

The test set is never used here. In fine-tuning the forward pass runs in integers, and the gradient is
straight-through:

    y = f(theta) + stop(f_int(theta) - f(theta))

The value of y is exactly the integer network's logits, and its gradient is the float network's. For a linear
recurrence, that is the straight-through gradient of every rounding at every step, because rounding is treated
as the identity and W does not change. Signs are frozen; U, V, the biases, the embedding, and the gains and
offsets of normalisation are trained. Normalisation statistics are constants in the integer network, so f runs
in evaluation mode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.splits import Metric, Split, Splits
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import IntegerBase, class_metadata
from hadamrnn.fixedpoint.encoding import encode_inputs, target_metadata
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.nn.interface import evaluating
from hadamrnn.nn.model import SequenceModel, target_loss
from hadamrnn.nn.normalization import counted
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.calibration import Calibration, RawInputs, calibrate
from hadamrnn.quantization.lowering import lower
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import Objective, evaluate, is_better
from hadamrnn.training.loop import fit

Lower = Callable[[SequenceModel], IntegerModel]

ROWS_AT_ONCE = 256
RECIPE = TrainingConfig("finetune", steps=200, evaluate_every=50, sign_freeze_epoch=0)


def input_codes(model: IntegerBase, x: Tensor) -> tuple[NDArray[Any], int]:
    """Return a batch of a task as codes or ids for `model`, and the number of saturated inputs."""
    inputs = x.detach().cpu().numpy()
    return encode_inputs(model, inputs) if model.input_kind == "dense" else (inputs, 0)


class IntegerNetwork:
    """A torch module that runs an `IntegerModel`, with the inputs of `SequenceModel` and float64 logits.

    The integer engine computes everything. `saturations` counts clipped state entries, `input_saturations`
    clipped inputs.
    """

    def __init__(self, model: IntegerModel, threads: int | None = None) -> None:
        self.model = model
        self.saturations = 0
        self.input_saturations = 0
        self._engine = Engine(model)
        self._threads = threads

    def __call__(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        if lengths is not None and self.model.input_kind == "dense":
            # Padding is never read, so it must not count as clipped input.
            x = x.masked_fill(~counted(x, lengths)[:, :, None], 0)
        codes, clipped = input_codes(self.model, x)
        self.input_saturations += clipped
        result = self._engine.run(codes, None if lengths is None else lengths.numpy(), self._threads)
        self.saturations += result.saturations
        return torch.from_numpy(result.logits).double() * self.model.logit_scale


class IntegerObjective(Objective):
    """The loss and the metric of the integer network that `lower` derives from a float network."""

    def __init__(self, model: SequenceModel, lower: Lower) -> None:
        super().__init__(model)
        self._lower = lower

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        with evaluating(self.model):
            logits = integer_logits(self.model, self._lower(self.model), x, lengths)
        return target_loss(logits, target)

    def score(self, model: SequenceModel, split: Split, metric: Metric) -> float:
        return evaluate(IntegerNetwork(self._lower(model)), split, metric)


def finetune(
    model: SequenceModel, splits: Splits, lower: Lower, recipe: TrainingConfig = RECIPE
) -> SequenceModel:
    """Return a fine-tuned copy of `model`, or an unchanged copy if that is better in integers.

    Args:
        model: the trained float network, which is not modified.
        splits: its task, whose validation data selects the result.
        lower: function from a float network to an integer network, with a fixed calibration.
        recipe: number of epochs and learning rate.
    """
    tuned = copy.deepcopy(model)
    objective = IntegerObjective(tuned, lower)
    before = objective.score(model, splits.validation, splits.metric)
    wide = model.readout.weight.dtype == torch.float64
    outcome = fit(tuned, splits, replace(recipe, dtype="float64" if wide else "float32"), objective=objective)
    assert outcome.best_metric is not None  # the last step is always validated
    better = is_better(splits.metric, outcome.best_metric, before)
    return (outcome.model if better else copy.deepcopy(model)).train(model.training)


def integer_logits(
    model: SequenceModel, integer: IntegerModel, x: Tensor, lengths: Tensor | None = None
) -> Tensor:
    """Return the logits of `integer`, with the gradient of `model`'s."""
    logits: Tensor = model(x, lengths)
    exact: Tensor = IntegerNetwork(integer)(x, lengths).to(logits.dtype)
    # exact + 0: logits + (exact - logits) would not return exact to the last bit.
    return exact + (logits - logits.detach())


def quantize(model: SequenceModel, splits: Splits, config: QuantizeConfig) -> IntegerModel:
    """Return the integer network of a float network, which is fine-tuned first if requested.

    Its metadata has the class names, unless they are very long, or the units of the targets, so that C and
    JavaScript can return values.
    """
    raw = raw_inputs(splits, config.raw_unit)
    named = class_metadata(splits.class_names)

    def calibrated(network: SequenceModel) -> Calibration:
        batches = calibration_batches((splits.train, splits.validation), config.calibration_samples)
        return calibrate(network, batches, config.percentile)

    def lowered(network: SequenceModel, calibration: Calibration) -> IntegerModel:
        integer = lower(
            network,
            calibration,
            activation_bits=config.activation_bits,
            input_bits=config.input_bits,
            raw=raw,
            metadata=named,
        )
        if splits.targets is None:
            return integer
        units = np.array(splits.targets.scale) * integer.logit_scale, splits.targets.offset
        return replace(integer, metadata={**integer.metadata, **target_metadata(*units)})

    calibration = calibrated(model)
    if config.finetune is None:
        return lowered(model, calibration)
    tuned = finetune(model, splits, lambda network: lowered(network, calibration), config.finetune)
    # The tuned network has different ranges, so try a new calibration as well as the fixed one.
    candidates = [lowered(tuned, found) for found in (calibration, calibrated(tuned))]
    scores = [evaluate(IntegerNetwork(found), splits.validation, splits.metric) for found in candidates]
    return candidates[int(is_better(splits.metric, scores[1], scores[0]))]


def raw_inputs(splits: Splits, unit: float | None = None) -> RawInputs | None:
    """Return the meaning of this task's raw sensor codes: pixels k / levels, or multiples of `unit`.

    The default unit is the task's, which is 1 if the training data are whole numbers.
    """
    if unit is not None and (splits.vocabulary_size is not None or splits.levels is not None):
        raise InputError(f"A raw unit is for real values; {splits.task} has its own codes. Leave it out.")
    if splits.vocabulary_size is not None:
        return None
    if splits.levels is not None:
        return RawInputs(levels=splits.levels)
    unit = splits.raw_unit if unit is None else unit
    if unit is None and splits.offset is None:
        return None
    offset = torch.zeros(splits.input_size) if splits.offset is None else splits.offset
    scale = torch.ones(splits.input_size) if splits.scale is None else splits.scale
    return RawInputs.standardised(offset, scale, unit)


def calibration_batches(parts: Sequence[Split], samples: int) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield `(x, lengths)` of at most `samples` rows, evenly spaced over the parts."""
    stride = max(1, -(-sum(len(part) for part in parts) // max(1, samples)))
    for part in parts:
        for index in torch.arange(0, len(part), stride).split(ROWS_AT_ONCE):
            x, _, lengths = part.batch(index)
            yield x, lengths
