"""Networks with leaks, pools and several layers, alone and combined; the paper's is a special case."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from hadamrnn.errors import InputError
from hadamrnn.kernels.methods import run, run_pooled
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.network import COUNTED, READOUTS, Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.normalization import UnitNorm
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.nn.stack import HadamStack
from hadamrnn.nn.storage import load_model, save_model
from hadamrnn.nn.weight import recurrent_weight

BATCH, TIME, INPUT_SIZE, CLASSES = 4, 13, 3, 5

spectra = st.lists(st.integers(0, 6), max_size=3).map(tuple)
kinds = st.lists(st.sampled_from(READOUTS), min_size=1, unique=True).map(tuple)
row_lengths = st.none() | st.lists(st.integers(0, TIME), min_size=BATCH, max_size=BATCH).map(torch.tensor)


@st.composite
def networks(draw: st.DrawFn) -> Network:
    """Draw a network of the family, small enough to be written out."""
    readouts, num_blocks = draw(kinds), draw(st.sampled_from([1, 2]))
    return Network(
        INPUT_SIZE,
        output_size=CLASSES,
        layer_sizes=draw(st.lists(st.sampled_from([4, 8]), min_size=1, max_size=3)),  # type: ignore[arg-type]
        num_blocks=num_blocks,
        bidirectional=draw(st.booleans()),
        leak=draw(spectra)[:num_blocks],
        readouts=readouts,
        thresholds=draw(st.integers(0, 2)) if set(readouts) & set(COUNTED) else 0,
        normalize=draw(st.booleans()),
        skip=draw(st.booleans()),
        stride=draw(st.integers(1, 2)),
    )


def drawn_model(network: Network) -> SequenceModel:
    """Return the model in float64, with statistics and thresholds of some data."""
    model = SequenceModel(network).double()
    x = torch.randn(8, TIME, INPUT_SIZE, dtype=torch.float64)
    if network.thresholds:
        model.set_thresholds(x)
    model(x)
    return model.eval()


def written_out(model: SequenceModel, x: Tensor) -> Tensor:
    """Return the logits of one row x `(time, input_size)` by the equations, one step after the other."""
    network = model.hadamard_layers.network
    assert isinstance(model.recurrent, HadamStack)
    for layer, width in enumerate(network.widths):
        states = []
        for direction in range(network.directions):
            cell = model.recurrent.cells[layer * network.directions + direction]
            assert isinstance(cell, HadamCell)
            ks = (network.leak or (0,)) * width
            decay = torch.tensor([1 - 2.0**-k if k else 1.0 for k in ks]).double()
            decay = decay[: network.num_blocks].repeat_interleave(width // network.num_blocks)
            weight = recurrent_weight(cell.signs(), cell.block_size)
            h, found = x.new_zeros(width), []
            for x_t in x.flip(0) if direction else x:
                h = decay * (weight @ h) + cell.quantized_weight() @ x_t + cell.input_bias
                found.append(h)
            states.append((found, direction))
        if layer < network.num_layers - 1:
            rows = [
                torch.stack(found).flip(0) if direction else torch.stack(found) for found, direction in states
            ]
            y = torch.cat(rows, dim=1)
            if network.normalize:
                norm = model.recurrent.norms[layer]
                assert isinstance(norm, UnitNorm)
                y = (y - norm.running_mean) / (norm.running_var + 1e-5).sqrt() * norm.weight + norm.bias
            y = y.relu() + x if network.skip and x.shape[1] == y.shape[1] else y.relu()
            groups = len(y) // network.stride
            x = y[: groups * network.stride].reshape(groups, network.stride, y.shape[1]).mean(1)
            if not groups:
                return written_readout(model, [x.new_zeros(0, network.hidden_size)] * network.directions)
    return written_readout(model, [torch.stack(found) for found, _ in states])


def written_readout(model: SequenceModel, states: list[Tensor]) -> Tensor:
    """Return the logits from the last layer's states, given as one tensor per direction."""
    features: list[Tensor] = []
    for direction, h in enumerate(states):
        units = slice(direction * h.shape[1], (direction + 1) * h.shape[1])
        theta = h.new_zeros(1, h.shape[1]) if model.thresholds is None else model.thresholds[:, units]
        steps, nothing = max(len(h), 1), h.new_zeros(h.shape[1])
        for kind in model.hadamard_layers.network.readouts:
            if kind == "last":
                features.append(h[-1].relu() if len(h) else nothing)
            elif kind == "mean":
                features += [(h - row).relu().sum(0) / steps for row in theta]
            elif kind == "positive":
                features += [(h > row).double().sum(0) / steps for row in theta]
            else:
                features.append(h.max(0).values if len(h) else nothing)
    scale, weight, bias = model.folded_readout()
    return weight @ (scale * torch.cat(features)) + bias


