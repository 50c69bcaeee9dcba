"""Building blocks for users' models: quantizers, orthogonal layers, trainable decay."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import native_is_loaded
from hadamrnn.network import Network
from hadamrnn.nn import HadamardLinear, HadamardWeight, HadamRNN, quantize, recurrent_weight, sign
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.weight import recurrent_weight as dense_weight


def test_the_quantizers_are_public_and_pass_the_gradient() -> None:
    w = torch.tensor([0.3, -0.2, 0.0], requires_grad=True)
    (sign(w) + quantize(w, 4)).sum().backward()

    assert w.grad is not None and w.grad.tolist() == [2, 2, 2]
    assert recurrent_weight is dense_weight


@pytest.mark.parametrize(("features", "num_blocks"), [(8, 1), (24, 2), (512, 4)])
def test_a_hadamard_linear_layer_is_the_product_with_w(features: int, num_blocks: int) -> None:
    layer = HadamardLinear(features, num_blocks=num_blocks, dtype=torch.float64)
    x = torch.randn(3, 5, features, dtype=torch.float64)
    weight = dense_weight(sign(layer.latent_signs), features // num_blocks)

    torch.testing.assert_close(layer(x), nn.functional.linear(x, weight, layer.bias))
    layer(x).sum().backward()
    assert layer.latent_signs.grad is not None
    with pytest.raises(InputError):
        HadamardLinear(10)
    with pytest.raises(InputError):
        HadamardLinear(8, num_blocks=3)


def test_w_parametrizes_any_square_weight() -> None:
    layer: Any = nn.Linear(8, 8, bias=False)
    parametrize.register_parametrization(layer, "weight", HadamardWeight(2))
    torch.testing.assert_close(layer.weight @ layer.weight.T, torch.eye(8))
    wanted = dense_weight(torch.tensor([1.0, -1, -1, 1, -1, 1, 1, 1]), 4)
    layer.weight = wanted
    assert torch.equal(layer.weight, wanted)
    layer(torch.randn(3, 8)).sum().backward()
    assert layer.parametrizations.weight.original.grad.shape == (8,)
    with pytest.raises(InputError, match="square"):
        parametrize.register_parametrization(nn.Linear(8, 4), "weight", HadamardWeight())


def by_hand(rnn: HadamRNN, x: Tensor) -> Tensor:
    """Return h_T of a layer by its dense recurrent weight."""
    cell, h = rnn.cell(0), x.new_zeros(len(x), rnn.hidden_size)
    for x_t in x.unbind(1):
        h = h @ rnn.recurrent_weight(0).T + nn.functional.linear(
            x_t, cell.quantized_weight(), cell.input_bias
        )
    return h


@pytest.mark.parametrize(
    "options",
    [{}, {"num_blocks": 4, "leak": (1, 2)}, {"num_blocks": 4, "decay": (0.9, 0.123)}, {"train_decay": True}],
)
def test_the_state_moves_by_the_recurrent_weight(options: dict[str, Any]) -> None:
    rnn = HadamRNN(3, 16, batch_first=True, dtype=torch.float64, **options)
    x = torch.randn(2, 9, 3, dtype=torch.float64)

    torch.testing.assert_close(rnn.last_state(x)[0], by_hand(rnn, x))
    torch.testing.assert_close(rnn(x)[1][0], by_hand(rnn, x))


@pytest.mark.parametrize("input_size", [1, 3, 20])
def test_a_decay_that_learns_has_the_gradient_of_the_dense_loop(input_size: int) -> None:
    rnn = HadamRNN(
        input_size, 16, batch_first=True, num_blocks=4, decay=(0.9, 0.5), train_decay=True, train_signs=True
    ).double()
    x = torch.randn(5, 12, input_size, dtype=torch.float64)
    latent = rnn.cell(0).latent_decay
    assert latent is not None
    leaves = [latent, rnn.cell(0).latent_signs, rnn.cell(0).input_weight]
    torch.testing.assert_close(torch.sigmoid(latent), torch.tensor([0.9, 0.5, 0.9, 0.5]).double())
    expected = torch.autograd.grad(by_hand(rnn, x).square().sum(), leaves)
    for result in (rnn.last_state(x), rnn(x)[1]):
        torch.testing.assert_close(torch.autograd.grad(result.square().sum(), leaves), expected)


def test_the_share_of_negative_signs_can_be_chosen() -> None:
    for share in (0.0, 0.25, 1.0):
        rnn = HadamRNN(3, 16, 2, negative_signs=share)
        assert [int((rnn.cell(layer).signs() < 0).sum()) for layer in range(2)] == [16 * share] * 2


def test_nonlinearity_means_what_it_means_in_torch() -> None:
    assert HadamRNN(3, 8, nonlinearity="relu").network.recurrence == "relu"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nonlinearity": "tanh"}, 'nonlinearity must be "relu" or left out'),
        ({"dtype": torch.int32}, "dtype must be one of"),
        ({"leak": (1, 2)}, "at most num_blocks, must lie in 0..1, got 2"),
        ({"decay": (0.5, 0.9)}, "decay must list at most 1 numbers"),
        ({"decay": (1.5,)}, "decay must list"),
        ({"decay": (0.5,), "leak": (1,)}, "decay takes the place of leak"),
        ({"negative_signs": 2}, "negative_signs must lie in 0..1"),
    ],
)
def test_what_a_layer_cannot_do_is_refused_in_the_constructor(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        HadamRNN(3, 8, **options)


def test_the_repr_tells_every_option_that_is_not_the_default() -> None:
    rnn = HadamRNN(
        3,
        8,
        2,
        False,
        True,
        0.5,
        num_blocks=2,
        weight_bits=None,
        decay=(0.5,),
        normalize=True,
        train_signs=True,
    )
    text = rnn.extra_repr()

    for part in ("3, 8", "num_layers=2", "bias=False", "dropout=0.5", "num_blocks=2", "weight_bits=None"):
        assert part in text
    for part in ("decay=(0.5, 0.5)", "normalize=True", "train_signs=True", "batch_first=True"):
        assert part in text
    assert HadamRNN(3, 8).extra_repr() == "3, 8"


EXPORTED: list[nn.Module] = [
    HadamRNN(3, 16, batch_first=True),
    HadamRNN(20, 16, 2, batch_first=True, normalize=True),
    HadamRNN(3, 16, batch_first=True, num_blocks=2, leak=(1, 2)),
    SequenceModel(Network(3, 16, 4, readouts=("mean", "max"))),
]


@pytest.mark.skipif(not native_is_loaded(), reason="plain torch unrolls the steps of a fixed length")
@pytest.mark.filterwarnings("ignore")  # torch's exporter uses a deprecated part of itself
@pytest.mark.parametrize("model", EXPORTED, ids=["layer", "wide stack", "leaky", "pooled"])
def test_a_program_exported_with_an_open_length_runs_every_length(model: Any) -> None:
    width = model.network.input_size if isinstance(model, SequenceModel) else model.input_size
    example = (torch.randn(4, 30, width),)
    time = {1: torch.export.Dim("time", min=2, max=500)}
    program = torch.export.export(model.eval(), example, dynamic_shapes=(time,)).module()
    for length in (2, 30, 211):
        x = torch.randn(4, length, width)
        torch.testing.assert_close(program(x), model(x))


def test_deep_copies_hooks_and_data_parallel_training_see_an_ordinary_module(tmp_path: Path) -> None:
    layer = HadamRNN(3, 8, 2, batch_first=True, normalize=True, train_signs=True)
    x = torch.randn(4, 9, 3, requires_grad=True)
    seen: list[str] = []
    layer.register_forward_hook(lambda *_: seen.append("forward"))
    layer.register_full_backward_hook(lambda *_: seen.append("backward"))
    copied = copy.deepcopy(layer)
    store = f"file://{tmp_path / 'store'}"
    torch.distributed.init_process_group("gloo", init_method=store, rank=0, world_size=1)
    try:
        parallel = torch.nn.parallel.DistributedDataParallel(copied)
        for module in (layer, parallel):
            module(x)[0].square().sum().backward()
    finally:
        torch.distributed.destroy_process_group()

    assert seen == ["forward", "backward"] * 2
    for (name, one), other in zip(layer.named_parameters(), copied.parameters(), strict=True):
        assert one.grad is not None and other.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad)
