"""Define the trainer: a model, its optimizer, its counters and the training step."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.interface import Constrained
from hadamrnn.nn.linear import QuantizedLinear
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.normalization import fresh_statistics
from hadamrnn.nn.storage import check_finite
from hadamrnn.settings import Range
from hadamrnn.training.augmentation import augment, check_suited
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import MetricsRow, Objective, is_better
from hadamrnn.training.models import RandomGenerator
from hadamrnn.training.processes import Processes
from hadamrnn.training.schedule import Adam, Schedule, adam_tensors, epoch_order, restore_adam

STATISTICS_SAMPLES = 2048  # samples for the running statistics before a validation

Groups = dict[str, dict[str, Tensor]]

NaturalNumber = Annotated[int, Range(0, 2**63 - 1)]


@dataclass
class Counters:
    """The progress of a run.

    `loss_sum` and `flips` are sums since the last row of metrics.jsonl. The watched metric must fall below
    `level` to count as progress; `idle` counts the rows without progress.
    """

    step: NaturalNumber = 0
    loss_sum: float = 0.0
    flips: NaturalNumber = 0
    seconds: float = 0.0
    best_metric: float | None = None
    best_step: NaturalNumber = 0
    metrics_bytes: NaturalNumber = 0
    level: float | None = None
    idle: int = 0
    metrics_sha256: str | None = None


class Diverged(InputError):
    """Raised if the loss or a weight is no longer finite."""


class Trainer:
    """The state of a run in memory.

    Args:
        model: trained in place.
        splits: the task, whose test split is never used. Without validation samples the last weights are
            kept.
        processes: processes that share the work; by default only this one.
        objective: the loss to minimise and the metric to evaluate weights by; by default the model's own loss
            and the task's metric.
    """

    def __init__(
        self,
        model: SequenceModel,
        splits: Splits,
        config: TrainingConfig,
        processes: Processes | None = None,
        objective: Objective | None = None,
    ) -> None:
        splits.train.check_labelled("Training")
        check_suited(config, splits)
        self.config = config
        self.splits = splits
        self.processes = processes or Processes()
        self.objective = objective or Objective(model)
        self.schedule = Schedule(config, len(splits.train), self.processes.count)
        self.dtype = torch.float64 if config.dtype == "float64" else torch.float32
        self.model = model.to(self.dtype).train()
        self.counters = Counters()
        self.best: dict[str, Tensor] = {}
        self._constrained = [layer for layer in model.modules() if isinstance(layer, Constrained)]
        self._signs = sign_parameters(model)
        self._quantized = quantized_parameters(model)
        for latent in self._signs:  # no gradient for frozen signs, so that the engine can skip it
            latent.requires_grad_(self.schedule.signs_learn(0))
        self._loss = self.processes.loss_function(self.objective)
        self._random = RandomGenerator()
        self._model_is_random = True  # until a step shows that the model draws no random numbers
        learnt = {id(latent) for latent in self._signs}
        others = [parameter for parameter in model.parameters() if id(parameter) not in learnt]
        groups: list[dict[str, Any]] = [
            {"params": others, "weight_decay": config.weight_decay},
            {"params": self._signs, "weight_decay": 0.0},  # weight decay has no meaning for signs
        ]
        betas = (0.9, config.adam_beta2)
        self.optimizer = Adam(groups, lr=config.learning_rate, betas=betas)
        self.average = (
            None
            if config.weight_average is None
            else AveragedModel(self.model, multi_avg_fn=get_ema_multi_avg_fn(config.weight_average))
        )
        order = partial(epoch_order, splits.train, config.seed, balanced=config.balanced)
        self._epoch_order = lru_cache(1)(order)
        self._epoch_order(0)  # before anything is written, refuse labels that cannot be balanced
        self._positive = self._are_positive()

    @property
    def finished(self) -> bool:
        counters, patience = self.counters, self.config.patience
        if counters.step >= self.schedule.total_steps:
            return True
        return patience is not None and counters.idle >= patience

    def step(self) -> float:
        """Make one step of Adam and return the batch's loss before it."""
        step = self.counters.step
        learning = self._set_rates(step)
        self._random.generator.manual_seed(self.schedule.dropout_seed(step, self.processes.rank))
        x, target, lengths = self.splits.train.batch(self._samples(step))
        assert target is not None
        augmented = augment(self._cast(x), self.config, self.splits, self._random.generator, lengths, target)
        loss = self._batch_loss(augmented, self._cast(target), lengths)
        value = loss.item()
        if not math.isfinite(value):
            raise Diverged(f"the loss is {value} at step {step}")
        self.optimizer.zero_grad()
        loss.backward()
        if not learning:
            for latent in self._signs:
                latent.grad = None
        if self.config.gradient_clip is not None:
            nn.utils.clip_grad_norm_(self.model.parameters(), self.config.gradient_clip)
        self.optimizer.step()
        for layer in self._constrained:
            layer.constrain((step + 1) / self.schedule.total_steps)
        self._clip_weights()
        if self.average is not None:
            self.average.update_parameters(self.model)
        if learning:
            self._count_flips()
        self.counters.step = step + 1
        self.counters.loss_sum += value
        return value

    def validate(self) -> tuple[MetricsRow, bool]:
        """Validate; return the row, and whether its model is kept, as the best or the last so far."""
        counters, schedule = self.counters, self.schedule
        try:
            check_finite(self.model)
        except InputError as error:
            raise Diverged(f"a weight is NaN or infinite at step {counters.step}") from error
        model, metric = self._candidate(), self._score(self._candidate())
        if self.average is not None and self.splits.targets is not None and metric is not None:
            # An average over few steps has the wrong scale, which affects values but not classes.
            current = self._score(self.model)
            if current is not None and is_better(self.splits.metric, current, metric):
                model, metric = self.model, current
        steps = counters.step - schedule.row_start(counters.step)
        row = MetricsRow(
            step=counters.step,
            epoch=round(counters.step / schedule.steps_per_epoch, 4),
            loss=self.processes.mean(counters.loss_sum / steps),
            validation_metric=metric,
            flips=counters.flips,
            learning_rate=self.config.learning_rate * schedule.rate_factor(counters.step - 1),
            seconds=round(counters.seconds, 3),
        )
        counters.loss_sum, counters.flips = 0.0, 0
        if self.config.patience is not None and not schedule.may_stop(counters.step):
            return row, False
        self._count_idle(row)
        better = metric is not None and (
            self.config.keep == "last" or is_better(self.splits.metric, metric, counters.best_metric)
        )
        if better:
            counters.best_metric, counters.best_step = metric, counters.step
            self.best = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        return row, better

    def best_model(self) -> SequenceModel:
        """Return a copy of the model with the best weights so far, or the last ones without validation."""
        model = copy.deepcopy(self.model)
        model.load_state_dict(self.best or self._candidate().state_dict())
        return model.eval()

    def state(self) -> Groups:
        """Return all tensors that determine the next step, and the best model's tensors."""
        groups: Groups = {
            "model": dict(self.model.state_dict()),
            "best": self.best,
            **adam_tensors(self.optimizer, self.model),
        }
        if self.average is not None:
            groups["average"] = dict(self.average.state_dict())
        return groups

    def restore(self, groups: Groups, counters: Counters) -> None:
        """Restore a state, from which training continues with the same bits."""
        self.model.load_state_dict(groups["model"])
        restore_adam(self.optimizer, self.model, groups)
        if self.average is not None:
            self.average.load_state_dict(groups["average"])
        self.best = groups.get("best", {})
        self.counters = counters
        self._positive = self._are_positive()

    def _count_idle(self, row: MetricsRow) -> None:
        counters = self.counters
        falls = row.validation_metric is None or self.splits.metric != "accuracy"
        value = row.loss if row.validation_metric is None else row.validation_metric
        level = value if falls else -value
        if counters.level is None or level < counters.level - self.config.tolerance:
            counters.level, counters.idle = level, 0
        else:
            counters.idle += 1

    def _score(self, model: SequenceModel) -> float | None:
        """Update the statistics of a model and return its metric over validation data, if any."""
        self._refresh_statistics(model)
        if not len(self.splits.validation):
            return None
        return self.objective.score(model, self.splits.validation, self.splits.metric)

    def _candidate(self) -> SequenceModel:
        """Return the model to validate: the average of the weights, if used, else the model in training."""
        if self.average is None:
            return self.model
        assert isinstance(self.average.module, SequenceModel)
        return self.average.module

    @torch.no_grad()
    def _refresh_statistics(self, model: SequenceModel) -> None:
        """Recompute the running statistics of a normalised model for its current weights.

        The mean of a feature may be many times its spread, so statistics from earlier weights are wrong after
        a single optimizer step, and for an average of the weights.
        """
        with fresh_statistics(model) as has_statistics, self._random:
            if not has_statistics:
                return
            count = min(len(self.splits.train), STATISTICS_SAMPLES)
            samples = torch.arange(count) * len(self.splits.train) // count  # evenly spaced
            batches = -(-count // self.config.batch_size)
            model.train()
            for batch in range(batches):
                x, _, lengths = self.splits.train.batch(samples[batch::batches])
                model(self._cast(x), lengths)

    def _set_rates(self, step: int) -> bool:
        """Set the learning rates of this step; return whether the signs are trained."""
        factor = self.schedule.rate_factor(step)
        learning = bool(self._signs) and self.schedule.signs_learn(step)
        if not learning and self.processes.count == 1:
            # Several processes must keep the gradient, because they agreed on its parameters when they
            # joined.
            for latent in self._signs:
                latent.requires_grad_(False)
        rate, sign_rate = self.config.learning_rate, self.config.sign_learning_rate
        weights, signs = self.optimizer.param_groups
        weights["lr"] = factor * rate
        signs["lr"] = factor * (rate if sign_rate is None else sign_rate)
        return learning

    def _samples(self, step: int) -> Tensor:
        """Return the samples of this process in this step."""
        epoch, position = divmod(step, self.schedule.steps_per_epoch)
        size = self.schedule.batch_size
        mine = size // self.processes.count
        start = position * size + self.processes.rank * mine
        return self._epoch_order(epoch)[start : start + mine]

    def _cast(self, values: Tensor) -> Tensor:
        return values.to(self.dtype) if values.is_floating_point() else values

    def _batch_loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the loss of a batch; random numbers, such as for dropout, come from the run's generator."""
        if not self._model_is_random:
            return self._loss(x, target, lengths)
        with self._random:
            loss = self._loss(x, target, lengths)
        self._model_is_random = self._random.used
        return loss

    @torch.no_grad()
    def _clip_weights(self) -> None:
        """Clip U and V: the grid covers the largest weight, which would leave few points for the others."""
        if self.config.weight_clip is None:
            return
        for weight in self._quantized:
            limit = self.config.weight_clip * weight.square().mean().sqrt()
            weight.clamp_(-limit, limit)

    def _count_flips(self) -> None:
        positive = self._are_positive()
        self.counters.flips += sum(
            int((now != before).sum()) for now, before in zip(positive, self._positive, strict=True)
        )
        self._positive = positive

    def _are_positive(self) -> list[Tensor]:
        return [latent.detach() >= 0 for latent in self._signs]


def sign_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return the latent signs of all Hadamard cells in a model; empty for other networks."""
    latents = [
        latent
        for cell in model.modules()
        if isinstance(cell, HadamCell)
        for latent in (cell.latent_signs, cell.latent_column_signs)
    ]
    return [latent for latent in latents if latent is not None]


def quantized_parameters(model: nn.Module) -> list[nn.Parameter]:
    """Return U of every Hadamard cell and V."""
    return [
        module.input_weight if isinstance(module, HadamCell) else module.weight
        for module in model.modules()
        if isinstance(module, (HadamCell, QuantizedLinear))
    ]
