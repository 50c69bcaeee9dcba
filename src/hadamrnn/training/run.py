"""Whole runs: `train` begins one, `resume` goes on with one, `load_run` reads one back."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

import torch

from hadamrnn.baselines.networks import load_model
from hadamrnn.data import load_task
from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.locks import held
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.folder import RunFolder, check_free
from hadamrnn.training.loop import CHECKPOINT_SECONDS, Outcome, fit
from hadamrnn.training.models import build, task_network
from hadamrnn.training.processes import Processes, join_processes
from hadamrnn.training.progress import Watcher


@dataclass(frozen=True)
class Sitting:
    """How a run is attended to; nothing here changes its result."""

    data_dir: str | Path | None = None
    watcher: Watcher | None = None
    checkpoint_seconds: float = CHECKPOINT_SECONDS
    stop: Callable[[], bool] = lambda: False
    splits: Splits | None = None  # the task's data, where the caller has loaded it


def train(config: TrainingConfig, out: str | Path, sitting: Sitting | None = None) -> Outcome:
    """Train a new model; `out` becomes its run folder. Bad input leaves no folder behind."""
    sitting = sitting or Sitting()
    processes = join_processes(config.dtype)
    if processes.rank == 0:
        check_free(out)
    splits, model = _prepare(config, sitting, sitting.data_dir)
    config = replace(config, network=task_network(config, splits))
    if processes.rank > 0:
        return _fit(config, splits, model, None, processes, sitting)
    Path(out).mkdir(parents=True, exist_ok=True)
    with held(Path(out)):
        folder = RunFolder.create(out, config, splits, sitting.data_dir)
        return _fit(config, splits, model, folder, processes, sitting)


def resume(path: str | Path, sitting: Sitting | None = None) -> Outcome:
    """Go on with the run at `path`; the end is bit for bit that of the uninterrupted run."""
    sitting = sitting or Sitting()
    folder = RunFolder.open(path)
    processes = join_processes(folder.config.dtype)
    with held(folder.path) if processes.rank == 0 else nullcontext():
        data_dir = sitting.data_dir or folder.record.data_dir
        splits, model = _prepare(folder.config, sitting, data_dir)
        return _fit(folder.config, splits, model, folder, processes, sitting)


def load_run(path: str | Path) -> tuple[RunFolder, SequenceModel]:
    """Return a run and its best model."""
    folder = RunFolder.open(path)
    model = load_model(folder.trained_model_path()).eval()
    dtype = str(model.readout.weight.dtype).removeprefix("torch.")
    if dtype != folder.config.dtype:
        raise InputError(
            f"{folder.model_path} must be {folder.config.dtype} as config.yaml says, got {dtype}."
        )
    return folder, model


def load_splits(folder: RunFolder, data_dir: str | Path | None = None) -> Splits:
    """Return the task that a run was trained on, from `data_dir` or from where the run found it."""
    config = folder.config
    return load_task(config.task, data_dir or folder.record.data_dir, **config.task_options)


def _prepare(
    config: TrainingConfig, sitting: Sitting, data_dir: str | Path | None
) -> tuple[Splits, SequenceModel]:
    """Return the task and a freshly drawn model."""
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    splits = sitting.splits or load_task(config.task, data_dir, **config.task_options)
    return splits, build(config, splits)


def _fit(
    config: TrainingConfig,
    splits: Splits,
    model: SequenceModel,
    folder: RunFolder | None,
    processes: Processes,
    sitting: Sitting,
) -> Outcome:
    return fit(
        model,
        splits,
        config,
        folder=folder,
        watcher=sitting.watcher if processes.rank == 0 else None,
        processes=processes,
        checkpoint_seconds=sitting.checkpoint_seconds,
        stop=sitting.stop,
    )
