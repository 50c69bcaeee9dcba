"""Float networks in the state after training, and inputs that integers read without rounding."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.normalization import UnitNorm

LEVELS = 255
TIME = 12  # enough for a step of three layers with stride 3


def random_model(seed: int, **options: Any) -> SequenceModel:
    torch.manual_seed(seed)
    config = {"input_size": 3, "hidden_size": 16, "output_size": 2, **options}
    return SequenceModel(Network(**config)).double()


def random_inputs(model: SequenceModel, batch: int, time: int) -> Tensor:
    """Inputs that the integer network reads without rounding: ids, or pixels."""
    network = model.network
    assert network is not None
    if network.takes_ids:
        return torch.randint(0, network.vocabulary_size or network.input_size, (batch, time))
    return torch.randint(0, LEVELS + 1, (batch, time, network.input_size)).double() / LEVELS


def drawn_model(network: Network, seed: int) -> tuple[SequenceModel, Tensor]:
    """Return a float64 network with statistics as after training, and inputs without rounding."""
    torch.manual_seed(seed)
    model = SequenceModel(network).double()
    x = random_inputs(model, 6, TIME)
    with_statistics(model, x)
    if model.thresholds is not None:
        model.set_thresholds(x)
    return model, x


def with_statistics(model: SequenceModel, x: Tensor) -> None:
    """Set the statistics of normalisation from a batch, and give each unit a different scale and bias."""
    for module in model.modules():
        if isinstance(module, UnitNorm):
            nn.init.uniform_(module.weight, -0.5, 1.5)
            nn.init.uniform_(module.bias, -0.5, 0.5)
    model.train()
    model(x)
    model.eval()
