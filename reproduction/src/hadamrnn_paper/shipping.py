"""Turn a measured run into a model that is bundled with the package, without manual input."""

from __future__ import annotations

from pathlib import Path

from hadamrnn import models
from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE
from hadamrnn.training.config import config_values
from hadamrnn_paper.compare import result_command
from hadamrnn_paper.results import Result
from hadamrnn_paper.runner import first_fitting


def ship(result: Result, name: str, inputs: models.InputDescription, runs: Path, folder: Path) -> list[Path]:
    """Add the integer network of a result to a folder of models; return the written files.

    Args:
        name: what the network does; its size is added, as in `motion-6kb`.
        inputs: description of the inputs.
        runs: the folder of all run folders; the result's run folder contains the integer network.
    """
    run, _ = first_fitting(runs, result.name, lambda config: config_values(config) == result.settings)
    network = run / INTEGER_FILE
    if result.integer is None or not network.is_file():
        raise InputError(f"There is no integer network for {result.name} at {network}. Run the row again.")
    content = network.read_bytes()
    model = models.Shipped(
        name=f"{name}-{round(result.integer.kilobytes)}kb",
        task=result.settings["task"],
        metric=result.metric,
        test=result.integer.test,
        kilobytes=result.integer.kilobytes,
        activation_bits=result.integer.activation_bits,
        inputs=inputs,
        command=result_command(result),
        sha256=models.digest(content),
    )
    return models.add(model, content, folder)
