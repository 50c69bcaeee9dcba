"""The cost of a fitted network in bytes and operations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hadamrnn.fixedpoint.baseline_cost import baseline_size, baseline_step_cost
from hadamrnn.fixedpoint.cost import fast_step_cost, network_size
from hadamrnn.network import Network

ACTIVATION_BITS = 12


@dataclass(frozen=True)
class Cost:
    """Bytes of weights (biases in integers; a baseline's in full) and operations of one time step."""

    bytes: int
    multiplications: int
    additions: int


def network_cost(network: Network, activation_bits: int = ACTIVATION_BITS) -> Cost:
    """Return the cost of a network.

    >>> network_cost(Network(input_size=1, hidden_size=256, output_size=2))
    Cost(bytes=803, multiplications=768, additions=2816)
    """
    if network.is_hadamard:
        stored = network_size(replace(network, activation_bits=activation_bits)).bits
        step = fast_step_cost(network)
    else:
        stored, step = baseline_size(network).stored_bits, baseline_step_cost(network)
    return Cost(-(-stored // 8), step.total.multiplications, step.total.additions)
