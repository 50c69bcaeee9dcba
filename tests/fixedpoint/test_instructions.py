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
        ({}, 2682, 1077),
        ({"weight_bits": "ternary"}, 2794, 1154),
        ({"weight_bits": 2}, 2794, 1154),
        ({"weight_bits": 3}, 3008, 1240),
        ({"weight_bits": 4}, 2682, 1077),
        ({"weight_bits": 5}, 3322, 1271),
        ({"weight_bits": 6}, 3450, 1273),
        ({"weight_bits": 7}, 3635, 1259),
        ({"weight_bits": 8}, 2701, 1035),
        ({"input_size": 1}, 1782, 1077),
        ({"input_kind": "one_hot"}, 1782, 1077),
        ({"num_blocks": 16}, 2357, 1077),
        ({"num_blocks": 32}, 2506, 1077),
        ({"num_blocks": 64}, 2320, 1077),
        ({"activation_bits": 14}, 2682, 1077),
        ({"activation_bits": 16}, 2682, 1077),
        ({"activation_bits": 8}, 2682, 1077),
        ({"hidden_size": 512}, 24969, 7900),
        ({"hidden_size": 48, "num_blocks": 4}, 5576, 833),
        ({"hidden_size": 144, "num_blocks": 1, "input_size": 1}, 26070, 2295),
        ({"hidden_size": 12, "num_blocks": 3}, 524, 285),
        ({"every_output": True}, 3758, 1077),
        ({"leak": (2,)}, 2829, 1077),
        ({"num_blocks": 4, "leak": LEAKS}, 3254, 1077),
        ({"readouts": ("mean",)}, 3225, 3912),
        ({"readouts": ("mean", "max", "last")}, 3552, 10188),
        ({"readouts": ("mean", "positive"), "thresholds": 3}, 6733, 21234),
        (STACK, 31121, 3151),
        ({**STACK, "normalize": False}, 30225, 1077),
        ({**STACK, "stride": 2, "readouts": ("mean", "max")}, 14791, 7140),
        ({"layer_sizes": (128, 32), "stride": 4}, 10152, 590),
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
