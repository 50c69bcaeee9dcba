"""HadamRNN replaces torch.nn.RNN."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pack_sequence, pad_packed_sequence

from hadamrnn.errors import InputError
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.interface import Tokens
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.nn.weight import recurrent_weight

BATCH, TIME, INPUT_SIZE, HIDDEN_SIZE = 3, 7, 2, 8

shapes = st.fixed_dictionaries(
    {
        "num_layers": st.integers(1, 2),
        "bidirectional": st.booleans(),
        "batch_first": st.booleans(),
        "bias": st.booleans(),
    }
)
networks = st.fixed_dictionaries(
    {
        "num_blocks": st.sampled_from([1, 2, 4]),
        "weight_bits": st.sampled_from([None, 2, 4, "ternary"]),
        "recurrence": st.sampled_from(["linear", "relu"]),
        "switches": st.sampled_from(["rows", "rows+columns"]),
    }
)


def copy_into_torch_rnn(layer: HadamRNN) -> nn.RNN:
    """Return torch's ReLU RNN with the dense weights of `layer`."""
    twin = nn.RNN(
        layer.input_size,
        layer.hidden_size,
        layer.num_layers,
        nonlinearity="relu",
        batch_first=layer.batch_first,
        bidirectional=layer.bidirectional,
        dtype=torch.float64,
    )
    state = {}
    for index, cell in enumerate(layer.cells):
        assert isinstance(cell, HadamCell)
        depth, direction = divmod(index, layer.network.directions)
        suffix = f"l{depth}" + ("_reverse" if direction else "")
        bias = torch.zeros(layer.hidden_size) if cell.input_bias is None else cell.input_bias
        state[f"weight_ih_{suffix}"] = cell.quantized_weight()
        state[f"weight_hh_{suffix}"] = recurrent_weight(cell.signs(), cell.block_size, cell.column_signs())
        state[f"bias_ih_{suffix}"] = bias
        state[f"bias_hh_{suffix}"] = torch.zeros(layer.hidden_size)
    twin.load_state_dict(state)
    return twin


@given(shapes, networks, st.booleans())
@settings(max_examples=40)
def test_a_relu_hadamrnn_is_torchs_relu_rnn_with_the_dense_weights(
    shape: dict[str, bool], network: dict[str, str], start: bool
) -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, **shape, **{**network, "recurrence": "relu"}).double()  # type: ignore[arg-type]
    twin = copy_into_torch_rnn(layer)
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    x = x if layer.batch_first else x.transpose(0, 1)
    depth = layer.num_layers * layer.network.directions
    h_0 = torch.randn(depth, BATCH, HIDDEN_SIZE, dtype=torch.float64) if start else None

    for got, expected in zip(layer(x, h_0), twin(x, h_0), strict=True):
        torch.testing.assert_close(got, expected)


@given(shapes, networks, st.lists(st.integers(1, TIME), min_size=1, max_size=5), st.booleans())
@settings(max_examples=40)
def test_packed_rows_are_the_rows_by_themselves(
    shape: dict[str, bool], network: dict[str, str], lengths: list[int], start: bool
) -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, **{**shape, "batch_first": True}, **network).double()  # type: ignore[arg-type]
    x = torch.randn(len(lengths), TIME, INPUT_SIZE, dtype=torch.float64)
    depth = layer.num_layers * layer.network.directions
    h_0 = torch.randn(depth, len(lengths), HIDDEN_SIZE, dtype=torch.float64) if start else None
    packed = pack_padded_sequence(x, torch.tensor(lengths), batch_first=True, enforce_sorted=False)
    packed_output, h_n = layer(packed, h_0)
    output, got_lengths = pad_packed_sequence(packed_output, batch_first=True)

    assert got_lengths.tolist() == lengths
    for row, length in enumerate(lengths):
        alone, last = layer(x[row, :length], None if h_0 is None else h_0[:, row])
        torch.testing.assert_close(output[row, :length], alone)
        torch.testing.assert_close(h_n[:, row], last)
        assert not output[row, length:].any()


