"""Shipped models: listed, copied and checked."""

from __future__ import annotations

import hashlib
import json
import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file as load_safetensors

from hadamrnn import fixedpoint, models
from hadamrnn.cli import main
from hadamrnn.data.har import ACTIVITIES
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import Calibration
from hadamrnn.quantization.chain import IntegerNetwork
from hadamrnn.quantization.lowering import lower
from hadamrnn.training.evaluate import evaluate
from hadamrnn_paper.data.keywords import WORDS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of models with one in it."""
    network = SequenceModel(Network(input_size=1, hidden_size=16, output_size=10))
    integer = lower(network, Calibration(8.0, 1.0, 784, 10), activation_bits=12)
    fixedpoint.save(integer, tmp_path / "some.int.safetensors")
    content = (tmp_path / "some.int.safetensors").read_bytes()
    model = models.Shipped(
        name="some-1kb",
        task="digits",
        metric="accuracy",
        test=0.9494,
        kilobytes=0.2,
        activation_bits=12,
        inputs=models.InputDescription("1: a pixel", "0 to 16", "any", 64, "none"),
        command="hadamrnn train digits",
        sha256=models.digest(content),
    )
    models.add(model, content, tmp_path / "models")
    return tmp_path / "models"


def test_at_most_eight_models_ship_and_each_has_a_name_to_say_with_its_size() -> None:
    found = models.shipped()

    assert 0 < len(found) <= 8
    for model in found:
        assert re.fullmatch(rf"[a-z]+(-[a-z]+)?-{round(model.kilobytes)}kb", model.name)


def test_a_models_description_has_the_channels_that_its_network_reads() -> None:
    for model in models.shipped():
        channels = int(model.inputs.channels.partition(" ")[0].rstrip(":"))
        assert channels == model.load().network.input_size, model.name


# Digests of signs, weights, biases and scales, without names and metadata: renaming a model changes none.
BITS = {
    "copy-1kb": "eda2a53c223f2ad8",
    "digits-1kb": "d9810666d233d722",
    "digits-4kb": "6e973cc9a54148f4",
    "digits-5kb": "fb68d445d8919cd0",
    "keywords-16kb": "96cb185867f2358d",
    "keywords-5kb": "981d34a46de1ceb7",
    "motion-6kb": "b4b40960631151e7",
    "permuted-digits-4kb": "2c4b18ec0d3ea208",
}


def test_the_networks_that_ship_have_the_bits_that_were_measured() -> None:
    found = {}
    for model in models.shipped():
        arrays = load_safetensors(model.path())
        content = b"".join(name.encode() + arrays[name].tobytes() for name in sorted(arrays))
        found[model.name] = hashlib.sha256(content).hexdigest()[:16]

    assert found == BITS


def test_what_ships_loads_and_is_what_its_metadata_says() -> None:
    for model in models.shipped():
        assert model.load().hidden_size > 0
        assert model.command.startswith("hadamrnn ")
        assert model.path().stat().st_size < 200_000


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA names the folder of real data")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("keywords-16kb", {}),
        ("keywords-5kb", {}),
        ("motion-6kb", {"left_out": None, "fine": True}),
        ("permuted-digits-4kb", {}),
    ],
)
def test_what_ships_decides_as_its_metadata_says(name: str, options: dict[str, Any]) -> None:
    """Every decision over the whole test set agrees: integers do not depend on the machine."""
    model = models.find(name)
    splits = load_task(model.task, **options)

    assert evaluate(IntegerNetwork(model.load()), splits.test, "accuracy") == model.test


@pytest.mark.parametrize(("task", "classes"), [("har6", ACTIVITIES), ("keywords", WORDS)])
def test_what_reads_a_sensor_takes_its_raw_codes_and_names_its_classes(
    task: str, classes: tuple[str, ...]
) -> None:
    found = [model.load() for model in models.shipped() if model.task == task]

    assert found
    assert all(tuple(model.class_names) == classes and "raw_unit" in model.metadata for model in found)


def test_the_command_lists_and_copies(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "FOLDER", folder)
    capsys.readouterr()
    assert main(["models"]) == 0
    assert "some-1kb" in (listed := capsys.readouterr().out) and "94.94 %" in listed
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["name"] == "some-1kb"
    assert main(["models", "some-1kb", "--out", str(tmp_path / "mine")]) == 0
    copied = fixedpoint.load(tmp_path / "mine" / "some-1kb.int.safetensors")
    assert np.array_equal(copied.layers[0].signs, models.find("some-1kb").load().layers[0].signs)


def test_an_empty_set_is_said_to_be_empty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(models, "FOLDER", tmp_path)
    assert main(["models"]) == 0
    assert "no models ship" in capsys.readouterr().out
    assert main(["models", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["models", "any"]) == 2
    assert "must be one of" in capsys.readouterr().err


def test_a_damaged_file_is_refused(folder: Path) -> None:
    (model,) = models.shipped(folder)
    path = model.path(folder)
    path.write_bytes(path.read_bytes()[:-1] + b"\x01")

    with pytest.raises(InputError, match="describes another file"):
        model.load(folder)


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "no readable JSON"),
        ("[]", "names and values"),
        ('{"name": 3}', "is damaged"),
        (None, "whose name its file must have"),
    ],
)
def test_metadata_that_no_one_wrote_is_refused(text: str | None, complaint: str, folder: Path) -> None:
    (path,) = folder.glob("*.json")
    (folder / "other.json").write_text(path.read_text() if text is None else text)

    with pytest.raises(InputError, match=rf"other\.json.*{complaint}"):
        models.shipped(folder)


def test_metadata_without_its_network_is_refused(folder: Path, tmp_path: Path) -> None:
    (model,) = models.shipped(folder)
    model.path(folder).unlink()

    for use in (model.load, lambda folder: models.copy(model, tmp_path / "out", folder)):
        with pytest.raises(InputError, match="cannot be read"):
            use(folder)
    assert not (tmp_path / "out").exists()


def test_a_place_without_a_model_is_refused_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["models", "--out", str(tmp_path / "out")]) == 2
    errors = capsys.readouterr().err
    assert "without a NAME" in errors and errors.count("\n") == 1 and not (tmp_path / "out").exists()
