"""Lowering: a trained `SequenceModel` and its calibration become an `IntegerModel`.

    x = alpha_i x_int / 2^(p_i-1)      U = alpha_U U_int / 2^(p-1)
    h / (alpha_i alpha_U) = alpha_h h_int / 2^(p_a-1)
    alpha_W alpha_h = 2^n_h,  n_h the smallest natural number with 2^n_h >= alpha_W max|h| / (alpha_i alpha_U)

The network (W, lambda b_i, lambda U, V / lambda, b_o) has the same outputs for every lambda > 0; with
lambda = 1 / (alpha_i alpha_U) the codes of U and x enter the accumulator as they are. alpha_i reaches the
largest input, and a little further where max|h| then fills its range.
Start reading at `lower`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import raw_encoding
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel, Metadata
from hadamrnn.fixedpoint.overflow import AccumulatorOverflow
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.nn.straight_through import quantization_codes
from hadamrnn.quantization.calibration import Calibration, single_layer
from hadamrnn.quantization.config import ACTIVATION_BITS, INPUT_BITS, RAW_UNIT

MAX_SHIFT = 31
# How far alpha_i may be raised for the state's sake: nearer to 2 the input loses what the state gains.
MAX_RAISE = 1.75


@dataclass(frozen=True)
class RawInputs:
    """What raw sensor codes r mean: the network's input is v = (r - offset) * scale, channel by channel.

    `levels` is for codes 0, 1, ..., levels that mean r / levels (pixels: 255): they then enter exactly.
    """

    scale: Sequence[float] = ()
    offset: Sequence[float] = ()
    levels: int | None = None
    unit: float = 1.0  # the sensor's value of one raw code, for the reader of the model

    @classmethod
    def standardised(cls, offset: ArrayLike, scale: ArrayLike, unit: float | None) -> RawInputs:
        """Return the codes r of a sensor whose values r unit were standardised in training.

        v = (r unit - offset) / scale = (r - offset / unit) * unit / scale
        """
        if unit is None:
            raise InputError(
                "Raw int32 codes need one unit for all channels, and these are too far apart in size: what "
                "reaches the largest would lose the smallest. Scale the channels alike before training."
            )
        if unit not in RAW_UNIT:
            raise InputError(f"raw_unit, the value of one raw code, must lie in {RAW_UNIT}, got {unit}.")
        with np.errstate(over="ignore"):  # `raw_encoding` refuses what is not finite
            scales, offsets = unit / np.asarray(scale, np.float64), np.asarray(offset, np.float64) / unit
        return cls(scales.tolist(), offsets.tolist(), unit=unit)


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
        model: a `SequenceModel` over one forward `HadamRNN` layer, weight_bits 2..8 or "ternary".
        calibration: the ranges that `calibrate` found on training and validation data.
        activation_bits: p_a, of states and biases, 6..16.
        input_bits: p_i; by default exact for one-hot inputs (2) and levels (pixels: 9), else p_a.
        raw: what raw sensor codes mean, if the device shall take them.
        metadata: what else to keep with the model.
    """
    if activation_bits not in ACTIVATION_BITS:
        raise InputError(f"activation_bits must lie in {ACTIVATION_BITS}, got {activation_bits}.")
    recurrent = single_layer(model)
    cell = recurrent.cells[0]
    assert isinstance(cell, HadamCell)
    weights = _weights(model, cell)
    bits, input_scale = _input_coding(model, calibration, activation_bits, input_bits, raw)
    if not model.one_hot and (raw is None or raw.levels is None):
        input_scale = _raised(input_scale, weights, calibration, cell.block_size)
    scales = _scales(weights, input_scale, calibration, cell.block_size, activation_bits)
    columns = cell.column_signs()
    layer: dict[str, Any] = {
        "network": replace(_network(model, recurrent), activation_bits=activation_bits),
        "index": 0,
        "input_bits": bits,
        "signs": _integers(cell.signs()),
        "column_signs": None if columns is None else _integers(columns),
        "input_weight_int": weights.input_codes,
        "hidden_shift": scales.hidden_shift,
        "input_bias_shift": 0,
    }
    fields: dict[str, Any] = {
        "output_weight_int": weights.output_codes,
        "input_scale": input_scale,
        "logit_scale": scales.logit_scale,
        "metadata": {
            "calibrated_length": calibration.seq_length,
            **({} if raw is None else {"raw_unit": raw.unit}),
            **(metadata or {}),
        },
    }
    fields |= _output_bias(model, scales.logit_scale, activation_bits)
    fields |= _embedding(model, bits, input_scale)
    fields |= _raw_fields(recurrent.input_size, raw, bits, input_scale)
    frac_bits = max(activation_bits - scales.hidden_shift, weights.frac_bits + bits - 1)
    return IntegerModel((_with_accumulator(layer, frac_bits, cell.input_bias, scales.unit),), **fields)


