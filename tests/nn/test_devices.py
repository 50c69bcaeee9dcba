"""Every tensor is made on the device of the weights, whatever the default device is."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from hadamrnn.kernels import backend
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN

NETWORKS: list[dict[str, Any]] = [
    {},
    {"recurrence": "relu"},
    {"every_output": True},
    {"num_blocks": 2, "leak": (1, 2), "bidirectional": True, "num_layers": 2},
    {"num_layers": 2, "normalize": True, "skip": True, "stride": 2, "readouts": ("mean", "max", "positive")},
]


@pytest.fixture(params=["native", "torch"])
def without_or_with_kernels(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "torch":
        monkeypatch.setattr(backend, "native_is_loaded", lambda: False)


def run(model: SequenceModel, x: Tensor, lengths: Tensor, y: Tensor) -> None:
    model.loss(x, y, lengths).backward()
    model.eval()(x)


@pytest.mark.usefixtures("without_or_with_kernels")
@pytest.mark.parametrize("options", NETWORKS)
def test_another_default_device_changes_nothing(options: dict[str, Any]) -> None:
    network = Network(3, 8, 2, **options)
    model, x, lengths = SequenceModel(network), torch.randn(4, 9, 3), torch.tensor([9, 4, 1, 6])
    y = torch.zeros((4, 9) if network.every_output else 4, dtype=torch.int64)
    with torch.device("meta"):
        run(model, x, lengths, y)

    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize("options", NETWORKS)
def test_a_model_on_another_device_computes_there(options: dict[str, Any]) -> None:
    model = SequenceModel(Network(3, 8, 2, **options)).to("meta").eval()

    assert model(torch.empty(4, 9, 3, device="meta")).device.type == "meta"


def test_a_layer_is_made_where_it_is_asked_for() -> None:
    rnn = HadamRNN(3, 8, 2, normalize=True, device="meta")
    output, h_n = rnn.eval()(torch.empty(9, 4, 3, device="meta"))

    assert (output.shape, h_n.shape) == ((9, 4, 8), (2, 4, 8))
    assert {tensor.device.type for tensor in (output, h_n, *rnn.state_dict().values())} == {"meta"}
