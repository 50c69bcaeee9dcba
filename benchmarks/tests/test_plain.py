"""The plain loop of the benchmarks computes the same loss as the model."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn_benchmarks import inference
from hadamrnn_benchmarks.plain import plain_logits, plain_loss
from hadamrnn_benchmarks.training import SHAPES, make_batch


def test_the_plain_loop_is_the_layer() -> None:
    for kind in ("dense", "one_hot"):
        network = Network(3, 16, 2, input_kind=kind)
        model, x = inference._float_network(
            inference.InferenceWork("net", network, batch=3, time=7, numpy_rows=3, rows=3)
        )

        torch.testing.assert_close(plain_logits(model, x), model(x))


@pytest.mark.parametrize("name", SHAPES)
def test_the_plain_loop_computes_the_models_loss(name: str) -> None:
    network = replace(SHAPES[name].network, hidden_size=64)
    shape = replace(SHAPES[name], batch=3, time=9, network=network)
    x, target = make_batch(shape, data_dir=None)
    model = SequenceModel(network).double()
    values = x.double() if x.is_floating_point() else x
    loss, expected = model.loss(values, target), plain_loss(model, values, target)
    torch.testing.assert_close(loss, expected)
    parameters = list(model.parameters())
    torch.testing.assert_close(
        torch.autograd.grad(loss, parameters), torch.autograd.grad(expected, parameters)
    )
