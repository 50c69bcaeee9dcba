"""The networks to compare are those that the parameters and the bytes allow."""

from __future__ import annotations

import pytest

from hadamrnn.errors import InputError
from hadamrnn.estimators.choice import Wanted, network_cost
from hadamrnn.network import Network


@pytest.mark.parametrize("outputs", [2, 10])
@pytest.mark.parametrize("channels", [1, 9])
def test_networks_fill_the_bytes_and_never_more(outputs: int, channels: int) -> None:
    base = Network(channels, 1, outputs)
    for max_bytes in (700, 4096):
        sizes = [network_cost(each).bytes for each in Wanted(base, max_bytes).networks(search=True)]
        assert max(sizes) <= max_bytes and min(sizes) > 0
    with pytest.raises(InputError, match=r"max_bytes must hold a network of 8 units, \d+ bytes here, got 10"):
        Wanted(base, 10).networks(search=True)
