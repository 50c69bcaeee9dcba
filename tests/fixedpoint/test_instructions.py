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
        ({}, 3172, 1077),
        ({"weight_bits": "ternary"}, 3284, 1154),
        ({"weight_bits": 2}, 3284, 1154),
        ({"weight_bits": 3}, 3566, 1240),
        ({"weight_bits": 4}, 3172, 1077),
        ({"weight_bits": 5}, 3803, 1271),
        ({"weight_bits": 6}, 3934, 1273),
        ({"weight_bits": 7}, 4155, 1259),
        ({"weight_bits": 8}, 3163, 1035),
        ({"input_size": 1}, 1863, 1077),
        ({"input_kind": "one_hot"}, 1863, 1077),
        ({"num_blocks": 16}, 2814, 1077),
        ({"num_blocks": 32}, 2910, 1077),
        ({"num_blocks": 64}, 2635, 1077),
        ({"activation_bits": 14}, 3172, 1077),
        ({"activation_bits": 16}, 3172, 1077),
        ({"activation_bits": 8}, 3172, 1077),
        ({"hidden_size": 512}, 28110, 7900),
        ({"hidden_size": 48, "num_blocks": 4}, 6203, 833),
        ({"hidden_size": 144, "num_blocks": 1, "input_size": 1}, 27679, 2295),
        ({"hidden_size": 12, "num_blocks": 3}, 709, 285),
        ({"every_output": True}, 4249, 1077),
        ({"leak": (2,)}, 3319, 1077),
        ({"num_blocks": 4, "leak": LEAKS}, 3735, 1077),
        ({"readouts": ("mean",)}, 3620, 3912),
        ({"readouts": ("mean", "max", "last")}, 3998, 10188),
        ({"readouts": ("mean", "positive"), "thresholds": 3}, 6475, 21234),
        (STACK, 32540, 3151),
        ({**STACK, "normalize": False}, 31464, 1077),
        ({**STACK, "stride": 2, "readouts": ("mean", "max")}, 15612, 7140),
        ({"layer_sizes": (128, 32), "stride": 4}, 10910, 590),
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