@given(networks(), row_lengths)
@settings(max_examples=60)
def test_a_network_of_the_family_is_its_equations(network: Network, lengths: Tensor | None) -> None:
    model = drawn_model(network)
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    logits = model(x, lengths)
    for row in range(BATCH):
        length = TIME if lengths is None else int(lengths[row])
        if length:
            torch.testing.assert_close(logits[row], written_out(model, x[row, :length]))


@given(networks())
@settings(max_examples=30)
def test_a_saved_network_of_the_family_answers_with_the_same_bits(
    tmp_path_factory: pytest.TempPathFactory, network: Network
) -> None:
    model, path = drawn_model(network), tmp_path_factory.mktemp("family") / "model.safetensors"
    save_model(model, path)
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    loaded = load_model(path).eval()
    assert loaded.network == network
    assert torch.equal(loaded(x), model(x))


@pytest.mark.parametrize("options", [{}, {"num_layers": 2}, {"recurrence": "relu", "bidirectional": True}])
def test_a_leak_of_none_and_the_read_out_last_are_the_papers_network_to_the_bit(
    options: dict[str, Any],
) -> None:
    plain = Network(INPUT_SIZE, 8, CLASSES, **options)
    x, target = torch.randn(BATCH, TIME, INPUT_SIZE), torch.arange(BATCH)
    found = []
    for network in (plain, replace(plain, leak=(0,), readouts=("last",), stride=2 if not options else 1)):
        torch.manual_seed(0)
        model = SequenceModel(network)
        loss = model.loss(x, target)
        found.append((loss, *torch.autograd.grad(loss, list(model.parameters()))))
    assert all(torch.equal(first, second) for first, second in zip(*found, strict=True))


