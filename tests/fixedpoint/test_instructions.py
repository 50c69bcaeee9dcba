"""Estimated instructions follow from the measured costs, term by term."""

from __future__ import annotations

from typing import Any

import pytest

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import estimate, estimate_readout
from hadamrnn.network import Network

LEAKS = (1, 2, 3, 4)
STACK: dict[str, Any] = {"num_layers": 3, "num_blocks": 4, "leak": LEAKS, "normalize": True}


@pytest.mark.parametrize(
    ("fields", "step", "readout"),
    [
        ({}, 3166, 768),
        ({"weight_bits": "ternary"}, 3150, 837),
        ({"weight_bits": 2}, 3150, 837),
        ({"weight_bits": 3}, 3297, 960),
        ({"weight_bits": 4}, 3166, 768),
        ({"weight_bits": 5}, 3701, 960),
        ({"weight_bits": 6}, 3701, 960),
        ({"weight_bits": 7}, 3150, 735),
        ({"weight_bits": 8}, 3150, 735),
        ({"input_size": 1}, 1724, 768),
        ({"input_kind": "one_hot"}, 1724, 768),
        ({"num_blocks": 16}, 2818, 768),
        ({"num_blocks": 32}, 2774, 768),
        ({"num_blocks": 64}, 2713, 768),
        ({"activation_bits": 14}, 3305, 768),
        ({"activation_bits": 16}, 3443, 768),
        ({"activation_bits": 8}, 3028, 768),
        ({"hidden_size": 512}, 28000, 5472),
        ({"every_output": True}, 3934, 768),
        ({"leak": (2,)}, 3372, 768),
        ({"num_blocks": 4, "leak": LEAKS}, 3786, 768),
        ({"readouts": ("mean",)}, 3641, 768),
        ({"readouts": ("mean", "max", "last")}, 4115, 2112),
        ({"readouts": ("mean", "positive"), "thresholds": 3}, 6012, 4128),
        (STACK, 34066, 768),
        ({**STACK, "normalize": False}, 30021, 768),
        ({**STACK, "stride": 2, "readouts": ("mean", "max")}, 16895, 1440),
        ({"layer_sizes": (128, 32), "stride": 4}, 9350, 432),
    ],
)
def test_an_estimate_sums_the_costs_that_emulators_counted(
    fields: dict[str, Any], step: int, readout: int
) -> None:
    network = Network(**{"input_size": 5, "hidden_size": 64, "output_size": 3, **fields})

    assert (estimate(network), estimate_readout(network)) == (step, readout)


def test_floating_point_has_no_integer_instructions() -> None:
    with pytest.raises(InputError, match="got None"):
        estimate(Network(5, 64, 3, weight_bits=None))
