"""The loop: steps, validations, checkpoints. Start at `fit`."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from hadamrnn.data.splits import Splits
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import save_model
from hadamrnn.training.checkpoint import check_fits, read_checkpoint, write_checkpoint
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import Objective
from hadamrnn.training.folder import RunFolder
from hadamrnn.training.processes import Processes
from hadamrnn.training.progress import MetricsRow, Watcher
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
    folder: RunFolder | None = None,
    watcher: Watcher | None = None,
    processes: Processes | None = None,
    objective: Objective | None = None,
    checkpoint_seconds: float = CHECKPOINT_SECONDS,
    stop: Callable[[], bool] = lambda: False,
) -> Outcome:
    """Train `model` in place and return the outcome, with the best model by validation.

    Args:
        folder: where rows, checkpoints and the best model go; a checkpoint in it is continued.
        watcher: shows the progress.
        processes, objective: see `Trainer`.
        checkpoint_seconds: between checkpoints; does not change the result.
        stop: asked after every step; True ends the run with a checkpoint (several processes: soon after).
    """
    trainer = Trainer(model, splits, config, processes, objective)
    return Session(trainer, folder, watcher).run(checkpoint_seconds, stop)


class Session:
    """A run in one process, from its start or a checkpoint until it ends or is stopped."""

    def __init__(self, trainer: Trainer, folder: RunFolder | None, watcher: Watcher | None) -> None:
        first = trainer.processes.rank == 0  # one process writes and shows
        self.trainer = trainer
        self.watcher = watcher if watcher and first else Watcher()
        self.source = folder
        self.folder = folder if first else None
        self._events: Any | None = None

    def run(self, checkpoint_seconds: float, stop: Callable[[], bool]) -> Outcome:
        trainer, schedule = self.trainer, self.trainer.schedule
        self._resume()
        counters = trainer.counters
        epochs = schedule.total_steps / schedule.steps_per_epoch
        self.watcher.start(counters.step, schedule.total_steps, epochs, trainer.splits.metric)
        began = saved = time.monotonic()
        before = counters.seconds
        try:
            while not trainer.finished:
                loss = trainer.step()
                now = time.monotonic()
                counters.seconds = before + now - began
                self.watcher.advance(counters.step, loss)
                if schedule.ends_row(counters.step):
                    self._record(*trainer.validate())
                    counters.seconds = before + time.monotonic() - began
                stopping = trainer.processes.agree(stop(), counters.step)
                if trainer.finished or stopping or now - saved >= checkpoint_seconds:
                    self._save()
                    saved = time.monotonic()
                if stopping:
                    break
        except Diverged as error:
            raise Diverged(f"Training diverged: {error}. {self._keep_best()}") from error
        finally:
            self.watcher.close()
            if self._events is not None:
                with suppress(OSError):  # every row was flushed, so nothing is lost
                    self._events.close()
        return Outcome(
            model=trainer.best_model(),
            finished=trainer.finished,
            step=counters.step,
            best_metric=counters.best_metric,
            best_step=counters.best_step,
            seconds=counters.seconds,
        )

    def _resume(self) -> None:
        if self.source is not None and self.source.resume_path.is_file():
            groups, counters = read_checkpoint(self.source.resume_path, self.source.record.identity)
            check_fits(groups, self.trainer.model, self.source.resume_path, self.trainer.average)
            self.trainer.restore(groups, counters)
            self.source.saved_step = self.trainer.counters.step
        if self.folder is not None:
            self.folder.sweep()
            counters = self.trainer.counters
            self.folder.cut_metrics(counters.metrics_bytes, counters.metrics_sha256)
            if self.trainer.finished:
                self._save()  # it may have been killed between writing the checkpoint and the model
            else:
                with self.folder.guarded():
                    self._events = open_events(self.folder.events_path, self.trainer.counters.step)

    def _record(self, row: MetricsRow, best: bool) -> None:
        if self.folder is not None:
            counters = self.trainer.counters
            counters.metrics_bytes, counters.metrics_sha256 = self.folder.append_row(asdict(row))
            if self._events is not None:
                with self.folder.guarded():
                    for name, value in asdict(row).items():
                        if name != "step" and value is not None:
                            self._events.add_scalar(name, value, row.step)
                    self._events.flush()
        self.watcher.row(row, best)

    def _save(self) -> None:
        """Write the checkpoint, then the best model so far; at the end the last one if none was validated."""
        if self.folder is None:
            return
        with self.folder.guarded():
            identity = self.folder.record.identity
            write_checkpoint(self.folder.resume_path, self.trainer.state(), self.trainer.counters, identity)
            self.folder.saved_step = self.trainer.counters.step
            if self.trainer.best or self.trainer.finished:
                save_model(self.trainer.best_model(), self.folder.model_path, self.folder.record.identity)

    def _keep_best(self) -> str:
        """Write the best model of a run that diverged, and return a line about it."""
        advice = "Try a smaller learning_rate, or a gradient_clip."
        if not self.trainer.best:
            return f"There had been no validation yet, so no model was kept. {advice}"
        if self.folder is not None:
            with self.folder.guarded():
                save_model(self.trainer.best_model(), self.folder.model_path, self.folder.record.identity)
        return f"The best model, of step {self.trainer.counters.best_step}, was kept. {advice}"


def open_events(folder: Path, start_step: int) -> Any | None:
    """Return a `SummaryWriter` on a new TensorBoard file in `folder`, or None without tensorboardX.

    TensorBoard drops what earlier files have after `start_step`.
    """
    try:
        from tensorboardX import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=start_step + 1 if start_step else None)
