"""From a measured run to a model that ships with the package: nothing of its story is written by hand."""

from __future__ import annotations

import itertools
from pathlib import Path

from hadamrnn import fixedpoint, models
from hadamrnn.benchmarks.compare import Measurement
from hadamrnn.benchmarks.paper import TABLES, TASKS
from hadamrnn.benchmarks.results import Result, read_result
from hadamrnn.benchmarks.runner import numbered
from hadamrnn.errors import InputError
from hadamrnn.training.config import TrainingConfig, read_config


def ship(path: Path, runs: Path, folder: Path) -> list[Path]:
    """Add the integer network behind the result at `path` to a folder of models; return what was written.

    Args:
        runs: where the run folders are; the integer network is in the one that was run for the result.
    """
    result = read_result(path)
    network = run_of(result, runs) / fixedpoint.FILE_NAME
    if result.integer is None or not network.is_file():
        raise InputError(
            f"{network} must be the integer network of {path}, but there is none. Run the row again."
        )
    model = models.Shipped(
        name=result.experiment,
        task=str(result.config["task"]),
        metric=result.metric,
        test=result.integer.test,
        kilobytes=result.integer.kilobytes,
        activation_bits=result.integer.activation_bits,
        command=command(result),
        sha256=models.digest(network),
    )
    return models.add(model, network.read_bytes(), folder)


def run_of(result: Result, runs: Path) -> Path:
    """Return the first of NAME, NAME-2, ... in `runs` with the result's settings, or one not there."""
    wanted = TrainingConfig(**result.config)
    folders = (runs / numbered(result.name, number) for number in itertools.count(1))
    return next(
        path
        for path in folders
        if not (path / "config.yaml").is_file() or read_config(path / "config.yaml") == wanted
    )


def command(result: Result) -> str:
    """Return what repeats a result, by the first table that has its experiment."""
    for table in TABLES.values():
        for row in table.rows:
            if row.experiment is not None and row.experiment.key == result.experiment:
                return Measurement(row, TASKS[row.task], result.preset, (result,)).command(table.name)
    raise InputError(f"No table has {result.experiment}: only what a command can repeat is shipped.")
