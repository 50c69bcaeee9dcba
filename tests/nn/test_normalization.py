"""Normalised stacks evaluate correctly in a user's own loop."""

from __future__ import annotations

import copy

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_sequence

from hadamrnn import HadamRNN, Network, SequenceModel, refresh_statistics
from hadamrnn.errors import InputError
from hadamrnn.nn.normalization import FeatureScale, UnitNorm


class Classifier(nn.Module):
    """Two normalised layers and a linear read-out, as a user writes them."""

    def __init__(self) -> None:
        super().__init__()
        self.rnn = HadamRNN(1, 64, 2, batch_first=True, normalize=True, dropout=0.1)
        self.head = nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.head(self.rnn(x)[0][:, -1])
        return logits


@torch.no_grad()
def accuracy(model: nn.Module, x: Tensor, y: Tensor) -> float:
    return 100 * float((model(x).argmax(1) == y).double().mean())


def test_every_evaluation_of_a_plain_loop_is_within_a_point_of_batch_statistics() -> None:
    torch.manual_seed(0)
    digits = load_digits()
    x, y = torch.tensor(digits.data / 16, dtype=torch.float32)[:, :, None], torch.tensor(digits.target)
    train, test = slice(0, 1000), slice(1000, 1797)
    model = Classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for _ in range(4):
        for rows in torch.randperm(1000).split(50):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x[rows]), y[rows]).backward()
            optimizer.step()
        refresh_statistics(model, zip(x[train].split(250), y[train].split(250), strict=True))
        assert all(module.training for module in model.modules())
        by_batch = copy.deepcopy(model).eval()
        for norm in by_batch.rnn.norms:
            norm.train()
        found = accuracy(copy.deepcopy(model).eval(), x[test], y[test])

        assert found == pytest.approx(accuracy(by_batch, x[test], y[test]), abs=1)
    assert found > 60


def test_refreshed_statistics_are_those_of_the_batches_and_nothing_else_changes() -> None:
    model = SequenceModel(Network(3, 8, 2, num_layers=2, normalize=True, dropout=0.5, readouts=("mean",)))
    x, lengths = torch.randn(4, 9, 3), torch.tensor([9, 0, 5, 2])
    before = {name: value.clone() for name, value in model.named_parameters()}
    model.eval()
    refresh_statistics(model, [(x, lengths)] * 3, lambda batch: model(*batch))
    states, _ = model.hadamard_layers.layer_states(x, lengths)[0]
    counted = torch.cat([row[:length] for row, length in zip(states, lengths, strict=True)])
    norm = model.hadamard_layers.norm(0)

    torch.testing.assert_close(norm.running_mean, counted.mean(0))
    torch.testing.assert_close(norm.running_var, counted.var(0, correction=0))
    assert not any(module.training for module in model.modules())
    assert all(torch.equal(value, before[name]) for name, value in model.named_parameters())


def test_packed_rows_count_as_an_input_and_no_batch_is_refused() -> None:
    rnn = HadamRNN(3, 8, 2, normalize=True)
    rows = [torch.randn(length, 3) for length in (7, 4)]
    refresh_statistics(rnn, [pack_sequence(rows)])

    assert int(rnn.norm(0).batches) == 1
    with pytest.raises(InputError, match=r"refresh_statistics .* got none"):
        refresh_statistics(rnn, [])


def test_a_reset_norm_is_a_fresh_one() -> None:
    for norm in (UnitNorm(4), FeatureScale(4)):
        fresh = copy.deepcopy(norm.state_dict())
        norm(torch.randn(5, 3, 4) + 7)
        assert any(not torch.equal(value, fresh[name]) for name, value in norm.state_dict().items())
        norm.reset_parameters()

        assert all(torch.equal(value, fresh[name]) for name, value in norm.state_dict().items())


@pytest.mark.parametrize("every_output", [False, True])
def test_every_parameter_of_a_normalised_model_gets_a_gradient(every_output: bool) -> None:
    model = SequenceModel(Network(3, 8, 2, num_layers=2, normalize=True, every_output=every_output))
    model(torch.randn(4, 6, 3)).square().sum().backward()

    assert all(parameter.grad is not None for parameter in model.parameters())


def test_a_layers_output_is_normalised_in_training_and_in_evaluation() -> None:
    torch.manual_seed(0)
    rnn, x = HadamRNN(3, 8, num_layers=2, normalize=True, batch_first=True), torch.randn(5, 20, 3)
    with torch.no_grad():
        rnn.norm(1).bias.fill_(10.0)  # ReLU changes nothing then

    output, _ = rnn(x)

    torch.testing.assert_close(output.mean((0, 1)), torch.full((8,), 10.0))
    torch.testing.assert_close(output.var((0, 1), correction=0), torch.ones(8), rtol=1e-3, atol=0)
    state, steps = None, []
    for x_t in x.unbind(1):
        y, state = rnn.eval().step(x_t, state)
        steps.append(y)
    torch.testing.assert_close(rnn(x)[0], torch.stack(steps, 1), rtol=1e-4, atol=1e-4)
