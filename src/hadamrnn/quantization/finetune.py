"""Quantization-aware fine-tuning: the forward pass runs in integers, the gradient passes straight through.

    y = f(theta) + stop(f_int(theta) - f(theta))

The value of y is exactly the integer network's logits, its gradient the float network's. For a linear
recurrence that is the straight-through gradient of every rounding at every step, because rounding counts
as the identity and W does not change. Signs are held; U, V, the biases, an embedding and the gains and
offsets of normalisation learn. Its statistics are constants of the integers, so f runs in evaluation mode.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from hadamrnn.data.splits import Metric, Split, Splits
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.nn.loss import target_loss
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.network import IntegerNetwork
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import evaluate, is_better
from hadamrnn.training.loop import fit
from hadamrnn.training.objective import Objective

Lower = Callable[[SequenceModel], IntegerModel]

RECIPE = TrainingConfig("finetune", steps=200, evaluate_every=50, sign_freeze_epoch=0)


class IntegerObjective(Objective):
    """The loss and the metric of the integer network that `lower` makes of a float one."""

    def __init__(self, model: SequenceModel, lower: Lower) -> None:
        super().__init__(model)
        self._lower = lower

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        was_training = self.model.training
        logits = integer_logits(self.model.eval(), self._lower(self.model), x, lengths)
        self.model.train(was_training)
        return target_loss(logits, target)

    def score(self, model: SequenceModel, split: Split, metric: Metric) -> float:
        return evaluate(IntegerNetwork(self._lower(model)), split, metric)


def finetune(
    model: SequenceModel, splits: Splits, lower: Lower, recipe: TrainingConfig = RECIPE
) -> SequenceModel:
    """Return a copy of `model` that does better in integers, or an equal one: it is never worse.

    Args:
        model: the trained float network; it stays as it is.
        splits: its task; validation data say what is better.
        lower: makes the integer network of a float one, with a fixed calibration.
        recipe: how long and how fast.
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
