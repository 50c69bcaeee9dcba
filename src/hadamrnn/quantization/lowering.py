"""Lower a trained `SequenceModel`, with its calibration, to an `IntegerModel`.

The network (W, lambda b_i, lambda U, V / lambda, b_o) has the same outputs for every lambda > 0, and so has
each layer; it uses the lambda for which its codes need no multiplication (`layers`). alpha_i is the largest
input, or slightly more if max|h| then fills its range. The statistics of normalisation become gains and
offsets between layers, and shifts and a bias before V:

    logit = V 2^-e (f - m) + b = V codes + b',       codes ~ 2^-e f / feature_step

with the exponents e and means m of `FeatureScale` (0 without one). A feature f is an integer value times its
unit, which is the lsb of a state, or 1 for `positive`. In the paper's form the codes are the states
themselves. Start reading at `lower`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import Metadata
from hadamrnn.fixedpoint.integers import MULTIPLIER_BITS, signed_range
from hadamrnn.fixedpoint.layer import check_integer_network
from hadamrnn.fixedpoint.model import MAX_LONGEST, IntegerModel
from hadamrnn.fixedpoint.overflow import LIMIT, bits_of_sums
from hadamrnn.fixedpoint.step import RATE_BITS
from hadamrnn.network import Network, features_per_unit
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.stack import HadamStack
from hadamrnn.nn.straight_through import quantization_codes
from hadamrnn.quantization import Precision
from hadamrnn.quantization.calibration import (
    Calibration,
    Coding,
    RawInputs,
    embedding_fields,
    forward_layers,
    input_coding,
    raw_fields,
)
from hadamrnn.quantization.layers import (
    FloatLayer,
    Floats,
    Integers,
    LoweredLayer,
    bias_codes,
    floats_of,
    integers,
    lower_layer,
)
from hadamrnn.settings import check_equal

MOST_FEATURE_BITS = 16
# Features of new data, or earlier in a sequence, may exceed the calibrated range by this factor.
HEADROOM = 2.0


def lower(
    model: SequenceModel,
    calibration: Calibration,
    *,
    activation_bits: int = 12,
    input_bits: int | None = None,
    raw: RawInputs | None = None,
    metadata: Metadata | None = None,
) -> IntegerModel:
    """Convert `model` to an integer network.

    Args:
        model: a `SequenceModel` of unidirectional Hadamard layers, weight_bits 2..8 or "ternary".
        calibration: ranges from `calibrate` on training and validation data.
        activation_bits: p_a, bits of states and biases, 6..16.
        input_bits: p_i; by default exact for one-hot inputs (2) and levels (9 for pixels), else p_a.
        raw: the meaning of raw sensor codes, if the device is to read them.
        metadata: additional entries to store with the model.
    """
    Precision(activation_bits=activation_bits, input_bits=input_bits)  # raises if the bits are invalid
    network = replace(forward_layers(model).network, activation_bits=activation_bits)
    check_integer_network(network)
    coding, layers = _lowered(model, calibration, activation_bits, input_bits, raw)
    return IntegerModel(
        network,
        layers=tuple(lowered.layer for lowered in layers),
        input_scale=coding.scale,
        metadata={
            "calibrated_length": calibration.seq_length,
            **({} if raw is None else {"raw_unit": raw.unit}),
            **(metadata or {}),
        },
        **lower_readout(model, network, layers[-1].state_lsb, calibration),
        **embedding_fields(model, coding),
        **raw_fields(network.input_size, raw, coding),
    )


def state_lsb(model: SequenceModel, calibration: Calibration, activation_bits: int) -> float:
    """Return the value of one code of the last layer's states, if the network reads real inputs."""
    return _lowered(model, calibration, activation_bits, None, None)[1][-1].state_lsb


def _lowered(
    model: SequenceModel,
    calibration: Calibration,
    activation_bits: int,
    input_bits: int | None,
    raw: RawInputs | None,
) -> tuple[Coding, list[LoweredLayer]]:
    """Return the coding of the lowest layer's input, and all integer layers."""
    network = replace(model.hadamard_layers.network, activation_bits=activation_bits)
    stack = float_layers(forward_layers(model), calibration)
    coding = stack[0].raised(input_coding(model, calibration, activation_bits, input_bits, raw))
    return coding, lower_layers(network, stack, coding)


def can_lower(model: SequenceModel) -> bool:
    """Return whether U and V have an integer form: 2 to 8 bits, or ternary."""
    bits = model.readout.weight_bits
    return bits is not None and (bits == "ternary" or 2 <= int(bits) <= 8)


def lower_layers(network: Network, stack: list[FloatLayer], coding: Coding) -> list[LoweredLayer]:
    """Return the integer layers; the input of the first has this `coding`."""
    layers: list[LoweredLayer] = []
    for index, (floats, above) in enumerate(zip(stack, [*stack[1:], None], strict=True)):
        lowered = lower_layer(network, index, floats, coding, above)
        layers.append(lowered)
        coding = lowered.output or coding
    return layers


def float_layers(recurrent: HadamStack, calibration: Calibration) -> list[FloatLayer]:
    """Return the float layers with their ranges, lowest layer first."""
    check_equal("The number of calibrated layers", len(calibration.below) + 1, recurrent.network.num_layers)
    layers = []
    for index, ranges in enumerate((*calibration.below, (calibration.max_state, 0.0))):
        normed = index < min(len(recurrent.norms), recurrent.network.num_layers - 1)
        layers.append(FloatLayer(recurrent.cell(index), recurrent.norm(index) if normed else None, *ranges))
    return layers


