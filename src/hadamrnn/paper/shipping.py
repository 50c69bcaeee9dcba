"""From a measured run to a model that ships with the package: nothing of its story is written by hand."""

from __future__ import annotations

from pathlib import Path

from hadamrnn import fixedpoint, models
from hadamrnn.errors import InputError
from hadamrnn.paper.compare import Measurement
from hadamrnn.paper.main_tables import TABLES, TASKS
from hadamrnn.paper.results import Result, read_result
from hadamrnn.paper.runner import first_fitting
from hadamrnn.training.config import TrainingConfig


def ship(path: Path, runs: Path, folder: Path) -> list[Path]:
    """Add the integer network behind the result at `path` to a folder of models; return what was written.

    Args:
        runs: where the run folders are; the integer network is in the one that was run for the result.
    """
    result = read_result(path)
    run, _ = first_fitting(runs, result.name, TrainingConfig(**result.config).__eq__)
    network = run / fixedpoint.FILE_NAME
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


def command(result: Result) -> str:
    """Return what repeats a result, by the first table that has its experiment."""
    for table in TABLES.values():
        for row in table.rows:
            if row.experiment is not None and row.experiment.key == result.experiment:
                return Measurement(row, TASKS[row.task], result.preset, (result,)).command(table.name)
    raise InputError(f"No table has {result.experiment}: only what a command can repeat is shipped.")
