"""SequenceModel: what it reads out, of which layers, and its loss."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.nn.build import build_model
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
    model = build_model(config)
    x = example_input(config)
    recurrent = model.recurrent
    assert isinstance(recurrent, HadamRNN)
    states, h_n = recurrent(x if model.embedding is None else model.embedding(x))
    last = torch.cat(tuple(h_n[-recurrent.num_directions :]), dim=-1)
    wanted = states if config.every_output else last
    sigma = torch.relu(wanted) if config.recurrence == "linear" else wanted
    expected = nn.functional.linear(sigma, model.readout.quantized_weight(), model.readout.bias)

    torch.testing.assert_close(model(x), expected)


@pytest.mark.parametrize("recurrent_type", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize("every_output", [False, True])
def test_torchs_own_recurrent_layers_fit(
    recurrent_type: Callable[..., nn.RNNBase], every_output: bool
) -> None:
    recurrent = recurrent_type(3, 5, batch_first=True, bidirectional=True)
    model = SequenceModel(recurrent, 2, every_output=every_output, weight_bits=None)
    x = torch.randn(BATCH, TIME, 3)
    lengths = torch.tensor([9, 1, 4, 7])
    output, _ = recurrent(x)
    if every_output:
        torch.testing.assert_close(model(x), model.readout(output))
    else:
        ends = torch.cat([output[:, -1, :5], output[:, 0, 5:]], dim=-1)
        torch.testing.assert_close(model(x), model.readout(ends))
        for row, length in enumerate(lengths.tolist()):
            torch.testing.assert_close(model(x, lengths)[row : row + 1], model(x[row : row + 1, :length]))


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
def test_a_projected_lstm_fits() -> None:
    recurrent = nn.LSTM(3, 8, proj_size=5, batch_first=True, bidirectional=True)
    model, x = SequenceModel(recurrent, 2, every_output=True), torch.randn(BATCH, TIME, 3)

    torch.testing.assert_close(model(x), model.readout(recurrent(x)[0]))


@pytest.mark.parametrize("every_output", [False, True])
def test_an_empty_row_of_torchs_layers_gives_the_bias(every_output: bool) -> None:
    model = SequenceModel(nn.GRU(3, 5, batch_first=True), 2, every_output=every_output)
    logits = model(torch.randn(2, TIME, 3), torch.tensor([TIME, 0]))

    assert model.readout.bias is not None
    torch.testing.assert_close(logits[1], model.readout.bias.expand_as(logits[1]))
    assert not torch.equal(logits[0], logits[1])


def test_wrong_lengths_of_torchs_layers_are_refused() -> None:
    model, x = SequenceModel(nn.GRU(3, 5, batch_first=True), 2), torch.randn(2, TIME, 3)
    for lengths in (torch.tensor([1]), torch.tensor([1.5, 3.0])):
        with pytest.raises(InputError, match=r"lengths must be int64 of shape \(2,\)"):
            model(x, lengths)
    with pytest.raises(InputError, match=r"lengths must lie in 0\.\.9"):
        model(x, torch.tensor([3, TIME + 1]))
    with pytest.raises(InputError, match="need at least one time step, got none"):
        model(x[:, :0])


def test_one_hot_ids_are_one_hot_vectors() -> None:
    model = build_model(
        Network(input_size=5, hidden_size=8, output_size=2, input_kind="one_hot", every_output=True)
    )
    ids = torch.randint(5, (BATCH, TIME))
    dense = nn.functional.one_hot(ids, 5).float()
    model.one_hot = False
    expected = model(dense)
    model.one_hot = True

    torch.testing.assert_close(model(ids), expected)


@given(configs)
@settings(max_examples=20)
def test_streaming_gives_the_logits_of_every_step(config: Network) -> None:
    model = build_model(config)
    if config.bidirectional:
        return
    x = example_input(config)
    h = None
    steps = []
    for t in range(TIME):
        logits, h = model.step(x[:, t], h)
        steps.append(logits)

    model.every_output = True
    torch.testing.assert_close(torch.stack(steps, dim=1), model(x), atol=1e-5, rtol=1e-4)


def test_the_loss_follows_the_targets() -> None:
    x = torch.randn(BATCH, TIME, 3)
    many = build_model(Network(3, 8, 4))
    classes = torch.randint(4, (BATCH,))
    torch.testing.assert_close(many.loss(x, classes), nn.functional.cross_entropy(many(x), classes))
    binary = build_model(Network(3, 8, 1))
    labels = torch.randint(2, (BATCH,))
    expected = nn.functional.binary_cross_entropy_with_logits(binary(x)[:, 0], labels.float())
    torch.testing.assert_close(binary.loss(x, labels), expected)
    values = torch.randn(BATCH)
    torch.testing.assert_close(binary.loss(x, values), (binary(x)[:, 0] - values).square().mean())
    every = build_model(Network(3, 8, 4, every_output=True))
    targets = torch.randint(4, (BATCH, TIME))
    expected = nn.functional.cross_entropy(every(x).transpose(1, 2), targets)
    torch.testing.assert_close(every.loss(x, targets), expected)


def test_bad_models_and_inputs_are_refused() -> None:
    with pytest.raises(InputError, match="belongs to input_kind"):
        build_model(Network(3, 8, 2, input_kind="one_hot", vocabulary_size=5))
    with pytest.raises(InputError, match="batch_first=True"):
        SequenceModel(HadamRNN(3, 8), 2)
    with pytest.raises(InputError, match="batch_first=True"):
        SequenceModel(nn.GRU(3, 8), 2)
    layer = HadamRNN(3, 8, batch_first=True)
    with pytest.raises(InputError, match="must give vectors of 3 numbers, the layer's input_size, got 4"):
        SequenceModel(layer, 2, embedding=nn.Embedding(5, 4))
    with pytest.raises(InputError, match="one-hot vectors or through an embedding, got both"):
        SequenceModel(layer, 2, embedding=nn.Embedding(5, 3), one_hot=True)
    with pytest.raises(InputError, match="readouts must be one of last, mean, positive, max, got 'median'"):
        SequenceModel(layer, 2, readouts=("median",))
    with pytest.raises(InputError, match="Thresholds belong to the read-outs mean and positive"):
        SequenceModel(layer, 2, thresholds=2)
    with pytest.raises(InputError, match="answers after every step has the read-out last and stride 1"):
        SequenceModel(HadamRNN(3, 8, 2, stride=2, batch_first=True), 2, every_output=True)
    with pytest.raises(InputError, match="got Linear"):
        SequenceModel(nn.Linear(3, 8), 2)
    model = build_model(Network(3, 8, 2))
    with pytest.raises(InputError, match=r"Input must have shape \(batch, time, 3\), got \(4, 9\)"):
        model(torch.zeros(4, 9))
    with pytest.raises(InputError, match=r"Ids must have shape \(batch, time\), got \(4, 9, 3\)"):
        build_model(Network(3, 8, 2, input_kind="one_hot"))(torch.zeros(4, 9, 3))
    with pytest.raises(InputError, match="step needs a HadamRNN, this model holds a GRU"):
        SequenceModel(nn.GRU(3, 8, batch_first=True), 2).step(torch.zeros(1, 3))
