"""The plan of a step: it computes the whole transform, and its memory is bounded."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest

from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.plan import make_plan
from hadamrnn.network import Network
from tests.export.random_models import random_model


@pytest.mark.parametrize("activation_bits", range(2, 17))
@pytest.mark.parametrize(
    ("hidden_size", "block_size"), [(8, 8), (128, 128), (512, 512), (1024, 512), (64, 4), (24, 12), (80, 40)]
)
def test_the_stages_of_a_plan_are_those_of_the_block_and_fit_their_cells(
    hidden_size: int, block_size: int, activation_bits: int
) -> None:
    model = random_model(
        np.random.default_rng(activation_bits),
        hidden_size=hidden_size,
        block_size=block_size,
        activation_bits=activation_bits,
        input_bits=2,
        weight_bits=2,
        hidden_shift=0,
    )
    plan = make_plan(model)
    (layer,) = plan.layers

    assert prod(order for order, _ in layer.factors) << layer.stages == block_size
    assert 0 <= layer.in_place <= max(layer.stages - 2, 0)
    assert layer.in_place % 2 == 0 and activation_bits + layer.in_place <= 16  # the sums in place fit 16 bits
    if block_size == 1 << layer.stages:
        each = 4 if activation_bits <= 14 else 6
        assert plan.state_bytes + plan.work_bytes <= each * hidden_size + 2 * model.input_size + 128


@pytest.mark.parametrize("stride", [1, 2])
@pytest.mark.parametrize("readouts", [("last",), ("mean", "max")])
def test_every_cell_of_a_stack_has_one_use(readouts: tuple[str, ...], stride: int) -> None:
    sizes = (24, 64, 40, 64)
    network = Network(3, 8, 4, layer_sizes=sizes, num_blocks=2, readouts=readouts, stride=stride)
    plan = make_plan(draw_model(replace(network, normalize=True, activation_bits=12)))
    narrow = [*range(plan.pool_narrow)]
    for layer in plan.layers:
        narrow.extend(range(layer.cells, layer.cells + layer.rows))
        if stride > 1 and not layer.layer.is_last:
            narrow.extend(range(layer.sums, layer.sums + layer.rows))
    if stride > 1:
        narrow.extend(range(plan.phases, plan.phases + 3))

    assert narrow == [*range(plan.narrow_cells)]


@pytest.mark.parametrize(
    ("fields", "state", "work"),
    [
        ({}, 140, 14),
        ({"input_size": 100}, 140, 204),
        ({"input_kind": "one_hot", "input_size": 9}, 140, 6),
        ({"activation_bits": 16}, 140, 266),
        ({"hidden_size": 512}, 1036, 138),
        ({"readouts": ("mean",)}, 392, 14),
        ({"readouts": ("max", "last")}, 268, 14),
        ({"readouts": ("mean", "positive", "max"), "thresholds": 3}, 1800, 14),
        ({"layer_sizes": (64, 32, 40), "num_blocks": 2}, 284, 448),
        ({"layer_sizes": (64, 32, 40), "num_blocks": 2, "stride": 3, "readouts": ("mean",)}, 636, 330),
        ({"num_layers": 2, "stride": 2}, 400, 14),
    ],
)
def test_the_memory_of_a_plan_is_that_of_the_compiled_structs(
    fields: dict[str, Any], state: int, work: int
) -> None:
    network = Network(
        **{"input_size": 5, "hidden_size": 64, "output_size": 3, "activation_bits": 12, **fields}
    )
    plan = make_plan(draw_model(network))

    assert (plan.state_bytes, plan.work_bytes) == (state, work)
