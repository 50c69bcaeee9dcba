"""Stored models and configurations give what they gave when they were written."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from hadamrnn.network import Network, hadamard
from hadamrnn.nn.storage import load_model
from hadamrnn.training.config import TrainingConfig, read_config

GOLDEN = Path(__file__).parent / "golden"
FIGURES = json.loads((GOLDEN / "golden.json").read_text())


@pytest.mark.parametrize("name", ["dense", "one_hot", "embedded", "unbiased", "lstm"])
def test_a_stored_float_model_answers_as_it_did(name: str) -> None:
    model = load_model(GOLDEN / f"{name}.safetensors").eval()
    with torch.no_grad():
        logits = model(torch.tensor(FIGURES[name]["x"]))

    # Another processor sums in another order.
    torch.testing.assert_close(logits, torch.tensor(FIGURES[name]["logits"]), rtol=1e-5, atol=1e-6)
    if isinstance(model.network, Network):
        assert model.network.input_bias is (name != "unbiased")


def test_a_stored_configuration_says_the_same_network() -> None:
    config = read_config(GOLDEN / "config.yaml")

    network = hadamard(config.network)
    assert (network.hidden_size, network.input_bias, config.steps) == (8, False, 6)


@pytest.mark.parametrize("kind", [Network, TrainingConfig])
def test_a_setting_that_a_file_leaves_out_keeps_its_value(kind: type[Network] | type[TrainingConfig]) -> None:
    golden = json.loads((GOLDEN / "settings.json").read_text())

    assert json.loads(json.dumps(defaults(kind))) == golden[kind.__name__]


def defaults(kind: type[Network] | type[TrainingConfig]) -> dict[str, object]:
    return {
        each.name: each.default
        for each in dataclasses.fields(kind)
        if each.default is not dataclasses.MISSING
    }
