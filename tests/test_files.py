"""Files are written whole, and read with distrust."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path

import pytest
import torch
from safetensors.torch import save, save_file

from hadamrnn.errors import InputError
from hadamrnn.files import parse_json, parse_yaml, read_regular, seal, write_atomically
from hadamrnn.network import Network, network_values
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import FORMAT, VERSION, load_model, save_model


def test_a_file_gets_the_permissions_of_open_without_touching_the_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "opened").touch()
    monkeypatch.setattr(os, "umask", None)
    write_atomically(tmp_path / "written", b"content")

    opened, written = ((tmp_path / name).stat().st_mode for name in ("opened", "written"))
    assert written == opened
    assert sorted(path.name for path in tmp_path.iterdir()) == ["opened", "written"]


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")
    with pytest.raises(TypeError):
        write_atomically(path, None)  # type: ignore[arg-type]
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "text",
    [
        "a: 2020-13-45",
        "a: 0x_",
        "a: " + "9" * 5000,
        "a: " + "[" * 5000,
        "a: &a [x]\nb: *a",
        "a: !!timestamp x",
        "a: !!int x",
        "a: [",
        "a: 1\nb: 2\na: 3",
        "b: {a: 1, a: 1}",
    ],
)
def test_yaml_that_means_harm_is_one_line(text: str) -> None:
    with pytest.raises(InputError, match="file is not a readable YAML file") as caught:
        parse_yaml(text, "file")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "[" * 100_000, "9" * 5000, b"\xff"])
def test_json_that_means_harm_is_one_line(text: str | bytes) -> None:
    with pytest.raises(InputError, match="file is damaged"):
        parse_json(text, "file")


def test_only_regular_files_within_the_limit_are_read(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(bytes(11))
    for name, complaint in (
        ("pipe", "must be a regular file"),
        ("", "must be a regular file"),
        ("large", "at most 10 bytes, got 11"),
        ("missing", "No such file"),
    ):
        with pytest.raises(InputError, match=complaint):
            read_regular(tmp_path / name, limit=10)
    with pytest.raises(InputError, match="must be a regular file"):
        read_regular("/dev/zero")
    assert read_regular(tmp_path / "large", limit=11) == bytes(11)


def test_no_flipped_bit_of_a_model_loads_other_weights(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    save_model(SequenceModel(Network(3, 8, 2)), path)
    content = path.read_bytes()
    kept = {name: tensor.clone() for name, tensor in load_model(path).state_dict().items()}
    draw = random.Random(0)
    for _ in range(300):
        damaged = bytearray(content)
        damaged[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        try:
            found = load_model(path).state_dict()
        except InputError as error:
            assert "\n" not in str(error)
        else:  # trailing blanks in the header have no meaning
            assert all(torch.equal(found[name], tensor) for name, tensor in kept.items())


@pytest.mark.parametrize("length", range(8))
def test_the_tensors_of_a_sealed_file_start_at_a_multiple_of_eight(length: int) -> None:
    sealed = seal(save({"x": torch.zeros(2)}, {"note": "n" * length}))

    assert int.from_bytes(sealed[:8], "little") % 8 == 0


def test_a_model_without_a_checksum_is_refused(tmp_path: Path) -> None:
    model = SequenceModel(Network(3, 8, 2))
    description = json.dumps(network_values(Network(3, 8, 2)))
    metadata = {"format": FORMAT, "version": VERSION, "network": description}
    save_file(model.state_dict(), tmp_path / "plain", metadata)

    with pytest.raises(InputError, match="checksum does not match"):
        load_model(tmp_path / "plain")


@pytest.mark.parametrize(
    ("setting", "complaint"),
    [
        ({"hidden_size": 2147483648}, "hidden_size must lie in 1..32768, got 2147483648"),
        ({"num_layers": 10_000_000}, "num_layers must lie in 1..64"),
        ({"vocabulary_size": 1_000_000_000, "input_kind": "embedded"}, "vocabulary_size must lie in"),
        ({"input_size": "3"}, "input_size must be int"),
        ({"num_layers": True}, "num_layers must be int"),
        ({"hidden_size": 16}, "must be torch.float32 of shape"),
        ({"switches": "rows+columns"}, "is missing or unexpected"),
        ({"hidden_size": 16384, "num_blocks": 1}, "hidden_size is 16384, its tensors hold"),
        ({"num_layers": 64}, "num_layers is 64"),
        ({"colour": 1}, "it holds 'colour', which is not one of its fields"),
    ],
)
def test_a_configuration_that_lies_is_refused_before_anything_is_built(
    setting: dict[str, object], complaint: str, tmp_path: Path
) -> None:
    config = {**network_values(Network(3, 8, 2)), **setting}
    metadata = {"format": FORMAT, "version": VERSION, "network": json.dumps(config)}
    content = seal(save(SequenceModel(Network(3, 8, 2)).state_dict(), metadata))
    (tmp_path / "model").write_bytes(content)
    with pytest.raises(InputError, match=complaint):
        load_model(tmp_path / "model")
