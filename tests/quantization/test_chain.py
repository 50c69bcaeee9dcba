"""Fine-tuning with the integers in the loop."""

from __future__ import annotations

from dataclasses import replace

import torch

from hadamrnn.data.splits import Split
from hadamrnn.data.tasks import load_task
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel, target_loss
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.calibration import RawInputs, calibrate
from hadamrnn.quantization.chain import RECIPE, IntegerNetwork, finetune, integer_logits, quantize
from hadamrnn.quantization.lowering import lower
from hadamrnn.quantization.results import Saturation, saturation
from hadamrnn.training.config import make_config
from hadamrnn.training.models import build


def test_forward_is_the_integers_and_backward_the_float_network() -> None:
    torch.manual_seed(0)
    model = SequenceModel(Network(2, 16, 3)).double()
    x = torch.rand(5, 9, 2, dtype=torch.float64)
    target = torch.randint(0, 3, (5,))
    integer = lower(model, calibrate(model, [(x, None)]), activation_bits=8)
    direction = torch.randn(5, 3, dtype=torch.float64)
    parameters = list(model.parameters())

    logits = integer_logits(model, integer, x)

    assert torch.equal(logits, IntegerNetwork(integer)(x))
    straight = torch.autograd.grad((logits * direction).sum(), parameters)
    plain = torch.autograd.grad((model(x) * direction).sum(), parameters)
    assert all(torch.equal(left, right) for left, right in zip(straight, plain, strict=True))
    torch.testing.assert_close(target_loss(model(x), target), model.loss(x, target))


def test_an_integer_network_counts_what_it_clips_and_a_float_network_clips_nothing() -> None:
    torch.manual_seed(0)
    model = SequenceModel(Network(2, 16, 3)).double()
    quiet = torch.rand(5, 9, 2, dtype=torch.float64)
    network = IntegerNetwork(lower(model, calibrate(model, [(quiet, None)]), activation_bits=8))

    assert saturation(model) is None
    network(quiet)
    assert saturation(network) == Saturation(states=0, inputs=0)
    network(100 * quiet)
    clipped = saturation(network)
    assert clipped is not None and 0 < clipped.states <= 5 * 9 * 16 and 0 < clipped.inputs <= 5 * 9 * 2


def accuracy(integer: IntegerModel, split: Split) -> float:
    x, y, _ = split.batch(slice(None))
    assert y is not None
    return float((IntegerNetwork(integer)(x).argmax(-1) == y).double().mean())


def trained_digits() -> SequenceModel:
    """A network of 32 units after a few epochs of scikit-learn's digits, with frozen signs."""
    torch.manual_seed(0)
    splits = load_task("digits")
    model = SequenceModel(Network(1, 32, 10))
    moving = [parameter for name, parameter in model.named_parameters() if "latent" not in name]
    optimizer = torch.optim.Adam(moving, lr=5e-3)
    for _ in range(6):
        for rows in torch.randperm(len(splits.train)).split(64):
            x, y, _ = splits.train.batch(rows)
            assert y is not None
            optimizer.zero_grad()
            model.loss(x, y).backward()
            optimizer.step()
    return model


def test_finetuning_gains_what_few_bits_lose() -> None:
    model = trained_digits()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    splits = load_task("digits")
    x, _, _ = splits.train.batch(slice(None))
    calibration = calibrate(model, [(x, None)])

    def lower_to_six_bits(network: SequenceModel) -> IntegerModel:
        return lower(network, calibration, activation_bits=6, raw=RawInputs(levels=splits.levels))

    def score(network: SequenceModel) -> float:
        return accuracy(lower_to_six_bits(network), splits.validation)

    recipe = replace(RECIPE, steps=60, learning_rate=2e-3, evaluate_every=20)
    tuned = finetune(model, splits, lower_to_six_bits, recipe)

    assert score(tuned) > score(model) + 0.05
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    latent = "recurrent.cells.0.latent_signs"
    assert torch.equal(tuned.state_dict()[latent], before[latent])


def test_finetuning_is_never_worse() -> None:
    """A learning rate that ruins every weight leaves the network unchanged."""
    model = trained_digits()
    splits = load_task("digits")
    x, _, _ = splits.train.batch(slice(None))
    calibration = calibrate(model, [(x, None)])
    recipe = replace(RECIPE, steps=2, evaluate_every=1, learning_rate=10.0)

    tuned = finetune(model, splits, lambda network: lower(network, calibration), recipe)

    for name, value in tuned.state_dict().items():
        assert torch.equal(value, model.state_dict()[name])


def test_a_network_without_an_input_bias_gets_none_by_finetuning() -> None:
    splits = load_task("digits")
    config = make_config(task="digits", epochs=1, hidden_size=16, input_bias=False)
    recipe = replace(RECIPE, steps=3, learning_rate=1e-2, evaluate_every=1)
    integer = quantize(build(config, splits), splits, QuantizeConfig(finetune=recipe))

    assert integer.layers[0].input_bias_int is None and not integer.network.input_bias
