"""Lowering: a trained `SequenceModel` and its calibration become an `IntegerModel`.

The network (W, lambda b_i, lambda U, V / lambda, b_o) has the same outputs for every lambda > 0, layer by
layer; each layer takes the lambda with which its codes need no multiplication (`layers`). alpha_i reaches the
largest input, and a little further where max|h| then fills its range. The statistics of normalisation become
gains and offsets between layers, and shifts and a bias before V (`readout`).
Start reading at `lower`.
"""

from __future__ import annotations

from dataclasses import replace

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.model import IntegerModel, Metadata
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.normalization import UnitNorm
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.quantization.calibration import Calibration, LayerRange, forward_layers
from hadamrnn.quantization.config import ACTIVATION_BITS
from hadamrnn.quantization.inputs import Coding, RawInputs, embedding_fields, input_coding, raw_fields
from hadamrnn.quantization.layers import FloatLayer, LoweredLayer, lower_layer
from hadamrnn.quantization.readout import lower_readout


def lower(
    model: SequenceModel,
    calibration: Calibration,
    *,
    activation_bits: int = 12,
    input_bits: int | None = None,
    raw: RawInputs | None = None,
    metadata: Metadata | None = None,
) -> IntegerModel:
    """Return the integer network of `model`.

    Args:
        model: a `SequenceModel` over a `HadamRNN` that reads forwards, weight_bits 2..8 or "ternary".
        calibration: the ranges that `calibrate` found on training and validation data.
        activation_bits: p_a, of states and biases, 6..16.
        input_bits: p_i; by default exact for one-hot inputs (2) and levels (pixels: 9), else p_a.
        raw: what raw sensor codes mean, if the device is to take them.
        metadata: what else to keep with the model.
    """
    if activation_bits not in ACTIVATION_BITS:
        raise InputError(f"activation_bits must lie in {ACTIVATION_BITS}, got {activation_bits}.")
    recurrent = forward_layers(model)
    _check_weight_bits(model, recurrent)
    network = replace(described(model, recurrent), activation_bits=activation_bits)
    stack = float_layers(recurrent, calibration)
    coding = stack[0].raised(input_coding(model, calibration, activation_bits, input_bits, raw))
    layers = lower_layers(network, stack, coding)
    return IntegerModel(
        layers=tuple(lowered.layer for lowered in layers),
        input_scale=coding.scale,
        metadata={
            "calibrated_length": calibration.seq_length,
            **({} if raw is None else {"raw_unit": raw.unit}),
            **(metadata or {}),
        },
        **lower_readout(model, network, layers[-1].state_step, calibration.max_feature),
        **embedding_fields(model, coding),
        **raw_fields(recurrent.input_size, raw, coding),
    )


def state_step(model: SequenceModel, calibration: Calibration, activation_bits: int) -> float:
    """Return the value of one code of the last layer's states, in the integer network of real inputs."""
    recurrent = forward_layers(model)
    network = replace(described(model, recurrent), activation_bits=activation_bits)
    stack = float_layers(recurrent, calibration)
    coding = stack[0].raised(input_coding(model, calibration, activation_bits, None, None))
    return lower_layers(network, stack, coding)[-1].state_step


def can_lower(model: SequenceModel) -> bool:
    """Whether U and V have so many bits that integers hold them."""
    bits = model.readout.weight_bits
    return bits is not None and (bits == "ternary" or 2 <= int(bits) <= 8)


def described(model: SequenceModel, recurrent: HadamRNN) -> Network:
    """Return the description of a model, also of one that `build_model` did not make."""
    if model.network is not None:
        return model.network
    return replace(
        recurrent.network,
        output_size=model.readout.out_features,
        readouts=model.readouts,
        thresholds=0 if model.thresholds is None else len(model.thresholds),
        normalize=recurrent.network.normalize or model.feature_scale is not None,
        input_kind="one_hot" if model.one_hot else "dense" if model.embedding is None else "embedded",
        vocabulary_size=None if model.embedding is None else model.embedding.num_embeddings,
        padding_id=None if model.embedding is None else model.embedding.padding_idx,
        every_output=model.every_output,
    )


def lower_layers(network: Network, stack: list[FloatLayer], coding: Coding) -> list[LoweredLayer]:
    """Return the layers in integers, the first of which reads `coding`."""
    layers: list[LoweredLayer] = []
    for index, (floats, above) in enumerate(zip(stack, [*stack[1:], None], strict=True)):
        lowered = lower_layer(network, index, floats, coding, above)
        layers.append(lowered)
        coding = lowered.output or coding
    return layers


def float_layers(recurrent: HadamRNN, calibration: Calibration) -> list[FloatLayer]:
    """Return the layers with their ranges, the lowest first."""
    if len(calibration.below) != recurrent.num_layers - 1:
        raise InputError(
            f"This calibration is of {len(calibration.below) + 1} layers, the network has "
            f"{recurrent.num_layers}. Calibrate the network itself."
        )
    layers = []
    for index, ranges in enumerate((*calibration.below, LayerRange(calibration.max_state, 0.0))):
        cell = recurrent.cells[index]
        norm = recurrent.norms[index] if index < min(len(recurrent.norms), recurrent.num_layers - 1) else None
        assert isinstance(cell, HadamCell) and (norm is None or isinstance(norm, UnitNorm))
        layers.append(FloatLayer(cell, norm, ranges.max_state, ranges.max_output))
    return layers


def _check_weight_bits(model: SequenceModel, recurrent: HadamRNN) -> None:
    bits = recurrent.weight_bits
    if bits != model.readout.weight_bits:
        raise InputError(
            f"U and V must have the same weight_bits, got {bits} and {model.readout.weight_bits}."
        )
    if not can_lower(model):
        raise InputError(
            f'An integer model needs weight_bits 2..8 or "ternary", got {bits}. Train with those.'
        )