@given(shapes, networks)
@settings(max_examples=30)
def test_last_state_is_the_h_n_of_forward(shape: dict[str, bool], network: dict[str, str]) -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, **shape, **network).double()  # type: ignore[arg-type]
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    x = x if layer.batch_first else x.transpose(0, 1)
    h_0 = torch.randn(layer.num_layers * layer.network.directions, BATCH, HIDDEN_SIZE, dtype=torch.float64)

    torch.testing.assert_close(layer.last_state(x, h_0), layer(x, h_0)[1])
    torch.testing.assert_close(layer.last_state(x[:, 0], h_0[:, 0]), layer(x[:, 0], h_0[:, 0])[1])


@given(networks, st.integers(1, 3))
@settings(max_examples=30)
def test_streaming_step_by_step_is_forward(network: dict[str, str], num_layers: int) -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, num_layers, batch_first=True, **network).double()  # type: ignore[arg-type]
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    output, h_n = layer(x)
    with torch.no_grad():
        torch.testing.assert_close(layer(x), (output, h_n))
    h: Tensor | None = None
    alone: Tensor | None = None
    for t in range(TIME):
        y, h = layer.step(x[:, t], h)
        torch.testing.assert_close(y, output[:, t])
        y_alone, alone = layer.step(x[0, t], alone)
        torch.testing.assert_close(y_alone, output[0, t])

    assert h is not None
    torch.testing.assert_close(h, h_n)


def test_embedded_tokens_are_their_vectors() -> None:
    embedding = nn.Embedding(50, INPUT_SIZE, padding_idx=0, dtype=torch.float64)
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, batch_first=True, bidirectional=True, dtype=torch.float64)
    for ids in (torch.randint(50, (BATCH, TIME)), torch.randint(50, (100, TIME))):
        output, h_n = layer(Tokens(ids, embedding))
        expected, expected_h_n = layer(embedding(ids))
        torch.testing.assert_close(output, expected)
        torch.testing.assert_close(h_n, expected_h_n)
        gradient = torch.autograd.grad(h_n.square().sum(), embedding.weight)[0]
        expected_gradient = torch.autograd.grad(expected_h_n.square().sum(), embedding.weight)[0]
        torch.testing.assert_close(gradient, expected_gradient)
        assert not gradient[0].any()


def test_dropout_acts_between_layers_in_training_only() -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, 2, dropout=0.9)
    x = torch.randn(TIME, BATCH, INPUT_SIZE)

    assert not torch.equal(layer(x)[0], layer(x)[0])
    assert torch.equal(layer.eval()(x)[0], layer(x)[0])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # torch's compiler uses a deprecated part of itself
def test_torch_compile_and_export_accept_the_layer() -> None:
    layer = HadamRNN(INPUT_SIZE, 24, 2, batch_first=True, num_blocks=2, recurrence="relu")
    x = torch.randn(BATCH, TIME, INPUT_SIZE)
    expected, expected_h_n = layer(x)
    compiled: Tensor = torch.compile(layer, fullgraph=True)(x)[0]
    program = torch.export.export(layer.eval(), (x,))
    output, h_n = program.module()(x)

    torch.testing.assert_close(compiled, expected)
    torch.testing.assert_close(output, expected)
    torch.testing.assert_close(h_n, expected_h_n)


