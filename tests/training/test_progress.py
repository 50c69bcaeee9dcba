from __future__ import annotations

import io
import time
from pathlib import Path

import pytest
from rich.console import Console

from hadamrnn.training.evaluate import MetricsRow
from hadamrnn.training.loop import Bar, Lines, Watcher, choose_watcher

ROW = MetricsRow(
    step=20, epoch=2.0, loss=0.25, validation_metric=0.9, flips=7, learning_rate=1e-3, seconds=1.5
)


def wait_for_the_clock() -> None:
    """Wait until the clock has advanced, because some clocks are coarse and a speed needs elapsed time."""
    start = time.monotonic()
    while time.monotonic() == start:
        pass


def test_the_bar_shows_epoch_loss_metric_flips_and_time_left() -> None:
    stream = io.StringIO()
    bar = Bar(Console(file=stream, force_terminal=True, width=120))
    bar.start(step=0, total_steps=100, epochs=10, metric="accuracy")
    wait_for_the_clock()
    bar.advance(10, 0.5)
    wait_for_the_clock()
    bar.row(ROW, best=True)
    bar.close()

    shown = stream.getvalue()
    for part in ("epoch 2.00/10", "loss 0.25", "accuracy 90.00 % *", "flips 7", "left", ":00"):
        assert part in shown


def test_lines_show_the_same_one_row_each() -> None:
    stream = io.StringIO()
    lines = Lines(stream)
    lines.start(step=0, total_steps=100, epochs=10, metric="accuracy")
    lines.advance(10, 0.5)
    lines.row(ROW, best=False)

    (line,) = stream.getvalue().splitlines()
    for part in ("epoch 2/10", "loss 0.25", "accuracy 90.00 %", "flips 7", "left 0:00"):
        assert part in line


def test_quiet_and_redirected_runs_have_no_bar(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert type(choose_watcher(quiet=True)) is Watcher
    with (tmp_path / "log").open("w") as log:
        monkeypatch.setattr("sys.stderr", log)
        assert isinstance(choose_watcher(quiet=False), Lines)
