"""Files of earlier versions load and give the bits that the version which wrote them gave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

from hadamrnn.nn.build import load_model
from hadamrnn.training.config import read_config

GOLDEN = Path(__file__).parent / "golden"
FIGURES = json.loads((GOLDEN / "golden.json").read_text())


@pytest.mark.parametrize("name", ["dense", "one_hot", "embedded", "unbiased", "lstm"])
def test_a_float_model_of_version_1_answers_as_it_did(name: str) -> None:
    model = load_model(GOLDEN / f"{name}.v1.safetensors").eval()
    with torch.no_grad():
        logits = model(torch.tensor(FIGURES[name]["x"]))

    # Another processor sums in another order.
    torch.testing.assert_close(logits, torch.tensor(FIGURES[name]["logits"]), rtol=1e-5, atol=1e-6)
    assert model.network is not None and model.network.input_bias is (name != "unbiased")


def test_a_configuration_of_version_1_says_the_same_network() -> None:
    config = read_config(GOLDEN / "config.v1.yaml")

    assert (config.network.hidden_size, config.network.input_bias, config.steps) == (8, False, 6)
