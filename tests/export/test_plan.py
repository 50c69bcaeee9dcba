"""The plan of a step: it computes the whole transform, and its memory is bounded."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from hadamrnn.export.plan import make_plan
from tests.export.random_models import random_model


@pytest.mark.parametrize("activation_bits", range(2, 17))
@pytest.mark.parametrize(
    ("hidden_size", "block_size"), [(8, 8), (128, 128), (512, 512), (1024, 512), (64, 4)]
)
def test_state_and_work_buffers_take_four_bytes_an_entry_and_128(
    hidden_size: int, block_size: int, activation_bits: int
) -> None:
    rng = np.random.default_rng(activation_bits)
    model = random_model(
        rng,
        hidden_size=hidden_size,
        block_size=block_size,
        activation_bits=activation_bits,
        input_bits=2,
        weight_bits=2,
        hidden_shift=0,
    )
    plan = make_plan(model)
    layer = plan.layers[0]

    assert plan.state_bytes + plan.work_bytes <= 4 * hidden_size + 2 * model.input_size + 128
    assert prod(p.radix for p in (*layer.state, *layer.work)) * layer.last == block_size
    if layer.cell_bits == 16:
        in_state = prod(p.radix for p in layer.state)
        assert in_state << activation_bits - 1 <= 1 << 15  # the sums in place fit 16 bits
