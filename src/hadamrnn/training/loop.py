"""The loop: steps, validations, checkpoints. Start at `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from hadamrnn.data.splits import Splits
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import Objective
from hadamrnn.training.folder import RunFolder
from hadamrnn.training.progress import Watcher
from hadamrnn.training.trainer import Diverged, Trainer

CHECKPOINT_SECONDS = 30.0


@dataclass(frozen=True)
class Outcome:
    """How a run ended; `finished` is False if it was asked to stop."""

    model: SequenceModel
    finished: bool
    step: int
    best_metric: float | None
    best_step: int
    seconds: float


def fit(
    model: SequenceModel,
    splits: Splits,
    config: TrainingConfig,
    *,
    watcher: Watcher | None = None,
    objective: Objective | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train `model` in place and return the outcome, with the best model by validation.

    Args:
        watcher: shows the progress.
        objective: see `Trainer`.
        stop: asked after every step; True ends the training.
    """
    return run_trainer(Trainer(model, splits, config, objective=objective), watcher=watcher, stop=stop)


def run_trainer(
    trainer: Trainer,
    folder: RunFolder | None = None,
    *,
    watcher: Watcher | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Run a trainer from its start, or from the checkpoint in `folder`, until it ends or is stopped.

    Args:
        folder: where rows, checkpoints and the best model go; the first of several processes writes them.
        checkpoint_seconds: between checkpoints; does not change the result.
        stop: asked after every step; True ends the run with a checkpoint (several processes: soon after).
    """
    if folder is not None:
        folder.restore(trainer)
    if trainer.processes.rank > 0:
        folder, watcher = None, None
    if folder is not None:
        folder.begin(trainer)
    watcher = watcher or Watcher()
    counters, schedule = trainer.counters, trainer.schedule
    epochs = schedule.total_steps / schedule.steps_per_epoch
    watcher.start(counters.step, schedule.total_steps, epochs, trainer.splits.metric)
    began = saved = time.monotonic()
    before = counters.seconds
    try:
        while not trainer.finished:
            loss = trainer.step()
            now = time.monotonic()
            counters.seconds = before + now - began
            watcher.advance(counters.step, loss)
            if schedule.ends_row(counters.step):
                row, best = trainer.validate()
                if folder is not None:
                    folder.append(row, counters)
                watcher.row(row, best)
                counters.seconds = before + time.monotonic() - began
            stopping = trainer.processes.agree(stop(), counters.step)
            if folder is not None and (trainer.finished or stopping or now - saved >= checkpoint_seconds):
                folder.save(trainer)
                saved = time.monotonic()
            if stopping:
                break
    except Diverged as error:
        raise Diverged(f"Training diverged: {error}. {_keep_best(trainer, folder)}") from error
    finally:
        watcher.close()
        if folder is not None:
            folder.close()
    return Outcome(
        model=trainer.best_model(),
        finished=trainer.finished,
        step=counters.step,
        best_metric=counters.best_metric,
        best_step=counters.best_step,
        seconds=counters.seconds,
    )


def _keep_best(trainer: Trainer, folder: RunFolder | None) -> str:
    """Write the best model of a run that diverged, and return a line about it."""
    advice = "Try a smaller learning_rate, or a gradient_clip."
    if not trainer.best:
        return f"There had been no validation yet, so no model was kept. {advice}"
    if folder is not None:
        folder.save_model(trainer)
    return f"The best model, of step {trainer.counters.best_step}, was kept. {advice}"