@dataclass(frozen=True)
class _Weights:
    """U and V as codes: U = input_step * input_codes, with input_step = alpha_U / 2^frac_bits."""

    input_codes: NDArray[np.int64]
    input_step: float
    output_codes: NDArray[np.int64]
    output_step: float
    frac_bits: int

    @property
    def input_range(self) -> float:
        """alpha_U."""
        return self.input_step * (1 << self.frac_bits)


@dataclass(frozen=True)
class _Scales:
    unit: float  # alpha_i alpha_U: the integer network's states are h / unit
    hidden_shift: int  # n_h
    logit_scale: float


def hidden_shift(scaled_state: float) -> int:
    """Return n_h, the smallest natural number (0 included) with 2^n_h >= alpha_W max|h|.

    >>> [hidden_shift(state) for state in (0.0, 1.0, 1.001, 8.0)]
    [0, 0, 1, 3]
    """
    shift = 0
    while 2.0**shift < scaled_state and shift <= MAX_SHIFT:
        shift += 1
    return shift


def bias_codes(bias: NDArray[np.float64], unit: float, bits: int) -> tuple[NDArray[np.int64], int]:
    """Return codes of `bits` bits and the smallest shift s >= 0 with bias ~ codes 2^s unit.

    >>> codes, shift = bias_codes(np.array([5.0, -40.0]), unit=1.0, bits=6)
    >>> codes.tolist(), shift
    ([3, -20], 1)
    """
    low, high = signed_range(bits)
    for shift in range(MAX_SHIFT + 1):
        codes = np.floor(bias / (unit * 2.0**shift) + 0.5)
        if codes.min() >= low and codes.max() <= high:
            return codes.astype(np.int64), shift
    raise InputError(
        f"A bias of {np.abs(bias).max():.3g} dwarfs its unit {unit:.3g}: no shift up to {MAX_SHIFT} fits it "
        f"into {bits} bits. Train with smaller biases or larger weights."
    )


def _weights(model: SequenceModel, cell: HadamCell) -> _Weights:
    bits = cell.weight_bits
    if bits != model.readout.weight_bits:
        raise InputError(
            f"U and V must have the same weight_bits, got {bits} and {model.readout.weight_bits}."
        )
    if bits is None or (bits != "ternary" and not 2 <= int(bits) <= 8):
        raise InputError(
            f'An integer model needs weight_bits 2..8 or "ternary", got {bits}. Train with those.'
        )
    input_codes, input_step = quantization_codes(cell.input_weight.detach(), bits)
    output_codes, output_step = quantization_codes(model.readout.weight.detach(), bits)
    return _Weights(
        _integers(input_codes),
        float(input_step),
        _integers(output_codes),
        float(output_step),
        frac_bits=0 if bits == "ternary" else int(bits) - 1,
    )


def _raised(input_scale: float, weights: _Weights, calibration: Calibration, block_size: int) -> float:
    """Return alpha_i, raised until max|h| fills the state's range where that makes n_h one less.

    The range of h is a power of two times alpha_i: left as it comes, up to half of it is never used. Every
    step rounds the state, so its grid matters more than the input's.
    """
    needed = _needed_range(input_scale, weights, calibration, block_size)
    shift = hidden_shift(needed)
    # A hair more, that rounding does not leave max|h| just outside.
    factor = (1 + 1e-9) * math.ldexp(needed, 1 - shift)
    return input_scale * factor if shift > 0 and factor <= MAX_RAISE else input_scale


def _needed_range(input_scale: float, weights: _Weights, calibration: Calibration, block_size: int) -> float:
    """Return alpha_W max|h| / (alpha_i alpha_U), which 2^n_h must reach."""
    return 2 / math.sqrt(block_size) * calibration.max_state / (input_scale * weights.input_range)


