"""SequenceModel: read-outs, layers and loss."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hadamrnn.architecture import Architecture
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN

BATCH, TIME = 4, 9

configs = st.builds(
    lambda vocabulary_size, **fields: Network(
        **fields,
        vocabulary_size=vocabulary_size,
        input_kind="dense" if vocabulary_size is None else "embedded",
    ),
    input_size=st.just(3),
    hidden_size=st.sampled_from([8, 24]),
    output_size=st.integers(1, 3),
    num_layers=st.integers(1, 2),
    bidirectional=st.booleans(),
    num_blocks=st.sampled_from([1, 2]),
    weight_bits=st.sampled_from([None, 2, 4, "ternary"]),
    recurrence=st.sampled_from(["linear", "relu"]),
    switches=st.sampled_from(["rows", "rows+columns"]),
    vocabulary_size=st.sampled_from([None, 11]),
    every_output=st.booleans(),
)


def example_input(config: Network) -> torch.Tensor:
    if config.takes_ids:
        return torch.randint(config.vocabulary_size or config.input_size, (BATCH, TIME))
    return torch.randn(BATCH, TIME, config.input_size)


@given(configs)
@settings(max_examples=40)
def test_a_model_reads_out_v_sigma_h(config: Network) -> None:
    model = SequenceModel(config)
    x = example_input(config)
    rows = x if model.embedding is None else model.embedding(x)
    wanted = model.recurrent.every_state(rows) if config.every_output else model.recurrent.end_state(rows)
    sigma = torch.relu(wanted) if config.recurrence == "linear" else wanted
    expected = nn.functional.linear(sigma, model.readout.quantized_weight(), model.readout.bias)

    torch.testing.assert_close(model(x), expected)


def test_one_hot_ids_are_one_hot_vectors() -> None:
    network = Network(input_size=5, hidden_size=8, output_size=2, every_output=True)
    dense, one_hot = SequenceModel(network), SequenceModel(replace(network, input_kind="one_hot"))
    one_hot.load_state_dict(dense.state_dict())
    ids = torch.randint(5, (BATCH, TIME))

    torch.testing.assert_close(one_hot(ids), dense(nn.functional.one_hot(ids, 5).float()))


@given(configs)
@settings(max_examples=20)
def test_streaming_gives_the_logits_of_every_step(config: Network) -> None:
    model = SequenceModel(config)
    if config.bidirectional:
        return
    x = example_input(config)
    h = None
    steps = []
    for t in range(TIME):
        logits, h = model.step(x[:, t], h)
        steps.append(logits)

    every = SequenceModel(replace(config, every_output=True))
    every.load_state_dict(model.state_dict())
    torch.testing.assert_close(torch.stack(steps, dim=1), every(x), atol=1e-5, rtol=1e-4)


def test_the_loss_follows_the_targets() -> None:
    x = torch.randn(BATCH, TIME, 3)
    many = SequenceModel(Network(3, 8, 4))
    classes = torch.randint(4, (BATCH,))
    torch.testing.assert_close(many.loss(x, classes), nn.functional.cross_entropy(many(x), classes))
    binary = SequenceModel(Network(3, 8, 1))
    labels = torch.randint(2, (BATCH,))
    expected = nn.functional.binary_cross_entropy_with_logits(binary(x)[:, 0], labels.float())
    torch.testing.assert_close(binary.loss(x, labels), expected)
    values = torch.randn(BATCH)
    torch.testing.assert_close(binary.loss(x, values), (binary(x)[:, 0] - values).square().mean())
    every = SequenceModel(Network(3, 8, 4, every_output=True))
    targets = torch.randint(4, (BATCH, TIME))
    expected = nn.functional.cross_entropy(every(x).transpose(1, 2), targets)
    torch.testing.assert_close(every.loss(x, targets), expected)


@dataclass(frozen=True)
class BareGRU(Architecture):
    kind = "bare"

    def recurrent_layer(self) -> nn.GRU:
        return nn.GRU(self.input_size, self.hidden_size, batch_first=True)


def test_bad_models_and_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="belongs to input_kind"):
        SequenceModel(Network(3, 8, 2, input_kind="one_hot", vocabulary_size=5))
    with pytest.raises(InputError, match="got HadamRNN"):
        SequenceModel(HadamRNN(3, 8))  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"RecurrentLayer .*3.*got GRU"):
        SequenceModel(BareGRU(3, 8, 2))
    model = SequenceModel(Network(3, 8, 2))
    with pytest.raises(InputError, match=r"\(batch, time, 3\), got \(4, 9\)"):
        model(torch.zeros(4, 9))
    with pytest.raises(InputError, match=r"\(batch, time\), got \(4, 9, 3\)"):
        SequenceModel(Network(3, 8, 2, input_kind="one_hot"))(torch.zeros(4, 9, 3))
