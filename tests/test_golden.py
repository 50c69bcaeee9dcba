"""Stored models and configurations give the same results as when they were written."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pytest
import torch

import hadamrnn
from hadamrnn.network import Network, hadamard
from hadamrnn.nn.storage import load_model
from hadamrnn.training.config import read_config

GOLDEN = Path(__file__).parent / "golden"
FIGURES = json.loads((GOLDEN / "golden.json").read_text())


@pytest.mark.parametrize("name", ["dense", "one_hot", "embedded", "unbiased", "lstm"])
def test_a_stored_float_model_answers_as_it_did(name: str) -> None:
    model = load_model(GOLDEN / f"{name}.safetensors").eval()
    with torch.no_grad():
        logits = model(torch.tensor(FIGURES[name]["x"]))

    # Other processors sum in another order.
    torch.testing.assert_close(logits, torch.tensor(FIGURES[name]["logits"]), rtol=1e-5, atol=1e-6)
    if isinstance(model.network, Network):
        assert model.network.input_bias is (name != "unbiased")


def test_a_stored_configuration_says_the_same_network() -> None:
    config = read_config(GOLDEN / "config.yaml")

    network = hadamard(config.network)
    assert (network.hidden_size, network.input_bias, config.steps) == (8, False, 6)


CALLS = json.loads((GOLDEN / "calls.json").read_text())


@pytest.mark.parametrize("name", CALLS)
def test_what_a_call_or_a_file_leaves_out_keeps_its_value(name: str) -> None:
    found = json.loads(json.dumps(defaults(name)))

    assert {option: found.get(option) for option in CALLS[name]} == CALLS[name]


def defaults(name: str) -> dict[str, object]:
    """Return the default values of a public function or class."""
    parameters = inspect.signature(getattr(hadamrnn, name)).parameters.values()
    return {each.name: each.default for each in parameters if _is_plain(each.default)}


def _is_plain(value: object) -> bool:
    return isinstance(value, int | float | str | None) or (
        isinstance(value, tuple) and all(map(_is_plain, value))
    )
