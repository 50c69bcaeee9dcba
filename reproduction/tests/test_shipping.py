"""A bundled model is made from a result without manual input."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hadamrnn import fixedpoint, models
from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import Calibration
from hadamrnn.quantization.lowering import lower
from hadamrnn.training.config import config_yaml, make_config
from hadamrnn_paper.compare import result_command
from hadamrnn_paper.results import Result
from hadamrnn_paper.shipping import ship

INPUTS = models.InputDescription("1: a pixel", "0 to 255", "any", 784, "none")


@pytest.fixture
def folder(tmp_path: Path, result: Result) -> Path:
    """Return a folder with one model, made from a result and its run folder."""
    network = SequenceModel(Network(input_size=1, hidden_size=16, output_size=10))
    integer = lower(network, Calibration(8.0, 1.0, 784, 10), activation_bits=12)
    config = make_config(**result.config)
    earlier, run = (tmp_path / "runs" / f"{result.name}{suffix}" for suffix in ("", "-2"))
    for path, settings in ((earlier, replace(config, learning_rate=0.5)), (run, config)):
        path.mkdir(parents=True)
        (path / "config.yaml").write_bytes(config_yaml(settings))
    (earlier / INTEGER_FILE).write_bytes(b"another run's")
    fixedpoint.save(integer, run / INTEGER_FILE)
    out = tmp_path / "models"
    ship(result, "permuted-digits", INPUTS, tmp_path / "runs", out)
    return out


def test_its_metadata_comes_from_the_result(folder: Path, result: Result) -> None:
    (model,) = models.shipped(folder)

    assert (model.name, model.task, model.metric) == ("permuted-digits-4kb", "pmnist", "accuracy")
    assert result.integer is not None and model.test == result.integer.test
    assert model.command == (
        "hadamrnn reproduce results --rows pmnist-512-4bit --preset best --set epochs=12 --threads 1"
    )
    assert model.load(folder).hidden_size == 16


def test_a_result_without_its_run_is_refused(tmp_path: Path, result: Result) -> None:
    with pytest.raises(InputError, match="no integer network"):
        ship(result, "permuted-digits", INPUTS, tmp_path / "nowhere", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_only_what_a_command_repeats_is_shipped(result: Result) -> None:
    with pytest.raises(InputError, match="No table has digits-8-4bit"):
        result_command(replace(result, experiment="digits-8-4bit"))
