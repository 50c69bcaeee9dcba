"""Whole runs: `train` starts one, `resume` continues one, `load_run` reads one back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hadamrnn.data import load_task
from hadamrnn.data.splits import Preparation, Splits
from hadamrnn.errors import InputError
from hadamrnn.locks import held
from hadamrnn.nn.build import load_model
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import check_run
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.folder import RunFolder, check_free
from hadamrnn.training.loop import CHECKPOINT_SECONDS, Outcome, Session
from hadamrnn.training.models import build, task_network
from hadamrnn.training.processes import Processes, join_processes
from hadamrnn.training.progress import Watcher
from hadamrnn.training.trainer import Trainer


@dataclass(frozen=True)
class RunOptions:
    """How a run is carried out. Nothing here changes its result.

    Args:
        data_dir: where data sets are.
        stop: asked after every step; True ends the run with a checkpoint.
        splits: the task's data, if the caller has loaded it already.
    """

    data_dir: str | Path | None = None
    watcher: Watcher | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    stop: Callable[[], bool] = lambda: False
    splits: Splits | None = None


def train(config: TrainingConfig, out: str | Path, options: RunOptions | None = None) -> Outcome:
    """Train a new model; `out` becomes its run folder. Bad input leaves no folder behind."""
    options = options or RunOptions()
    processes = join_processes(config.dtype)
    first = processes.rank == 0
    if first:
        check_free(out)
    trainer = _prepare(config, options, processes)
    splits = trainer.splits
    decided = {**config.task_options, **splits.options}
    config = replace(config, network=task_network(config, splits), task_options=decided)
    if first and options.watcher is not None:
        for line in splits.assumptions:
            options.watcher.remark(line)
    with held(Path(out)) if first else nullcontext():
        folder = RunFolder.create(out, config, splits, options.data_dir) if first else None
        return Session(trainer, folder, options.watcher).run(options.checkpoint_seconds, options.stop)


def resume(path: str | Path, options: RunOptions | None = None) -> Outcome:
    """Continue the run at `path`; the end is bit for bit that of the uninterrupted run."""
    folder = RunFolder.open(path)
    options = options or RunOptions()
    options = replace(options, data_dir=options.data_dir or folder.record.data_dir)
    processes = join_processes(folder.config.dtype)
    with held(folder.path) if processes.rank == 0 else nullcontext():
        trainer = _prepare(folder.config, options, processes, folder.facts.preparation)
        return Session(trainer, folder, options.watcher).run(options.checkpoint_seconds, options.stop)


def load_run(path: str | Path) -> tuple[RunFolder, SequenceModel]:
    """Return a run and its best model."""
    folder = RunFolder.open(path)
    if not folder.model_path.is_file():
        raise InputError(f"{path} holds no model yet. Continue with: hadamrnn train --resume {path}.")
    check_run(folder.model_path, folder.record.identity)
    model = load_model(folder.model_path).eval()
    dtype = str(model.readout.weight.dtype).removeprefix("torch.")
    if dtype != folder.config.dtype:
        raise InputError(
            f"{folder.model_path} must be {folder.config.dtype} as config.yaml says, got {dtype}."
        )
    return folder, model


def load_splits(folder: RunFolder, data_dir: str | Path | None = None) -> Splits:
    """Return the task of a run, from `data_dir` or from where the run found its data."""
    config = folder.config
    place = data_dir or folder.record.data_dir
    return load_task(config.task, place, folder.facts.preparation, **config.task_options)


def _prepare(
    config: TrainingConfig,
    options: RunOptions,
    processes: Processes,
    preparation: Preparation | None = None,
) -> Trainer:
    """Return a trainer with the task's data, prepared as before if asked to, and a freshly drawn model."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    splits = options.splits
    if splits is None:
        splits = load_task(config.task, options.data_dir, preparation, **config.task_options)
    elif preparation is not None:
        preparation.check(splits.fingerprint, f"the task {config.task}")
    return Trainer(build(config, splits), splits, config, processes)
