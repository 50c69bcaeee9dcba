"""Run the training loop: steps, validations, checkpoints and watchers. Start at `run_trainer`.

`decide_levels` trains a network several times to choose how to augment levels.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from types import MappingProxyType
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hadamrnn.data.splits import Metric, Splits
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import MetricsRow, Objective, show_metric
from hadamrnn.training.folder import RunFolder
from hadamrnn.training.models import build
from hadamrnn.training.trainer import Diverged, Trainer

CHECKPOINT_SECONDS = 30.0
REFRESH_SECONDS = 0.2
# In standard deviations of a channel. The first uses the recipe's masked channels, the others do not.
LEVELS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "each channel alone": {"channel_offset": 1.0},
        "all channels alike": {"channel_offset": 0.0, "channel_mask": 0, "level_offset": 1.0},
        "none": {"channel_offset": 0.0, "channel_mask": 0},
    }
)


@dataclass(frozen=True)
class Outcome:
    """The result of training; `finished` is False if it was stopped."""

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
    """Train `model` in place and return the outcome, which has the best model by validation.

    Args:
        watcher: shows the progress.
        objective: see `Trainer`.
        stop: called after every step; if it returns True, training ends.
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
    """Run a trainer from its current state until it ends or is stopped.

    Args:
        folder: where to write rows, checkpoints and the best model; only the first process writes.
        checkpoint_seconds: time between checkpoints; does not change the result.
        stop: called after every step; if it returns True, the run ends with a checkpoint (if there are
            several processes, within some steps).
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


class Watcher:
    """A watcher that shows nothing, the base class of the others. It may follow several runs in turn."""

    def remark(self, line: str) -> None:
        """Show a remark about the run before it starts."""

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        """Start watching a run after `step` of `total_steps` steps, or `epochs` epochs."""

    def advance(self, step: int, loss: float) -> None:
        """Show that a step was made."""

    def row(self, row: MetricsRow, best: bool) -> None:
        """Show a validation; `best` is whether its model is the best so far."""

    def close(self) -> None:
        """Clean up after the run, even after an error."""


class Lines(Watcher):
    """A watcher that prints one line for each validation."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr

    def remark(self, line: str) -> None:
        print(line, file=self._stream, flush=True)

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        self._first, self._total, self._began = step, total_steps, time.monotonic()
        self._epochs = epochs
        self._metric = metric

    def row(self, row: MetricsRow, best: bool) -> None:
        pace = (time.monotonic() - self._began) / max(row.step - self._first, 1)
        print(
            f"epoch {row.epoch:g}/{self._epochs:g}  step {row.step}  loss {row.loss:.4g}  "
            f"{show_validation(self._metric, row, best)}{show_flips(row)}"
            f"learning rate {row.learning_rate:.2g}  {row.seconds:.1f} s  "
            f"left {timedelta(seconds=round(pace * (self._total - row.step)))}",
            file=self._stream,
            flush=True,
        )


class Bar(Watcher):
    """A watcher with a progress bar: epoch, loss, metric, flips and remaining time."""

    def __init__(self, console: Console | None = None) -> None:
        self._console = console or Console(stderr=True)

    def remark(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        columns = (
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(),
            TextColumn("{task.fields[status]}"),
            TextColumn("left"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=self._console)
        self._steps_per_epoch, self._epochs, self._metric = total_steps / epochs, epochs, metric
        self._shown, self._validated = 0.0, "no validation yet"
        self._task = self._progress.add_task("train", total=total_steps, completed=step, epoch="", status="")
        self._progress.start()

    def advance(self, step: int, loss: float) -> None:
        now = time.monotonic()
        if now - self._shown < REFRESH_SECONDS:
            return
        self._shown = now
        self._progress.update(
            self._task,
            completed=step,
            epoch=f"{step / self._steps_per_epoch:.2f}/{self._epochs:g}",
            status=f"loss {loss:.4g}  {self._validated}",
        )

    def row(self, row: MetricsRow, best: bool) -> None:
        self._validated = f"{show_validation(self._metric, row, best)}{show_flips(row)}"
        self._shown = 0.0
        self.advance(row.step, row.loss)

    def close(self) -> None:
        self._progress.stop()


def show_validation(metric: Metric, row: MetricsRow, best: bool) -> str:
    """Format the metric of a row, followed by two spaces; empty without a metric."""
    if row.validation_metric is None:
        return ""
    return f"validation {show_metric(metric, row.validation_metric)}{' *' if best else ''}  "


def show_flips(row: MetricsRow) -> str:
    """Format the number of flipped signs, followed by two spaces; empty if there are none."""
    return f"flips {row.flips}  " if row.flips else ""


def choose_watcher(quiet: bool) -> Watcher:
    """Return a bar if standard error is a terminal, otherwise lines; a silent watcher if `quiet`."""
    if quiet:
        return Watcher()
    return Bar() if sys.stderr.isatty() else Lines()


def decide_levels(
    config: TrainingConfig,
    splits: Splits,
    watcher: Watcher | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingConfig:
    """Return the configuration with whichever of `LEVELS` validates best, the first one on a tie.

    Offsets help at loads that are missing from training, unless the levels themselves distinguish the
    classes. A network is trained with each choice, stopping after one that makes no validation error.
    """
    if config.channel_offset is not None:
        return config
    chosen, least = replace(config, **next(iter(LEVELS.values()))), float("inf")
    for name, settings in LEVELS.items():
        tried = replace(config, **settings)
        metric = fit(build(tried, splits), splits, tried, stop=stop).best_metric
        if metric is None or stop():
            break
        error = 1 - metric if splits.metric == "accuracy" else metric
        if error < least:
            chosen, least = tried, error
        if watcher is not None:
            shown = show_metric(splits.metric, metric)
            watcher.remark(f"levels      random offsets in training, {name}: validation {shown}")
        if error == 0:
            break
    return chosen