def lower_readout(
    model: SequenceModel, network: Network, state_lsb: float, calibration: Calibration
) -> dict[str, Any]:
    """Return the fields of an `IntegerModel` that lead from the last layer's states to the logits.

    Args:
        network: network of the integer model, with activation_bits.
        state_lsb: the value of one code of a state.
        calibration: has the largest |2^-e f| and the longest sequence, whose sums must fit 32 bits.
    """
    assert network.activation_bits is not None and network.weight_bits is not None
    codes, code_step = quantization_codes(model.readout.weight.detach(), network.weight_bits)
    weight, weight_step = integers(codes), float(code_step)
    assert model.readout.bias is not None
    bias = floats_of(model.readout.bias)
    fields: dict[str, Any] = {"output_weight_int": weight}
    if network.counts_steps:
        fields["longest"] = _longest(network.activation_bits, calibration.seq_length)
    if model.thresholds is not None:
        theta = np.floor(floats_of(model.thresholds) / state_lsb + 0.5)
        fields["thresholds_int"] = np.clip(theta, *signed_range(network.activation_bits)).astype(np.int64)
    if not network.scales_features:
        return fields | _output_bias(bias, state_lsb * weight_step, network.activation_bits)
    exponents, means = _statistics(model)
    for feature_bits in range(MOST_FEATURE_BITS, 1, -1):
        # The value of one lsb of a feature, times 2^-e.
        step = HEADROOM * (calibration.max_feature or 1.0) * 2.0 ** (1 - feature_bits)
        factors, scales = _feature_scales(network, exponents, state_lsb, step)
        folded = bias - (weight * weight_step) @ (factors * step * means)
        output = _output_bias(folded, step * weight_step, network.activation_bits)
        if _largest_logit(weight, feature_bits, output) < LIMIT:
            return fields | output | scales | {"feature_bits": feature_bits}
    raise InputError("A logit must stay below 2^31: V and its bias are too large. Lower weight_bits.")


def _longest(activation_bits: int, seq_length: int) -> int:
    """Return the longest sequence whose sums fit 32 bits; refuse if it is shorter than in calibration."""
    longest = min(MAX_LONGEST, (LIMIT - 1) >> activation_bits)
    if seq_length > longest:
        bits = bits_of_sums(seq_length)
        advice = (
            "Cut the sequences" if seq_length > MAX_LONGEST else f"Choose activation_bits of at most {bits}"
        )
        raise InputError(
            f"Sums of {activation_bits}-bit states hold {longest} steps, and the calibration had sequences "
            f"of {seq_length}. {advice}."
        )
    return longest


def _feature_scales(
    network: Network, exponents: Floats, state_lsb: float, step: float
) -> tuple[Floats, dict[str, Any]]:
    """Return each feature's codes per unit, and the fields that scale the features.

    A multiplier M for each read-out and shifts s satisfy M 2^(15 - s) ~ unit 2^-e / lsb. A multiplier has 16
    bits, or fewer if its shifts would otherwise be too far from the others'.
    """
    rows = [features_per_unit((kind,), network.thresholds) for kind in network.readouts]
    counts = [network.hidden_size * each for each in rows]
    units = np.array([1.0 if kind == "positive" else state_lsb for kind in network.readouts])
    fractions, powers = np.frexp(units / step)
    shifts = exponents.astype(np.int64) + np.repeat(MULTIPLIER_BITS + RATE_BITS - powers, counts)
    groups = np.split(shifts, np.cumsum(counts)[:-1])
    highest = shifts.min() + (1 << EXPONENT_BITS) - 1
    excess = np.array([max(0, group.max() - highest) for group in groups])
    multipliers = np.floor(fractions * 2.0 ** (MULTIPLIER_BITS - excess) + 0.5)
    if multipliers.min() < 1:
        raise InputError(
            f"Features of {', '.join(network.readouts)} must be of similar size, their scales differ by "
            f"2^{int(shifts.max() - shifts.min())}. Train with normalize, or with one kind of read-out."
        )
    multipliers = np.minimum(multipliers, (1 << MULTIPLIER_BITS) - 1).astype(np.int64)
    shifts -= np.repeat(excess, counts)
    factors = np.repeat(multipliers / units, counts) * np.ldexp(1.0, RATE_BITS - shifts)
    return factors, {"feature_multiplier": tuple(multipliers.tolist()), "feature_shift": shifts}


def _statistics(model: SequenceModel) -> tuple[Floats, Floats]:
    """Return the exponent e and the mean m of each feature."""
    scale = model.feature_scale
    if scale is None:
        return np.zeros(model.readout.in_features), np.zeros(model.readout.in_features)
    return floats_of(scale.exponents), floats_of(scale.running_mean)


def _output_bias(bias: Floats, logit_scale: float, activation_bits: int) -> dict[str, Any]:
    codes, shift = bias_codes(bias, logit_scale, activation_bits)
    return {"output_bias_int": codes, "output_bias_shift": shift, "logit_scale": logit_scale}


def _largest_logit(weight: Integers, feature_bits: int, output: dict[str, Any]) -> int:
    products = np.abs(weight).sum(axis=1) << feature_bits - 1
    return int((products + (np.abs(output["output_bias_int"]) << output["output_bias_shift"])).max())
