"""Select setups by name, and train, measure and store those that have no result yet.

The runner can be stopped at any time: a killed run resumes from its checkpoint, and finished rows are not
repeated. Processes or machines that share the folders take different rows. Start at `select` and `run_jobs`.

A budget of minutes is converted to a number of epochs or steps before a run begins, from the measured time of
a step. Stopping by the clock instead would cut off the cosine schedule and make the result unrepeatable. The
stored result states the length of the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import torch
from filelock import SoftFileLease

from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError, check_name, did_you_mean
from hadamrnn.files import CONFIG_FILE, MODEL_FILE, claim
from hadamrnn.run import Run, RunOptions, resume, train
from hadamrnn.training.config import TrainingConfig, config_values, read_config, resolve_config
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.models import build
from hadamrnn.training.schedule import Schedule
from hadamrnn.training.trainer import Diverged, Trainer
from hadamrnn_paper.results import LOCKS, Result, find_result, measure_run, result_name, write_result
from hadamrnn_paper.rows import Setup
from hadamrnn_paper.tables import SCALES, SELECTION, TABLES, TRAINING_TIMES

# The rows of every table except times and scales, which use the runs of other tables.
ROWS = {name: table.rows for name, table in TABLES.items()} | {
    "selection": SELECTION,
    "times": TRAINING_TIMES,
    "scales": SCALES,
}
NAMES = (*ROWS, "memorization", "all")
PILOT_SECONDS = 4.0
PILOT_STEPS = 50
LENGTH = ("epochs", "steps", "evaluate_every")


@dataclass(frozen=True)
class Job:
    """A setup with a preset and a seed.

    Args:
        overrides: fields of `TrainingConfig` that differ from the preset and the setup.
        budget: minutes of training, converted to epochs or steps before the run starts.
    """

    setup: Setup
    preset: str
    seed: int = 0
    overrides: dict[str, Any] = field(default_factory=dict)
    budget: float | None = None

    @property
    def name(self) -> str:
        return result_name(self.setup.key, self.preset, self.seed)

    @property
    def config(self) -> TrainingConfig:
        settings = {**self.setup.settings, "seed": self.seed, **self.overrides}
        return resolve_config(self.setup.task, preset=self.preset, overrides=settings)


@dataclass(frozen=True)
class Places:
    """The folders for results (with their locks) and for runs."""

    results: Path
    runs: Path

    @property
    def locks(self) -> Path:
        return self.results / LOCKS

    def result(self, job: Job) -> Result | None:
        """Return the stored result of a job, if there is one."""
        return find_result(self.results, job.setup.task, job.name)


Tell = Callable[[Job, str], None]  # receives a job and a line to print about it


@dataclass
class Tally:
    """The number of jobs by outcome."""

    measured: list[Result] = field(default_factory=list)
    skipped: list[Job] = field(default_factory=list)
    elsewhere: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


class Stopped(Exception):
    """Raised if the run was asked to stop, or lost its claim; a checkpoint is on disk."""


def run_jobs(
    jobs: Iterable[Job],
    places: Places,
    options: RunOptions | None = None,
    tell: Tell = lambda job, line: None,
) -> Tally:
    """Run every job that has no result and is not running elsewhere. A failed job does not stop the others.

    Jobs of other processes are checked again at the end, so jobs of a machine that died are run here.
    """
    tally, left = Tally(), list(jobs)
    options = options or RunOptions()
    for patient in (False, True):
        tally.elsewhere = []
        for job in left:
            with claim(places.locks, job.name, patient=patient, stop=options.stop) as held:
                if places.result(job) is not None:
                    tally.skipped.append(job)
                    tell(job, "has a result")
                    continue
                if held is None:
                    tally.elsewhere.append(job)
                    tell(job, "is being run by another process")
                    continue
                try:
                    result = run_job(job, places, options, tell, held)
                except Stopped:
                    tally.stopped = True
                    tell(job, "stopped; repeat the command to continue it")
                    return tally
                except (InputError, OSError) as error:
                    tally.failed[job.name] = str(error)
                    tell(job, f"failed: {error}")
                    continue
                write_result(places.results, result)
                tally.measured.append(result)
                tell(job, "done")
        left = tally.elsewhere
    return tally


def run_job(job: Job, places: Places, options: RunOptions, tell: Tell, held: SoftFileLease) -> Result:
    """Train a job, or resume it, and return its measurements on the test set."""
    path, begun = run_folder(job, places.runs)
    config = job.config
    # The data is loaded once, for measuring the pace, training and testing.
    if begun:
        splits = Run.open(path, options.data_dir).splits
    else:
        splits = load_task(config.task, options.data_dir, **config.task_options)
    asked = options.stop
    options = replace(options, splits=splits, stop=lambda: asked() or held.compromise is not None)
    ended = "finished"
    try:
        if begun:
            tell(job, "continues from its run folder")
            run = resume(path, options)
        else:
            if job.budget is not None:
                config = fit_to_budget(config, job.budget, splits)
            length = f"{config.epochs} epochs" if config.epochs is not None else f"{config.steps} steps"
            tell(job, f"begins: {length}")
            run = train(config, path, options)
        if not run.finished:
            raise Stopped
    except Diverged:
        if not (path / MODEL_FILE).is_file():
            raise
        ended = "diverged"
    result = measure_run(job.setup, path, splits, ended)
    if held.compromise is not None:
        raise Stopped
    return result


def run_folder(job: Job, parent: Path) -> tuple[Path, bool]:
    """Return the job's run folder and whether the run has begun.

    The folder is the first of NAME, NAME-2, ... that is free or has the job's configuration. With a budget
    the length may differ, because it was fixed when the run began.
    """
    wanted = _comparable(job.config, job.budget)
    return first_fitting(parent, job.name, lambda config: _comparable(config, job.budget) == wanted)


def first_fitting(parent: Path, name: str, fits: Callable[[TrainingConfig], bool]) -> tuple[Path, bool]:
    """Return the first of NAME, NAME-2, ... that fits or is free, and whether it fits."""
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        if not (path / CONFIG_FILE).is_file():
            return path, False
        if fits(read_config(path / CONFIG_FILE)):
            return path, True
        number += 1


def _comparable(config: TrainingConfig, budget: float | None) -> dict[str, Any]:
    left_out = () if budget is None else LENGTH
    return {name: value for name, value in config_values(config).items() if name not in left_out}


def fit_to_budget(config: TrainingConfig, minutes: float, splits: Splits) -> TrainingConfig:
    """Shorten `config` if it would take longer than `minutes` on this machine."""
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
    """Measure the seconds of a training step and of a validation."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    trainer = Trainer(build(config, splits), splits, config)
    trainer.step()  # warm-up: the first step also initialises
    began, steps = time.monotonic(), 0
    while steps < PILOT_STEPS and time.monotonic() - began < PILOT_SECONDS and not trainer.finished:
        trainer.step()
        steps += 1
    trained = time.monotonic()
    evaluate(trainer.model, splits.validation, splits.metric)
    return (trained - began) / max(steps, 1), time.monotonic() - trained


def setups(table: str) -> dict[str, tuple[Setup, tuple[int, ...]]]:
    """Return the setups of a table by key, each with its seeds.

    >>> list(setups("scales"))
    ['copy-128-4bit', 'smnist-512-4bit', 'pmnist-512-4bit', 'imdb-512-4bit']
    """
    check_name("A table", table, NAMES)
    rows = [row for name in (ROWS if table == "all" else [table]) for row in ROWS.get(name, ())]
    return {row.setup.key: (row.setup, row.seeds) for row in rows if row.setup is not None}


def select(table: str, patterns: Sequence[str] = ()) -> list[tuple[Setup, tuple[int, ...]]]:
    """Return the setups whose key matches a pattern such as `pmnist-*`; all without patterns."""
    found = setups(table)
    for pattern in patterns:
        if not any(fnmatchcase(key, pattern) for key in found):
            hint = did_you_mean(pattern, found)
            raise InputError(f"No row of {table} matches {pattern!r}.{hint} --list shows all.")
    return [
        chosen
        for key, chosen in found.items()
        if not patterns or any(fnmatchcase(key, pattern) for pattern in patterns)
    ]
