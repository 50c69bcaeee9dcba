"""Models on disk: restored bit for bit, or refused."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from safetensors import safe_open

from hadamrnn.errors import InputError
from hadamrnn.files import seal
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.stack import HadamStack
from hadamrnn.nn.storage import check_finite, load_model, save_model
from tests.nn.test_model import BATCH, TIME, configs, example_input


@given(configs)
@settings(max_examples=25)
def test_a_saved_model_answers_with_the_same_bits(config: Network) -> None:
    model = SequenceModel(config)
    x = example_input(config)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        save_model(model, path)
        loaded = load_model(path)
        with safe_open(path, framework="pt") as file:
            shapes = {name: file.get_slice(name).get_shape() for name in file.keys()}

    assert loaded.network == config
    assert torch.equal(loaded(x), model(x))
    signs = [shape for name, shape in shapes.items() if "sign" in name]
    assert signs and all(shape == [config.hidden_size] for shape in signs)
    # Only stacked layers have an input as wide as the state; the recurrent weight itself is never there.
    square = [name for name, shape in shapes.items() if shape == [config.hidden_size, config.hidden_size]]
    assert all("input_weight" in name for name in square) and len(square) <= config.num_layers - 1


def test_nan_weights_are_refused_when_saving_and_loading_but_not_in_forward(tmp_path: Path) -> None:
    model = SequenceModel(Network(3, 8, 2))
    path = tmp_path / "model.safetensors"
    save_model(model, path)
    before = path.read_bytes()
    with torch.no_grad():
        model.readout.weight[0, 0] = torch.nan
    assert model(torch.randn(BATCH, TIME, 3)).isnan().any()
    with pytest.raises(InputError, match=r"readout.weight holds NaN"):
        save_model(model, path)
    assert path.read_bytes() == before
    with pytest.raises(InputError, match="holds NaN"):
        check_finite(model)

    model.readout.weight.data[0, 0] = 0.5
    save_model(model, path)
    content = bytearray(path.read_bytes())
    content[-4:] = b"\xff\xff\xff\xff"  # a NaN in the last float
    path.write_bytes(bytes(content))
    with pytest.raises(InputError, match="checksum does not match"):
        load_model(path)
    path.write_bytes(seal(bytes(content)))
    with pytest.raises(InputError, match="holds NaN or infinity"):
        load_model(path)


def test_files_that_are_no_models_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    path.write_bytes(b"not a model")
    with pytest.raises(InputError, match="no safetensors file"):
        load_model(path)
    from safetensors.torch import save, save_file

    from hadamrnn.files import seal

    save_file({"w": torch.zeros(2)}, path)
    with pytest.raises(InputError, match="version 3, got format None"):
        load_model(path)
    for network, message in (
        ('{"kind": "hadamrnn"}', "it has no input_size"),
        ('{"input_size": 1}', "it has no kind"),
        (
            '{"kind": "hadamrnn", "input_size": 1, "hidden_size": 4, "output_size": 1, "model": "x"}',
            "it holds 'model'",
        ),
    ):
        metadata = {"format": "hadamrnn", "version": "3", "network": network}
        path.write_bytes(seal(save({"w": torch.zeros(2)}, metadata)))
        with pytest.raises(InputError, match=message):
            load_model(path)
    metadata["network"] = '{"kind": "hadamrnn", "input_size": 1, "hidden_size": 4, "output_size": 1}'
    path.write_bytes(seal(save({"w": torch.zeros(2)}, metadata)))
    with pytest.raises(InputError, match=r"hidden_size is 4, .* 2 numbers"):
        load_model(path)
    with pytest.raises(InputError, match="No such file"):
        load_model(tmp_path / "missing.safetensors")


def test_what_a_file_cannot_hold_is_refused_when_saving(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    with pytest.raises(InputError, match=r"got torch\.bfloat16"):
        save_model(SequenceModel(Network(3, 8, 2)).bfloat16(), path)
    model = SequenceModel(Network(3, 8, 2, normalize=True))
    assert model.feature_scale is not None
    model.feature_scale.running_mean[0] = torch.nan
    with pytest.raises(InputError, match=r"feature_scale\.running_mean holds NaN"):
        save_model(model, path)

    assert not path.exists()


def test_a_compiled_model_is_saved_as_the_model_it_is(tmp_path: Path) -> None:
    model, path = SequenceModel(Network(3, 8, 2)), tmp_path / "model.safetensors"
    save_model(torch.compile(model, backend="eager"), path)  # type: ignore[arg-type]
    x = torch.randn(BATCH, TIME, 3)

    assert torch.equal(load_model(path)(x), model(x))


def test_a_weight_that_two_layers_share_is_saved_for_each(tmp_path: Path) -> None:
    model, path = SequenceModel(Network(8, 8, 2, num_layers=2)), tmp_path / "model.safetensors"
    assert isinstance(model.recurrent, HadamStack)
    model.recurrent.cell(1).input_weight = model.recurrent.cell(0).input_weight
    save_model(model, path)
    x = torch.randn(BATCH, TIME, 8)

    assert torch.equal(load_model(path)(x), model(x))
