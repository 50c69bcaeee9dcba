"""Train an estimator's network by gradients, using the library's trainer. Start at `train`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.model_selection import GroupShuffleSplit, train_test_split
from threadpoolctl import threadpool_limits
from torch import Tensor

from hadamrnn.data.splits import Metric, Split, Splits
from hadamrnn.estimators.target import LabelTarget, Target
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import Objective, predict_logits
from hadamrnn.training.loop import Outcome, choose_watcher, fit

PASSES, FEWEST_STEPS, MOST_STEPS = 30, 300, 10_000  # for max_steps="auto"
EVALUATE_EVERY = 20  # steps between evaluations of the loss, or one pass through the data if longer
Loss = Callable[[Tensor, Tensor], Tensor]


class SeriesObjective(Objective):
    """The loss to minimise, a mean over samples, which is also evaluated on held-out samples.

    `losses` has the loss of every step.
    """

    def __init__(self, model: SequenceModel, loss: Loss) -> None:
        super().__init__(model)
        self._loss = loss
        self.losses: list[float] = []

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        loss = self._loss(self.model(x, lengths), target)
        self.losses.append(loss.item())
        return loss

    def score(self, model: SequenceModel, split: Split, metric: Metric) -> float:
        assert split.y is not None
        return float(self._loss(predict_logits(model, split), split.y))


@contextmanager
def threads(n_jobs: int | None) -> Iterator[None]:
    """Set torch's number of threads for calls from this thread; other threads keep their number."""
    torch.get_num_threads()  # torch initialises a thread's setting on the first call, so call it now
    with threadpool_limits(effective_n_jobs(n_jobs), user_api="openmp"):
        yield


def train(
    parameters: Any, network: SequenceModel, samples: Split, target: Target, config: TrainingConfig
) -> tuple[Outcome, list[float]]:
    """Train a network by an estimator's validated parameters; return the outcome and the loss of each step.

    Args:
        network: the model, with initial weights that training changes.
        samples: standardised series.
        target: target of the outputs.
        config: a result of `recipe`.
    """
    indexed = Split(samples.x, torch.arange(len(samples)), samples.lengths)
    held_out = parameters.validation_fraction if parameters.early_stopping else 0.0
    splits = _splits(indexed, target, held_out, config)
    watcher = choose_watcher(quiet=not parameters.verbose)
    objective = SeriesObjective(network, target.loss)
    outcome = fit(network, splits, config, objective=objective, watcher=watcher)
    return outcome, objective.losses


def recipe(parameters: Any, name: str, samples: int, seed: int) -> TrainingConfig:
    """Return the recipe of an estimator's validated parameters for this number of samples."""
    each_pass = samples // parameters.batch_size
    automatic = min(max(FEWEST_STEPS, PASSES * samples // parameters.batch_size), MOST_STEPS)
    return TrainingConfig(
        task=name,
        steps=automatic if parameters.max_steps == "auto" else parameters.max_steps,
        evaluate_every=max(EVALUATE_EVERY, each_pass),
        batch_size=parameters.batch_size,
        learning_rate=parameters.learning_rate,
        sign_freeze_epoch=0,
        input_noise=parameters.input_noise,
        patience=parameters.n_iter_no_change if parameters.early_stopping else None,
        tolerance=parameters.tol,
        seed=seed,
    )


def _splits(samples: Split, target: Target, held_out: float, config: TrainingConfig) -> Splits:
    """Return the samples as a task, with the fraction `held_out` as validation data."""
    kept, held = np.arange(len(samples)), np.arange(0)
    is_labelled = isinstance(target, LabelTarget)
    if held_out:
        strata = target.values.argmax(1).numpy() if is_labelled else None
        if strata is not None and np.unique(strata, return_counts=True)[1].min() < 2:
            strata = None  # a class with only one sample cannot be stratified
        if target.owners is None:
            kept, held = train_test_split(kept, test_size=held_out, stratify=strata, random_state=config.seed)
        else:
            splitter = GroupShuffleSplit(1, test_size=held_out, random_state=config.seed)
            kept, held = next(splitter.split(kept, groups=target.owners.numpy()))
    train_part, validation = _rows(samples, np.sort(kept)), _rows(samples, np.sort(held))
    return Splits(
        config.task,
        train_part,
        validation,
        validation,
        samples.x.shape[1],
        samples.x.shape[2],
        target.values.shape[1],
        metric="cross_entropy" if is_labelled else "mse",
    )


def _rows(samples: Split, index: NDArray[np.int64]) -> Split:
    return Split(*samples.batch(torch.from_numpy(index)))
