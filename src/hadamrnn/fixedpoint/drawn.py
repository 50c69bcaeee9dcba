"""Integer networks with random weights: what a step costs does not depend on the values."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hadamrnn.bits import stored_bits
from hadamrnn.fixedpoint.model import IntegerModel, check_integer_network, signed_range
from hadamrnn.network import Network


def draw_model(network: Network, name: str = "drawn", seed: int = 0) -> IntegerModel:
    """Return a random integer network of this shape whose states neither vanish nor mostly saturate.

    An embedded input costs a step as much as a dense one, and is drawn as one.
    """
    rng = np.random.default_rng(seed)
    kind = "one_hot" if network.input_kind == "one_hot" else "dense"
    network = replace(network, input_kind=kind, vocabulary_size=None, padding_id=None, every_output=False)
    check_integer_network(network)
    hidden, inputs, outputs = network.hidden_size, network.input_size, network.output_size
    input_bits = 2 if kind == "one_hot" else 9
    hidden_shift = 2
    bits = network.weight_bits
    low, high = (-1, 1) if bits == "ternary" else signed_range(stored_bits(bits))
    frac_bits = 0 if bits == "ternary" else stored_bits(bits) - 1
    return IntegerModel(
        network,
        input_bits,
        signs=rng.choice([-1, 1], hidden).astype(np.int8),
        input_weight_int=rng.integers(low, high + 1, (hidden, inputs), np.int8),
        input_bias_int=rng.integers(-64, 65, hidden, np.int16) if network.input_bias else None,
        output_weight_int=rng.integers(low, high + 1, (outputs, hidden), np.int8),
        output_bias_int=rng.integers(-64, 65, outputs, np.int16),
        hidden_shift=hidden_shift,
        accumulator_frac_bits=max((network.activation_bits or 0) - hidden_shift, frac_bits + input_bits - 1),
        input_bias_shift=0,
        output_bias_shift=0,
        input_scale=1.0,
        logit_scale=1.0,
        metadata={"task": name},
    )
