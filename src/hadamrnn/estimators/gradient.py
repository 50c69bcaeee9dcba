"""The fit by gradients: the one trainer, with the recipe of an estimator's parameters. Start at `train`."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from joblib import effective_n_jobs
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from threadpoolctl import threadpool_limits
from torch import Tensor

from hadamrnn.data.splits import Metric, Split, Splits
from hadamrnn.errors import InputError
from hadamrnn.estimators.reading import whole
from hadamrnn.estimators.ridge import LabelTarget, Target
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import Objective, predict_logits
from hadamrnn.training.loop import Outcome, fit
from hadamrnn.training.progress import choose_watcher

PASSES, FEWEST_STEPS, MOST_STEPS = 30, 300, 10_000  # of max_steps="auto"
EVALUATE_EVERY = 20  # fewest steps between evaluations of the loss; a pass through the data if that is longer
Loss = Callable[[Tensor, Tensor], Tensor]


class SeriesObjective(Objective):
    """Minimises `loss`, a mean over samples, and judges weights by the same loss of held-out samples.

    `losses` are those of all steps.
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
    """Let torch use so many threads when called from this thread; other threads keep their number."""
    torch.get_num_threads()  # the first call in a thread sets its number, so it must come before
    with threadpool_limits(effective_n_jobs(n_jobs), user_api="openmp"):
        yield


def train(
    estimator: Any, network: SequenceModel, samples: Split, target: Target, config: TrainingConfig
) -> tuple[Outcome, list[float]]:
    """Train a network by the parameters of `estimator`; return the outcome and the loss of each step.

    Args:
        network: with the weights to start from; it is changed.
        samples: standardised series.
        target: what the outputs shall be.
        config: from `recipe`.
    """
    indexed = Split(samples.x, torch.arange(len(samples)), samples.lengths)
    splits = _splits(estimator, indexed, target, config.seed)
    watcher = choose_watcher(quiet=not estimator.verbose)
    objective = SeriesObjective(network, target.loss)
    outcome = fit(network, splits, config, objective=objective, watcher=watcher)
    return outcome, objective.losses


def recipe(estimator: Any, samples: int, seed: int) -> TrainingConfig:
    """Return the recipe for this number of samples."""
    batch_size = whole("batch_size", estimator.batch_size)
    if isinstance(estimator.max_steps, str):
        if estimator.max_steps != "auto":
            raise InputError(f"max_steps must be a number or 'auto', got {estimator.max_steps!r}.")
        steps = min(max(FEWEST_STEPS, PASSES * samples // max(1, batch_size)), MOST_STEPS)
    else:
        steps = whole("max_steps", estimator.max_steps, 1)
    patience = whole("n_iter_no_change", estimator.n_iter_no_change, 1) if estimator.early_stopping else None
    return TrainingConfig(
        task=type(estimator).__name__,
        steps=steps,
        evaluate_every=max(EVALUATE_EVERY, samples // max(1, batch_size)),
        batch_size=batch_size,
        learning_rate=float(estimator.learning_rate),
        sign_freeze_epoch=0,
        input_noise=float(estimator.input_noise),
        patience=patience,
        tolerance=float(estimator.tol),
        seed=seed,
    )


def _splits(estimator: Any, samples: Split, target: Target, seed: int) -> Splits:
    """Return the samples as a task, with the held-out ones as validation data."""
    if estimator.early_stopping not in (True, False):
        raise InputError(f"early_stopping must be True or False, got {estimator.early_stopping!r}.")
    kept, held = np.arange(len(samples)), np.arange(0)
    is_labelled = isinstance(target, LabelTarget)
    if estimator.early_stopping:
        if not 0 < estimator.validation_fraction < 1:
            raise InputError(f"validation_fraction must lie in (0, 1), got {estimator.validation_fraction}.")
        strata = target.values.argmax(1).numpy() if is_labelled else None
        if strata is not None and np.unique(strata, return_counts=True)[1].min() < 2:
            strata = None  # a class with one sample cannot be split
        kept, held = train_test_split(
            kept, test_size=estimator.validation_fraction, stratify=strata, random_state=seed
        )
    train_part, validation = _rows(samples, np.sort(kept)), _rows(samples, np.sort(held))
    return Splits(
        type(estimator).__name__,
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
