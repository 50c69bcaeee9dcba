"""From a budget of minutes to a number of epochs or steps, before a run begins.

Stopping a run by the clock would cut off its cosine schedule, and nobody could repeat the result. So this
machine's pace is measured first; the run is then an ordinary one, and its result states its length.
"""

from __future__ import annotations

import time
from dataclasses import replace

import torch

from hadamrnn.data import Splits
from hadamrnn.errors import InputError
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.models import build
from hadamrnn.training.schedule import Schedule
from hadamrnn.training.trainer import Trainer

PILOT_SECONDS = 4.0
PILOT_STEPS = 50


def fit_to_budget(config: TrainingConfig, minutes: float, splits: Splits) -> TrainingConfig:
    """Return `config`, shortened if it would take longer than `minutes` on this machine."""
    if not minutes > 0:
        raise InputError(f"A budget is a positive number of minutes, got {minutes:g}.")
    step_seconds, validation_seconds = pace(config, splits)
    return shorten(config, len(splits.train), 60 * minutes, step_seconds, validation_seconds)


def shorten(
    config: TrainingConfig, samples: int, seconds: float, step_seconds: float, validation_seconds: float
) -> TrainingConfig:
    """Return `config` with as many whole validation intervals as fit into `seconds`; at least one step.

    >>> config = TrainingConfig(task="digits", epochs=60, batch_size=10)
    >>> shorten(config, samples=100, seconds=36, step_seconds=0.1, validation_seconds=0.2).epochs
    30
    """
    schedule = Schedule(config, samples)
    count = int(seconds / (schedule.row_steps * step_seconds + validation_seconds))
    steps = count * schedule.row_steps
    if steps >= schedule.total_steps:
        return config
    if count == 0:
        steps = max(1, int((seconds - validation_seconds) / step_seconds))
    elif config.epochs is not None and schedule.row_steps == schedule.steps_per_epoch:
        return replace(config, epochs=count)
    return replace(config, epochs=None, steps=steps)


def pace(config: TrainingConfig, splits: Splits) -> tuple[float, float]:
    """Return the seconds of a step and of a validation."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    trainer = Trainer(build(config, splits), splits, config)
    trainer.step()  # the first step also sets things up
    began, steps = time.monotonic(), 0
    while steps < PILOT_STEPS and time.monotonic() - began < PILOT_SECONDS and not trainer.finished:
        trainer.step()
        steps += 1
    trained = time.monotonic()
    evaluate(trainer.model, splits.validation, splits.metric)
    return (trained - began) / max(steps, 1), time.monotonic() - trained
