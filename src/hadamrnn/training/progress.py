"""How a run is watched: a bar on a terminal, plain lines elsewhere, or nothing."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import TextIO

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from hadamrnn.data.splits import Metric

REFRESH_SECONDS = 0.2


@dataclass(frozen=True)
class MetricsRow:
    """One row of metrics.jsonl. `loss` is the mean and `flips` the number of sign changes since the last."""

    step: int
    epoch: float
    loss: float
    validation_metric: float | None
    flips: int
    learning_rate: float
    seconds: float


class Watcher:
    """Shows nothing; the base of those that do. One watcher may follow several runs, one after another."""

    def remark(self, line: str) -> None:
        """Something about the run that people should know, before it starts."""

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        """The run starts after `step` of its `total_steps` steps, which are `epochs` epochs."""

    def advance(self, step: int, loss: float) -> None:
        """A step was made."""

    def row(self, row: MetricsRow, best: bool) -> None:
        """A validation was made; `best` says whether its model is the best so far."""

    def close(self) -> None:
        """The run has ended, one way or another."""


class Lines(Watcher):
    """One line for each validation."""

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
    """One bar with epoch, loss, metric, flips and the time left."""

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


def show_metric(metric: Metric, value: float) -> str:
    """Return a metric as people read it.

    >>> show_metric("accuracy", 0.9512), show_metric("cross_entropy", 1.64e-7)
    ('accuracy 95.12 %', 'cross_entropy 1.64e-07')
    """
    return f"accuracy {100 * value:.2f} %" if metric == "accuracy" else f"{metric} {value:.4g}"


def show_validation(metric: Metric, row: MetricsRow, best: bool) -> str:
    """Return the metric of a row and two spaces, or nothing if it has none."""
    if row.validation_metric is None:
        return ""
    return f"validation {show_metric(metric, row.validation_metric)}{' *' if best else ''}  "


def show_flips(row: MetricsRow) -> str:
    """Return how many signs of W flipped and two spaces, or nothing if none did."""
    return f"flips {row.flips}  " if row.flips else ""


def choose_watcher(quiet: bool) -> Watcher:
    """Return a bar if standard error is a terminal, else lines; nothing if `quiet`."""
    if quiet:
        return Watcher()
    return Bar() if sys.stderr.isatty() else Lines()
