"""The cost of a fitted network in bytes and operations."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hadamrnn.fixedpoint.baseline_cost import baseline_size, baseline_step_cost
from hadamrnn.fixedpoint.cost import fast_step_cost, network_size
from hadamrnn.network import Network

ACTIVATION_BITS = 12
POOLED_BITS = 16  # of a network whose read-out weighs many sums of states against each other


@dataclass(frozen=True)
class Cost:
    """Bytes of weights (biases in integers; a baseline's in full) and operations of one time step."""

    bytes: int
    multiplications: int
    additions: int


def state_bits(network: Network) -> int:
    """Return the bits of states, biases and thresholds in the integer form of an estimator's network."""
    return POOLED_BITS if network.is_pooled else ACTIVATION_BITS


def network_cost(network: Network, activation_bits: int | None = None) -> Cost:
    """Return the cost of a network; `activation_bits` are `state_bits` by default.

    >>> network_cost(Network(input_size=1, hidden_size=256, output_size=2))
    Cost(bytes=803, multiplications=768, additions=2816)
    """
    if network.is_hadamard:
        bits = state_bits(network) if activation_bits is None else activation_bits
        stored = network_size(replace(network, activation_bits=bits)).bits
        step = fast_step_cost(network)
    else:
        stored, step = baseline_size(network).stored_bits, baseline_step_cost(network)
    return Cost(-(-stored // 8), step.total.multiplications, step.total.additions)
