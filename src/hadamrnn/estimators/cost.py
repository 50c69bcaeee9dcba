"""What a fitted network takes, in bytes and operations."""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.fixedpoint.baseline_cost import baseline_size, baseline_step_cost
from hadamrnn.fixedpoint.cost import fast_step_cost, network_size
from hadamrnn.nn.model import HADAMRNN, ModelConfig

ACTIVATION_BITS = 12


@dataclass(frozen=True)
class Cost:
    """Bytes of weights (biases of 12 bits; a baseline's in full) and operations of one time step."""

    bytes: int
    multiplications: int
    additions: int


def network_cost(config: ModelConfig) -> Cost:
    """Return the cost of a network of this shape.

    >>> network_cost(ModelConfig(input_size=1, hidden_size=256, output_size=2))
    Cost(bytes=803, multiplications=768, additions=2816)
    """
    sizes, bits = (config.hidden_size, config.input_size, config.output_size), config.weight_bits
    if config.model == HADAMRNN:
        stored = network_size(*sizes, weight_bits=bits, activation_bits=ACTIVATION_BITS).bits
        step = fast_step_cost(*sizes, num_blocks=config.num_blocks, weight_bits=bits)
    else:
        stored = baseline_size(config.model, *sizes, weight_bits=bits).stored_bits
        step = baseline_step_cost(config.model, *sizes, weight_bits=bits)
    return Cost(-(-stored // 8), step.total.multiplications, step.total.additions)
