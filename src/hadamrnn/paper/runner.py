"""From setups to results: train what is missing, measure it once, write it down.

Resumable at every moment: a killed run goes on from its checkpoint, a finished row is not run again, and
several processes or machines over the same folders take different rows. Start at `run_jobs`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from hadamrnn.data import Splits, load_task
from hadamrnn.errors import InputError
from hadamrnn.locks import Claim, claim
from hadamrnn.paper.measure import measure_run
from hadamrnn.paper.pace import fit_to_budget
from hadamrnn.paper.results import Result, result_name, write_result
from hadamrnn.paper.rows import Setup
from hadamrnn.training import run as runs
from hadamrnn.training.config import TrainingConfig, config_values, read_config, resolve_config
from hadamrnn.training.folder import RunFolder
from hadamrnn.training.progress import Watcher
from hadamrnn.training.trainer import Diverged

LENGTH = ("epochs", "steps", "evaluate_every")


@dataclass(frozen=True)
class Job:
    """A setup under a preset and a seed.

    Args:
        overrides: fields of `TrainingConfig` that differ from what preset and setup say.
        budget: minutes that training may take; turned into a number of epochs or steps before it begins.
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
    """Where things are: results and locks, run folders, data sets."""

    results: Path
    runs: Path
    data_dir: str | Path | None = None

    @property
    def locks(self) -> Path:
        return self.results / ".locks"

    def result(self, job: Job) -> Path:
        return self.results / f"{job.name}.json"


@dataclass(frozen=True)
class Attendance:
    """How the work is attended to; nothing here changes a result.

    Args:
        tell: is given a job and a line about it.
        watcher: makes who is shown a run's progress.
        stop: asked after every step; True ends the work with a checkpoint.
    """

    tell: Callable[[Job, str], None] = lambda job, line: None
    watcher: Callable[[], Watcher] = Watcher
    stop: Callable[[], bool] = lambda: False


@dataclass
class Tally:
    """What became of the jobs."""

    measured: list[Result] = field(default_factory=list)
    skipped: list[Job] = field(default_factory=list)
    elsewhere: list[Job] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)
    stopped: bool = False


class Stopped(Exception):
    """The run was asked to stop, or its claim was lost; a checkpoint is there."""


def run_jobs(jobs: Iterable[Job], places: Places, attendance: Attendance | None = None) -> Tally:
    """Run every job that has no result and that nobody else is at; a bad one does not hold up the rest."""
    attendance = attendance or Attendance()
    tally = Tally()
    for job in jobs:
        with claim(places.locks, job.name) as held:
            if places.result(job).exists():
                tally.skipped.append(job)
                attendance.tell(job, "has a result")
                continue
            if held is None:
                tally.elsewhere.append(job)
                attendance.tell(job, "is being run by another process")
                continue
            try:
                result = run_job(job, places, attendance, held)
            except Stopped:
                tally.stopped = True
                attendance.tell(job, "stopped; the same command goes on with it")
                break
            except (InputError, OSError) as error:
                tally.failed[job.name] = str(error)
                attendance.tell(job, f"failed: {error}")
                continue
            write_result(places.results, result)
            tally.measured.append(result)
            attendance.tell(job, "done")
    return tally


def run_job(job: Job, places: Places, attendance: Attendance, held: Claim | None = None) -> Result:
    """Train, or go on with, one job and return what it measures on the test set."""

    def stop() -> bool:
        return attendance.stop() or (held is not None and held.seen_lost)

    path, begun = run_folder(job, places.runs)
    splits = _load_splits(job, path if begun else None, places.data_dir)
    sitting = runs.Sitting(places.data_dir, attendance.watcher(), stop=stop, splits=splits)
    ended = "finished"
    try:
        if begun:
            attendance.tell(job, "goes on from its run folder")
            outcome = runs.resume(path, sitting)
        else:
            config = job.config
            if job.budget is not None:
                config = fit_to_budget(config, job.budget, splits)
            attendance.tell(job, f"begins: {show_length(config)}")
            outcome = runs.train(config, path, sitting)
        if not outcome.finished:
            raise Stopped
    except Diverged:
        if not (path / "model.safetensors").is_file():
            raise
        ended = "diverged"
    result = measure_run(job.setup, path, splits, ended)
    if held is not None and held.lost:
        raise Stopped
    return replace(result, preset=job.preset)


def _load_splits(job: Job, run: Path | None, data_dir: str | Path | None) -> Splits:
    """Return the job's data, loaded once for its pace, training and test; a run says where it found it."""
    if run is not None:
        return runs.load_splits(RunFolder.open(run), data_dir)
    return load_task(job.config.task, data_dir, **job.config.task_options)


def run_folder(job: Job, parent: Path) -> tuple[Path, bool]:
    """Return the job's run folder and whether it was begun: the first NAME, NAME-2, ... that fits or is free.

    A folder fits if its configuration is the job's; under a budget, which decided the length when the run
    began, all but the length.
    """
    wanted = _comparable(job.config, job.budget)
    return first_fitting(parent, job.name, lambda config: _comparable(config, job.budget) == wanted)


def first_fitting(parent: Path, name: str, fits: Callable[[TrainingConfig], bool]) -> tuple[Path, bool]:
    """Return the first of NAME, NAME-2, ... that fits or is free, and whether it fits."""
    number = 1
    while True:
        path = parent / (name if number == 1 else f"{name}-{number}")
        if not (path / "config.yaml").is_file():
            return path, False
        if fits(read_config(path / "config.yaml")):
            return path, True
        number += 1


def show_length(config: TrainingConfig) -> str:
    """Return how long a run is.

    >>> show_length(TrainingConfig(task="digits", epochs=3))
    '3 epochs'
    """
    return f"{config.epochs} epochs" if config.epochs is not None else f"{config.steps} steps"


def _comparable(config: TrainingConfig, budget: float | None) -> dict[str, Any]:
    left_out = () if budget is None else LENGTH
    return {name: value for name, value in config_values(config).items() if name not in left_out}
