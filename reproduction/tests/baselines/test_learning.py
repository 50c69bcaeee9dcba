"""Each baseline learns within a few seconds, and its weights meet their constraint while it does."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig, resolve_config
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.loop import fit
from hadamrnn.training.models import build
from hadamrnn_paper.baselines.networks import KINDS, MAPS
from hadamrnn_paper.baselines.orthogonal import ORNN, QORNN, NaiveBinaryRNN
from hadamrnn_paper.baselines.quantized_lstm import BinaryLSTM, QuantizedLSTM, glorot_width

CHANCE, MARGIN = 0.1, 0.5


@pytest.fixture(scope="module")
def digits() -> Splits:
    """Return digits read row by row: 8 steps of 8 pixels, so that a test takes seconds."""
    splits = load_task("digits")

    def by_rows(split: Split) -> Split:
        return replace(split, x=split.x.reshape(-1, 8, 8))

    return replace(
        splits,
        seq_length=8,
        input_size=8,
        train=by_rows(splits.train),
        validation=by_rows(splits.validation),
        test=by_rows(splits.test),
    )


def recipe(model: str, **settings: Any) -> TrainingConfig:
    values = {"hidden_size": 24, "epochs": 6, "learning_rate": 1e-2, "model": model, **settings}
    return resolve_config("digits", preset="quick", overrides=values)


def trained(splits: Splits, model: str, **settings: Any) -> SequenceModel:
    torch.manual_seed(0)
    config = recipe(model, **settings)
    return fit(build(config, splits), splits, config).model.eval()


@pytest.mark.parametrize("model", KINDS)
def test_each_baseline_beats_chance_by_half(model: str, digits: Splits) -> None:
    network = trained(digits, model)

    assert evaluate(network, digits.test, "accuracy") > CHANCE + MARGIN


def assert_orthogonal(weight: Tensor) -> None:
    torch.testing.assert_close(weight @ weight.T, torch.eye(len(weight)), atol=1e-4, rtol=0)


@pytest.mark.parametrize("recurrence", ["linear", "relu"])
@pytest.mark.parametrize("orthogonal_map", MAPS)
def test_an_ornn_is_orthogonal_after_training(orthogonal_map: str, recurrence: str, digits: Splits) -> None:
    options = {"orthogonal_map": orthogonal_map}
    network = trained(digits, "ornn", epochs=3, recurrence=recurrence, **options)
    assert isinstance(network.recurrent, ORNN)

    assert_orthogonal(network.recurrent.recurrent_weight().detach())
    assert evaluate(network, digits.test, "accuracy") > CHANCE + MARGIN


@pytest.mark.parametrize("bits", [8, 5, "ternary"])
def test_a_qornn_is_orthogonal_before_and_on_its_grid_after_quantization(
    bits: int | str, digits: Splits
) -> None:
    network = trained(digits, "qornn", epochs=3, weight_bits=bits)
    assert isinstance(network.recurrent, QORNN)

    assert_orthogonal(network.recurrent.orthogonal_weight().detach())
    levels = 1 if bits == "ternary" else 2 ** (int(bits) - 1)
    exact = network.recurrent.orthogonal_weight()
    for weight, scale in (
        (network.recurrent.recurrent_weight(), exact.abs().max()),
        (network.recurrent.used_input_weight(), network.recurrent.input_weight.abs().max()),
    ):
        codes = (weight / scale * levels).detach()
        torch.testing.assert_close(codes, codes.round(), atol=1e-3, rtol=0)
        assert len(codes.round().unique()) <= (3 if bits == "ternary" else 2 * levels)


@pytest.mark.parametrize("stochastic", [True, False])
@pytest.mark.parametrize(("model", "allowed"), [("binary_lstm", {-1, 1}), ("ternary_lstm", {-1, 0, 1})])
def test_binary_and_ternary_lstms_hold_only_their_values(
    model: str, allowed: set[int], stochastic: bool, digits: Splits
) -> None:
    network = trained(digits, model, epochs=2, stochastic=stochastic)
    recurrent = network.recurrent
    assert isinstance(recurrent, BinaryLSTM)

    for mode in (True, False):  # sampled in training, rounded otherwise
        for weight in recurrent.train(mode).quantized_weights():
            codes = (weight / glorot_width(weight)).detach()
            assert {round(code, 5) for code in codes.unique().tolist()} <= allowed
    latent = recurrent.recurrent_weight
    assert float(latent.detach().abs().max()) <= glorot_width(latent) * (1 + 1e-6)


@pytest.mark.parametrize(("bits", "most"), [(1, 2), (2, 4), (4, 16)])
def test_a_quantized_lstm_holds_two_to_the_p_values(bits: int, most: int, digits: Splits) -> None:
    network = trained(digits, "quantized_lstm", epochs=1, weight_bits=bits, activation_bits=4)
    assert isinstance(network.recurrent, QuantizedLSTM)

    assert all(len(weight.unique()) <= most for weight in network.recurrent.quantized_weights())
    states = network.recurrent.every_state(torch.rand(5, 8, 8)) * 7
    torch.testing.assert_close(states, states.round(), atol=1e-5, rtol=0)


def test_the_naive_binary_weight_is_binary_and_no_longer_near_orthogonal(digits: Splits) -> None:
    network = trained(digits, "naive_binary_rnn", epochs=1)
    assert isinstance(network.recurrent, NaiveBinaryRNN)
    weight = network.recurrent.recurrent_weight().detach()

    assert set(weight.unique().tolist()) == {-weight.max().item(), weight.max().item()}
    torch.testing.assert_close(weight.square().sum(1), torch.ones(24))
    assert float((weight @ weight.T - torch.eye(24)).abs().max()) > 0.1
