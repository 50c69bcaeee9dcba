"""The networks to compare are those that the parameters and the bytes allow."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.estimators.selection import (
    ParameterSpace,
    draw_network,
    features_of,
    network_cost,
    place_thresholds,
)
from hadamrnn.network import Network


@pytest.mark.parametrize("outputs", [2, 10])
@pytest.mark.parametrize("channels", [1, 9])
def test_networks_fill_the_bytes_and_never_more(outputs: int, channels: int) -> None:
    base = Network(channels, 1, outputs)
    for max_bytes in (700, 4096):
        sizes = [network_cost(each).bytes for each in ParameterSpace(base, max_bytes).candidates()]
        assert max(sizes) <= max_bytes and min(sizes) > 0
    with pytest.raises(InputError, match=r"8 units, \d+ bytes here, got 10"):
        ParameterSpace(base, 10).candidates()


@pytest.mark.parametrize("given", [{}, {"readouts": ("last",)}, {"thresholds": 5}, {"leak": (0,)}])
def test_the_least_bytes_that_an_error_names_are_enough(given: dict[str, Any]) -> None:
    base = Network(1, 1, 2)
    with pytest.raises(InputError) as error:
        ParameterSpace(base, 0, **given).candidates()
    least = int(str(error.value).split(" bytes here")[0].split()[-1])

    assert network_cost(ParameterSpace(base, least, **given).candidates()[0]).bytes == least
    with pytest.raises(InputError, match="max_bytes must hold"):
        ParameterSpace(base, least - 1, **given).candidates()


def test_readouts_that_count_nothing_have_no_thresholds() -> None:
    found = ParameterSpace(Network(1, 1, 2), 4096, readouts=("last", "max")).candidates()

    assert {network.thresholds for network in found} == {0}


def test_blocks_are_as_many_as_asked_for() -> None:
    found = ParameterSpace(Network(1, 1, 2), 4096, hidden_size=16, num_blocks=4).candidates()

    assert {network.num_blocks for network in found} == {4}
    with pytest.raises(InputError, match=r"num_blocks must lie in 1\.\."):
        ParameterSpace(Network(1, 1, 2), 4096, hidden_size=16, num_blocks=0).candidates()


def test_thresholds_divide_the_states_of_every_unit_evenly_and_a_weight_of_two_is_two_series() -> None:
    network = Network(2, 16, 3, num_blocks=2, leak=(2, 3), readouts=("positive",), thresholds=3)
    series = 5 + torch.randn(40, 30, 2)
    model, weighted, repeated = (draw_network(network, 0) for _ in range(3))
    place_thresholds(model, Split(series, None), torch.ones(40, dtype=torch.float64))
    above = features_of(model, Split(series, None)).mean(0).reshape(3, 16)

    torch.testing.assert_close(
        above, torch.tensor([[0.75], [0.5], [0.25]]).expand(3, 16).double(), atol=0.1, rtol=0
    )

    counts = 1 + torch.arange(40) % 2
    place_thresholds(weighted, Split(series, None), counts.double())
    twice = Split(series.repeat_interleave(counts, 0), None)
    place_thresholds(repeated, twice, torch.ones(60, dtype=torch.float64))

    assert weighted.thresholds is not None and repeated.thresholds is not None
    torch.testing.assert_close(weighted.thresholds, repeated.thresholds)