@given(spectra, kinds, row_lengths, st.integers(0, 2), st.booleans(), st.booleans(), st.sampled_from([1, 2]))
@settings(max_examples=20)
def test_gradients_of_leaky_and_pooled_recurrences_pass_gradcheck(
    leak: tuple[int, ...],
    readouts: tuple[str, ...],
    lengths: Tensor | None,
    count: int,
    relu: bool,
    start: bool,
    blocks: int,
) -> None:
    smooth = tuple(kind for kind in readouts if kind != "positive") or ("mean",)  # no slope to measure
    decays = Network(hidden_size=4, num_blocks=blocks, leak=leak[:blocks]).decays
    draw = {"dtype": torch.float64, "requires_grad": True}
    theta = torch.randn(count, 4, dtype=torch.float64) if count else None

    def features(x: Tensor, weight: Tensor, bias: Tensor, h_0: Tensor) -> tuple[Tensor, ...]:
        recurrence = Recurrence(
            torch.tensor([1.0, -1.0, 1.0, 1.0]).double(),
            4 // blocks,
            decay=torch.tensor(decays).double().repeat_interleave(4 // blocks) if decays else None,
            relu=relu,
            x=x,
            weight=weight,
            bias=bias,
            h_0=h_0 if start else None,
            lengths=None if lengths is None else lengths[:2].clamp(max=5),
        )
        features = run_pooled(replace(recurrence, h_0=None, thresholds=theta), smooth)
        return features, run(recurrence)[1]

    inputs = (torch.randn(2, 5, 2, **draw), torch.randn(4, 2, **draw), torch.randn(4, **draw))  # type: ignore[call-overload]
    torch.autograd.gradcheck(features, (*inputs, torch.randn(2, 4, **draw)))  # type: ignore[call-overload]


def test_a_leaky_state_stays_within_its_bound_for_100_000_steps() -> None:
    torch.manual_seed(0)
    layer = HadamRNN(1, 8, num_blocks=4, leak=(1, 2, 3, 4), batch_first=True, bias=False, weight_bits=None)
    x = torch.sign(torch.randn(1, 100_000, 1))
    with torch.no_grad():
        states = layer.every_state(x)[0]
    (cell,) = layer.cells
    assert isinstance(cell, HadamCell)
    for block, k in enumerate((1, 2, 3, 4)):
        units = slice(2 * block, 2 * block + 2)
        bound = float(cell.input_weight[units].detach().norm()) / 2.0**-k  # |z| / (1 - lambda), by norms
        norms = torch.linalg.vector_norm(states[:, units], dim=1)
        assert norms.max() <= bound * (1 + 1e-5)
    torch.testing.assert_close(
        states[-50_000:].square().mean(), states[:50_000].square().mean(), rtol=0.1, atol=0
    )


@pytest.mark.parametrize("time", [128, 1000])
@pytest.mark.parametrize("num_layers", [1, 2, 3, 4])
def test_the_first_loss_of_a_normalised_stack_is_within_twice_that_of_guessing(
    num_layers: int, time: int
) -> None:
    for leak, readouts in (((), ("last",)), ((1, 2, 3, 0), ("mean", "max"))):
        torch.manual_seed(0)
        model = SequenceModel(
            Network(
                9, 64, 6, num_layers=num_layers, num_blocks=4, normalize=True, leak=leak, readouts=readouts
            )
        )
        loss = model.loss(torch.randn(32, time, 9), torch.randint(6, (32,)))
        assert float(loss.detach()) <= 2 * math.log(6)


@given(networks(), st.booleans())
@settings(max_examples=30)
def test_streaming_a_stack_step_by_step_is_forward(network: Network, unbatched: bool) -> None:
    network = replace(
        network, bidirectional=False, stride=1, readouts=("last",), thresholds=0, every_output=True
    )
    model = drawn_model(network)
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    expected = model(x)
    h: Tensor | None = None
    for t in range(TIME):
        x_t = x[0, t] if unbatched else x[:, t]
        logits, h = model.step(x_t, h)
        torch.testing.assert_close(logits, expected[0, t] if unbatched else expected[:, t])


def test_every_parameter_of_a_normalised_model_gets_a_gradient() -> None:
    """DistributedDataParallel refuses parameters that a loss does not reach."""
    for layers in (1, 2):
        model = SequenceModel(Network(INPUT_SIZE, 8, CLASSES, num_layers=layers, normalize=True))
        model.loss(torch.randn(BATCH, TIME, INPUT_SIZE), torch.arange(BATCH) % CLASSES).backward()

        assert [name for name, each in model.named_parameters() if each.grad is None] == []


def test_streaming_ids_is_forward_where_the_layers_above_skip() -> None:
    torch.manual_seed(0)
    shape = Network(
        8, 8, 2, num_layers=3, skip=True, input_kind="embedded", vocabulary_size=20, every_output=True
    )
    model = SequenceModel(shape).double()
    ids = torch.randint(20, (BATCH, TIME))
    h: Tensor | None = None
    for t, expected in enumerate(model(ids).unbind(1)):
        logits, h = model.step(ids[:, t], h)
        torch.testing.assert_close(logits, expected)


def test_padding_moves_neither_statistics_nor_answers() -> None:
    torch.manual_seed(0)
    network = Network(INPUT_SIZE, 8, CLASSES, num_layers=2, normalize=True, readouts=("mean", "last"))
    x, lengths = torch.randn(BATCH, TIME, INPUT_SIZE), torch.tensor([3, 13, 1, 7])
    padded = x.clone()
    for row, length in enumerate(lengths.tolist()):
        padded[row, length:] = 1e3
    models = [SequenceModel(network) for _ in range(2)]
    models[1].load_state_dict(models[0].state_dict())
    assert torch.equal(models[0](x, lengths), models[1](padded, lengths))
    for first, second in zip(models[0].buffers(), models[1].buffers(), strict=True):
        assert torch.equal(first, second)


def test_hadamrnn_gives_sigma_of_normalised_states_and_goes_on_from_h_n() -> None:
    torch.manual_seed(0)
    layer = HadamRNN(INPUT_SIZE, 8, layer_sizes=(8, 16), normalize=True, leak=(2,), batch_first=True).double()
    x = torch.randn(BATCH, TIME, INPUT_SIZE, dtype=torch.float64)
    y = layer(x)[0]
    assert y.shape == (BATCH, TIME, 16) and bool((y >= 0).all())
    layer.eval()
    output, h_n = layer(x)
    first, h = layer(x[:, :5])
    second, again = layer(x[:, 5:], h)
    torch.testing.assert_close(torch.cat((first, second), dim=1), output)
    torch.testing.assert_close(again, h_n)
    assert not h_n[0, :, 8:].any()


def test_signs_are_held_unless_asked_for() -> None:
    x = torch.randn(BATCH, TIME, INPUT_SIZE)
    for train_signs in (False, True):
        layer = HadamRNN(INPUT_SIZE, 8, batch_first=True, train_signs=train_signs)
        nn.Linear(8, 2)(layer(x)[0][:, -1]).sum().backward()
        (cell,) = layer.cells
        assert isinstance(cell, HadamCell)
        assert (cell.latent_signs.grad is not None) == train_signs


def test_thresholds_are_quantiles_of_the_states() -> None:
    torch.manual_seed(0)
    model = SequenceModel(Network(INPUT_SIZE, 8, CLASSES, readouts=("positive",), thresholds=3, leak=(2,)))
    x = torch.randn(32, 50, INPUT_SIZE)
    model.set_thresholds(x)
    shares = (
        model.hadamard_layers.pooled_state(x, None, ("positive",), model.thresholds).mean(0).reshape(3, 8)
    )
    expected = torch.tensor([0.75, 0.5, 0.25])[:, None].expand(3, 8)
    torch.testing.assert_close(shares, expected, atol=0.01, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_thresholds_work_in_half_precision(dtype: torch.dtype) -> None:
    network = Network(INPUT_SIZE, 8, CLASSES, readouts=("mean", "positive"), thresholds=2, leak=(2,))
    model, x = SequenceModel(network).to(dtype), torch.randn(BATCH, TIME, INPUT_SIZE).to(dtype)
    model.set_thresholds(x)
    exact = SequenceModel(network)
    exact.load_state_dict(model.state_dict())

    torch.testing.assert_close(model(x).float(), exact(x.float()), rtol=0.05, atol=0.05)


def test_thresholds_of_no_steps_are_refused() -> None:
    model = SequenceModel(Network(INPUT_SIZE, 8, CLASSES, readouts=("mean",), thresholds=1))
    with pytest.raises(InputError, match=r"x must .*, got none"):
        model.set_thresholds(torch.zeros(2, 5, INPUT_SIZE), torch.tensor([0, 0]))


BAD = [
    ({"num_blocks": 2, "leak": (1, 2, 3)}, "at most num_blocks, must lie in 0..2, got 3"),
    ({"leak": (16,)}, "leak must lie in 0..15, got 16"),
    ({"leak": "x"}, "leak must be int, got 'x'"),
    ({"readouts": ("median",)}, "readouts must be one of last, mean, positive, max, got 'median'"),
    ({"readouts": ()}, "readouts must name one or more, each once"),
    ({"readouts": ("mean", "mean")}, "readouts must name one or more, each once"),
    ({"thresholds": 2}, "Thresholds belong to the read-outs mean and positive, got 2 for last"),
    ({"readouts": ("mean",), "every_output": True}, "answers after every step has the read-out last"),
    ({"layer_sizes": (8, 0)}, "layer_sizes must lie in 1..32768, got 0"),
    (
        {"layer_sizes": (8, 12), "num_blocks": 8},
        "num_blocks must divide hidden_size, got 8 for hidden_size 12",
    ),
    ({"stride": 0}, "stride must lie in 1..1024, got 0"),
]


@pytest.mark.parametrize(("fields", "message"), BAD)
def test_a_network_that_cannot_be_is_refused(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        Network(3, 8, 5, **fields)


def test_what_a_layer_cannot_do_is_refused_in_one_line(tmp_path: Path) -> None:
    strided = HadamRNN(3, 8, num_layers=2, stride=2, batch_first=True)
    with pytest.raises(InputError, match="or has a stride"):
        strided.step(torch.zeros(1, 3))
    with pytest.raises(InputError, match="reads out mean"):
        SequenceModel(Network(3, 8, 2, readouts=("mean",))).step(torch.zeros(1, 3))


def test_each_layer_below_the_last_divides_the_lengths_by_the_stride() -> None:
    stack = SequenceModel(Network(3, 8, 2, num_layers=3, stride=2)).hadamard_layers

    lengths = stack.top_lengths(torch.tensor([20, 7, 3]))

    assert lengths is not None and lengths.tolist() == [5, 1, 0]
    assert lengths.max() == stack.every_state(torch.zeros(3, 20, 3)).shape[1]