BAD_LAYERS = [
    ({"hidden_size": 92 * 3 + 2}, "most multiples of 4, got 278. Nearest valid orders: 276|most multiples"),
    ({"hidden_size": 12, "num_blocks": 5}, "num_blocks must divide hidden_size, got 5 for hidden_size 12"),
    ({"num_blocks": 0}, "num_blocks must lie in 1..32768, got 0"),
    ({"weight_bits": 1}, "weight_bits must lie in 2..16"),
    ({"hidden_size": 0}, "hidden_size must lie in 1..32768, got 0"),
    ({"dropout": 1.5}, "dropout must lie in 0..1, got 1.5"),
    ({"recurrence": "tanh"}, "recurrence must be one of linear, relu, got 'tanh'"),
    ({"switches": "columns"}, "switches must be one of"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD_LAYERS)
def test_a_layer_that_cannot_be_built_is_refused(arguments: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        HadamRNN(**{"input_size": 2, "hidden_size": 8, **arguments})  # type: ignore[arg-type]


def test_wrong_shapes_are_refused_with_the_rule_and_the_value() -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE, batch_first=True)
    x = torch.zeros(BATCH, TIME, INPUT_SIZE)
    with pytest.raises(InputError, match=r"got \(3, 7, 5\)"):
        layer(torch.zeros(BATCH, TIME, 5))
    with pytest.raises(InputError, match=r"got \(7,\)"):
        layer(torch.zeros(7))
    with pytest.raises(InputError, match=r"h_0 must have shape \(1, 3, 8\)"):
        layer(x, torch.zeros(1, BATCH, 9))
    with pytest.raises(InputError, match=r"lengths must be int64 of shape \(3,\)"):
        layer.last_state(x, lengths=torch.tensor([1.0, 2.0, 3.0]))
    with pytest.raises(InputError, match=r"lengths must lie in 0..7, got 8"):
        layer.last_state(x, lengths=torch.tensor([1, 2, 8]))
    with pytest.raises(InputError, match=r"step expects \(batch, 2\) or \(2,\), got \(3, 5\)"):
        layer.step(torch.zeros(BATCH, 5))
    with pytest.raises(InputError, match=r"step expects \(batch, 2\) or \(2,\), got \(\)"):
        layer.step(torch.tensor(1.0))
    with pytest.raises(InputError, match=r"\(batch,\) or \(\), got \(3, 7\)"):
        layer.step(Tokens(torch.zeros(BATCH, TIME, dtype=torch.int64)))
    with pytest.raises(InputError, match=r"\(batch, time\), got \(7,\)"):
        layer(Tokens(torch.zeros(TIME, dtype=torch.int64)))
    with pytest.raises(InputError, match="vectors must be 2, got 5"):
        layer(Tokens(torch.zeros(BATCH, TIME, dtype=torch.int64), nn.Embedding(4, 5)))
    with pytest.raises(InputError, match="bidirectional"):
        HadamRNN(INPUT_SIZE, HIDDEN_SIZE, bidirectional=True).step(torch.zeros(BATCH, INPUT_SIZE))
    with pytest.raises(InputError, match=r"The state must have shape \(1, 3, 8\)"):
        layer.step(torch.zeros(BATCH, INPUT_SIZE), torch.zeros(BATCH, HIDDEN_SIZE))


def test_a_packed_sequence_whose_batch_sizes_do_not_sum_to_its_rows_is_refused() -> None:
    packed = PackedSequence(torch.zeros(4, INPUT_SIZE), torch.tensor([2, 1]))
    with pytest.raises(InputError, match="got 3 for 4 rows"):
        HadamRNN(INPUT_SIZE, HIDDEN_SIZE)(packed)


@pytest.mark.parametrize("rows", [1, 3])
def test_a_packed_sequence_takes_no_initial_state_of_another_batch(rows: int) -> None:
    packed = pack_sequence([torch.zeros(2, INPUT_SIZE), torch.zeros(4, INPUT_SIZE)], enforce_sorted=False)
    with pytest.raises(InputError, match=r"h_0 must have shape \(1, 2, 8\)"):
        HadamRNN(INPUT_SIZE, HIDDEN_SIZE)(packed, torch.zeros(1, rows, HIDDEN_SIZE))


def test_ids_outside_the_vocabulary_are_refused() -> None:
    layer = HadamRNN(INPUT_SIZE, HIDDEN_SIZE)
    with pytest.raises(InputError, match=r"Token ids must lie in 0..1, got 2"):
        layer(Tokens(torch.tensor([[0, 2]])))
    with pytest.raises(InputError, match=r"Token ids must lie in 0..9, got -1"):
        layer(Tokens(torch.tensor([[0, -1]]), nn.Embedding(10, INPUT_SIZE)))
    with pytest.raises(InputError, match=r"Token ids must be int64, got torch.int32"):
        layer(Tokens(torch.tensor([[0, 1]], dtype=torch.int32)))


def test_last_state_refuses_packed_rows_in_a_line() -> None:
    packed = pack_padded_sequence(torch.randn(2, 5, 3), torch.tensor([5, 2]), batch_first=True)
    with pytest.raises(InputError, match="last_state"):
        HadamRNN(3, 8).last_state(packed)  # type: ignore[arg-type]
