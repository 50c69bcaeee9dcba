"""Draw integer networks with random weights, to measure costs that do not depend on the values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import (
    IntegerLayer,
    activation_bits,
    check_integer_network,
    finest_layer,
    weight_frac_bits,
    weight_range,
)
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.overflow import LIMIT
from hadamrnn.network import COUNTED, Network

Draw = Callable[..., Any]  # (low, high, shape) -> integers in low..high


def draw_model(network: Network, name: str = "drawn") -> IntegerModel:
    """Return a random integer network of this shape whose states neither vanish nor mostly saturate.

    An embedded input costs as much per step as a dense one, so a dense one is used instead.
    """
    kind = "one_hot" if network.input_kind == "one_hot" else "dense"
    network = replace(network, input_kind=kind, vocabulary_size=None, padding_id=None, every_output=False)
    model = draw_integers(network, np.random.default_rng(0))
    return replace(model, metadata={"task": name})


def draw_integers(
    network: Network, rng: np.random.Generator, *, draw: Draw | None = None, input_bits: int = 9
) -> IntegerModel:
    """Return a random integer network of any kind.

    Args:
        draw: function that draws codes; by default uniformly over their range.
        input_bits: bits of dense and embedded inputs.
    """

    def uniform(low: int, high: int, shape: Any) -> Any:
        return rng.integers(low, high + 1, shape)

    check_integer_network(network)
    draw = draw or uniform
    bits = 2 if network.input_kind == "one_hot" else input_bits
    grown = (network.stride - 1).bit_length()
    layers: list[IntegerLayer] = []
    for index in range(network.num_layers):
        layers.append(_draw_layer(network, index, bits, rng, draw))
        bits = (layers[-1].output_bits or 0) + grown
    vocabulary = (network.vocabulary_size or 0, network.input_size)
    embedded = network.input_kind == "embedded"
    return IntegerModel(
        network,
        tuple(layers),
        output_weight_int=draw(
            *weight_range(network.weight_bits), (network.output_size, network.num_features)
        ),
        output_bias_int=draw(*_small(network), network.output_size),
        output_bias_shift=0,
        input_scale=1.0,
        logit_scale=1.0,
        embedding_int=draw(*signed_range(input_bits), vocabulary) if embedded else None,
        **_draw_features(network, rng, draw),
    )


def _draw_layer(
    network: Network, index: int, input_bits: int, rng: np.random.Generator, draw: Draw
) -> IntegerLayer:
    """Return a layer with as many fractional accumulator bits as provably fit int32."""
    units, seen = network.widths[index], network.cell_input_sizes[index]
    bits, hidden_shift = activation_bits(network), 2
    fields: dict[str, Any] = {
        "hidden_shift": hidden_shift,
        "input_bias_shift": 0,
        "signs": rng.choice([-1, 1], units),
        "input_weight_int": draw(*weight_range(network.weight_bits), (units, seen)),
        "input_bias_int": draw(*_small(network), units) if network.input_bias else None,
    }
    if index < network.num_layers - 1:
        fields |= _draw_output(network, index, input_bits, draw)
    most = max(bits - hidden_shift, weight_frac_bits(network.weight_bits) + input_bits - 1)

    def make(frac_bits: int) -> IntegerLayer:
        return IntegerLayer.of(
            network, index, input_bits=input_bits, accumulator_frac_bits=frac_bits, **fields
        )

    return finest_layer(make, most, bits - hidden_shift)


def _draw_output(network: Network, index: int, input_bits: int, draw: Draw) -> dict[str, Any]:
    """Draw the fields between two layers: gains up to 2, offsets up to an eighth of the range, a skip."""
    bits, units = activation_bits(network), network.widths[index]
    grown = (network.stride - 1).bit_length()
    output_bits = bits if not network.scales_layers else max(2, min(bits, 16 - grown))
    fields: dict[str, Any] = {"output_bits": output_bits}
    if network.scales_layers:
        fields |= {
            "gain_int": draw(*signed_range(bits), units),
            "offset_int": draw(*signed_range(bits), units),
            "gain_shift": 2 * bits - output_bits - 2,
            "offset_shift": max(bits - 4, 0),
        }
    if network.has_skip(index):
        fields["skip_shift"] = output_bits - input_bits - 1
    return fields


def _draw_features(network: Network, rng: np.random.Generator, draw: Draw) -> dict[str, Any]:
    """Draw thresholds, and scales with which most features reach a quarter of their range or more."""
    bits = activation_bits(network)
    fields: dict[str, Any] = {}
    if network.thresholds:
        shape = (network.thresholds, network.hidden_size)
        fields["thresholds_int"] = draw(*signed_range(max(bits - 1, 2)), shape)
    if network.counts_steps:
        fields["longest"] = min(1000, (LIMIT - 1) >> bits)
    if not network.scales_features:
        return fields
    rows = {kind: max(network.thresholds, 1) if kind in COUNTED else 1 for kind in network.readouts}
    # A mean count is at most 1, the others reach 2^(bits - 1).
    shifts = [
        np.full(count * network.hidden_size, 33 - bits if kind == "positive" else 32)
        for kind, count in rows.items()
    ]
    feature_shift = np.concatenate(shifts) - rng.integers(0, 4, network.num_features)
    return fields | {
        "feature_bits": bits,
        "feature_multiplier": tuple(rng.integers(1 << 14, 1 << 16, len(rows)).tolist()),
        "feature_shift": np.maximum(feature_shift, feature_shift.max() - (1 << EXPONENT_BITS) + 1),
    }


def _small(network: Network) -> tuple[int, int]:
    """Return a range for biases that leaves room for the other terms."""
    low, high = signed_range(activation_bits(network))
    return max(low, -64), min(high, 64)