def _scales(
    weights: _Weights, input_scale: float, calibration: Calibration, block_size: int, activation_bits: int
) -> _Scales:
    unit = input_scale * weights.input_range
    shift = hidden_shift(_needed_range(input_scale, weights, calibration, block_size))
    hidden_scale = 2**shift * math.sqrt(block_size) / 2
    return _Scales(unit, shift, unit * hidden_scale * weights.output_step * 2.0 ** (1 - activation_bits))


def _input_coding(
    model: SequenceModel,
    calibration: Calibration,
    activation_bits: int,
    input_bits: int | None,
    raw: RawInputs | None,
) -> tuple[int, float]:
    """Return p_i and alpha_i."""
    if model.one_hot:
        if input_bits not in (None, 2):
            raise InputError(
                f"One-hot inputs are exact in 2 bits, got input_bits {input_bits}. Leave it out."
            )
        return 2, 2.0
    levels = None if raw is None else raw.levels
    default = activation_bits if levels is None else levels.bit_length() + 1
    bits = default if input_bits is None else input_bits
    if bits not in INPUT_BITS:
        raise InputError(f"input_bits must lie in {INPUT_BITS}, got {bits}.")
    if levels is not None:
        return bits, 2 ** levels.bit_length() / levels
    return bits, calibration.max_input or 1.0


def _output_bias(model: SequenceModel, logit_scale: float, activation_bits: int) -> dict[str, Any]:
    assert model.readout.bias is not None
    codes, shift = bias_codes(_floats(model.readout.bias), logit_scale, activation_bits)
    return {"output_bias_int": codes, "output_bias_shift": shift}


def _embedding(model: SequenceModel, bits: int, input_scale: float) -> dict[str, Any]:
    if model.embedding is None:
        return {}
    table = model.embedding.weight.detach().double().numpy()
    low, high = signed_range(bits)
    codes = np.clip(np.floor(table * (2 ** (bits - 1) / input_scale) + 0.5), low, high)
    return {"embedding_int": codes.astype(np.int64)}


def _raw_fields(channels: int, raw: RawInputs | None, bits: int, input_scale: float) -> dict[str, Any]:
    if raw is None:
        return {}
    scale = raw.scale if raw.levels is None else [1 / raw.levels] * channels
    offset = raw.offset if raw.levels is None else [0.0] * channels
    if len(scale) != channels or len(offset) != channels:
        raise InputError(
            f"RawInputs needs a scale and an offset for each of {channels} channels, "
            f"got {len(scale)} and {len(offset)}."
        )
    offsets, multipliers, shifts = raw_encoding(scale, offset, input_scale=input_scale, input_bits=bits)
    return {"raw_offset": offsets, "raw_multiplier": multipliers, "raw_shift": shifts}


def _with_accumulator(
    fields: dict[str, Any], frac_bits: int, bias: Tensor | None, unit: float
) -> IntegerLayer:
    """Return the layer with the most fractional bits of the accumulator that int32 can be proven to hold."""
    activation_bits = fields["network"].activation_bits
    fewest = activation_bits - fields["hidden_shift"]
    while True:
        if bias is not None:
            codes, fields["input_bias_shift"] = bias_codes(
                _floats(bias), unit * 2.0**-frac_bits, activation_bits
            )
            fields["input_bias_int"] = codes.astype(np.int16)
        try:
            return IntegerLayer(**fields, accumulator_frac_bits=frac_bits)
        except AccumulatorOverflow:
            if frac_bits == fewest:
                raise
        frac_bits -= 1


def _network(model: SequenceModel, recurrent: HadamRNN) -> Network:
    """Return the description of a model, also of one that was put together by hand."""
    if model.network is not None:
        return model.network
    return Network(
        recurrent.input_size,
        recurrent.hidden_size,
        model.readout.out_features,
        num_blocks=recurrent.num_blocks,
        weight_bits=recurrent.weight_bits,
        recurrence=recurrent.recurrence,
        switches=recurrent.switches,
        input_bias=recurrent.bias,
        input_kind="one_hot" if model.one_hot else "dense" if model.embedding is None else "embedded",
        vocabulary_size=None if model.embedding is None else model.embedding.num_embeddings,
        every_output=model.every_output,
    )


def _floats(values: Tensor) -> NDArray[np.float64]:
    return values.detach().double().numpy()


def _integers(codes: Tensor) -> NDArray[np.int64]:
    return codes.detach().to(torch.int64).numpy()
