"""Calibrate: measure how large states, outputs, features and inputs get on training and validation data.

The integer state covers [-alpha_h, alpha_h), so alpha_h must reach max|h| over every step of every sequence.
The same applies to layer outputs and pooled features. With a percentile below 100, each range covers only
that percentage of the sequences; the others may saturate, but all get a finer grid.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, raw_encoding
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.network import check_deployable
from hadamrnn.nn.interface import Tokens, evaluating
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.normalization import counted
from hadamrnn.nn.stack import HadamStack
from hadamrnn.nn.storage import check_finite
from hadamrnn.quantization import Precision
from hadamrnn.settings import check_equal

STATE_BYTES = 1 << 22  # most bytes of states in memory at once


@dataclass(frozen=True)
class Calibration:
    """The ranges that lowering needs, in the units of the float network."""

    max_state: float  # max |h_t| of the last layer
    max_input: float  # max |x_t| of the data or of the embedding table; 1 for one-hot inputs
    seq_length: int  # longest sequence so far; longer sequences may have larger states
    samples: int
    percentile: float = 100.0
    below: tuple[tuple[float, float], ...] = ()  # max |h_t|, max |y_t| of lower layers, lowest first
    max_feature: float = 0.0  # max |2^-e f| of pooled or normalised features f


class NotFinite(InputError):
    """Raised if the data, or the states of a diverged network, contain NaN or infinity."""


@torch.no_grad()
def calibrate(
    model: SequenceModel, batches: Iterable[tuple[Tensor, Tensor | None]], percentile: float = 100.0
) -> Calibration:
    """Run `model` over batches `(x, lengths)`, in evaluation mode, and return the ranges of its values.

    Args:
        model: a `SequenceModel` of unidirectional Hadamard layers.
        batches: inputs of the model, from training and validation data, never from the test set.
        percentile: percentage of the sequences whose values must fit.
    """
    Precision(percentile=percentile)  # raises if the value is invalid
    recurrent = forward_layers(model)
    # Store plain numbers, because small tensors would fragment the memory that malloc could reuse.
    ranges = _Ranges(recurrent.network.num_layers)
    largest_inputs: list[float] = []
    seq_length = 0
    with evaluating(model):
        for x, lengths in batches:
            longest = x.shape[1] if lengths is None else max(lengths.tolist(), default=0)
            seq_length = max(seq_length, longest)
            rows = max(1, STATE_BYTES // (4 * max(1, x.shape[1]) * sum(recurrent.network.widths)))
            inputs = x if model.network.takes_ids else x.to(model.readout.weight.dtype)
            for start in range(0, len(x), rows):
                part = slice(start, start + rows)
                ends = None if lengths is None else lengths[part]
                ranges.add(model, recurrent, model.layer_input(inputs[part]), ends)
            if not model.network.takes_ids:
                largest_inputs += _largest(x, lengths)
    *below, last = ranges.states
    if not last:
        raise InputError("Calibration needs at least one sequence, got none.")
    return Calibration(
        max_state=_percentile(last, percentile),
        max_input=_max_input(model, largest_inputs, percentile),
        seq_length=seq_length,
        samples=len(last),
        percentile=percentile,
        below=tuple(
            (_percentile(states, percentile), _percentile(outputs, percentile))
            for states, outputs in zip(below, ranges.outputs, strict=True)
        ),
        max_feature=_percentile(ranges.features, percentile) if ranges.features else 0.0,
    )


class _Ranges:
    """The largest magnitudes of each sequence seen so far."""

    def __init__(self, num_layers: int) -> None:
        self.states: list[list[float]] = [[] for _ in range(num_layers)]
        self.outputs: list[list[float]] = [[] for _ in range(num_layers - 1)]
        self.features: list[float] = []

    def add(
        self, model: SequenceModel, recurrent: HadamStack, x: Tensor | Tokens, lengths: Tensor | None
    ) -> None:
        """Add the ranges of some sequences."""
        network = recurrent.network
        if network.num_layers == 1 and isinstance(x, Tensor) and not network.every_output:
            steps = max(1, STATE_BYTES // (8 * len(x) * network.hidden_size))
            stretches = recurrent.state_stretches(x, lengths, steps)
            largest = [0.0] * len(x)
            for states in stretches:
                largest = np.maximum(largest, _largest(states)).tolist()  # propagates NaN, unlike max
            self.states[0] += largest
        else:
            states = self._add_layers(recurrent, x, lengths)
        if not network.scales_features:
            return  # V reads the states themselves
        if network.every_output:
            features = states.relu()
        else:
            features = recurrent.pooled_state(x, lengths, network.readouts, model.thresholds)
        self.features += _largest(features * model.folded_readout()[0])

    def _add_layers(self, recurrent: HadamStack, x: Tensor | Tokens, lengths: Tensor | None) -> Tensor:
        """Add the ranges of every layer and return the states of the last."""
        for layer, (states, outputs) in enumerate(recurrent.layer_states(x, lengths)):
            self.states[layer] += _largest(states)
            if outputs is not None:
                self.outputs[layer] += _largest(outputs, lengths)
                lengths = None if lengths is None else lengths // recurrent.network.stride
        return states


def forward_layers(model: SequenceModel) -> HadamStack:
    """Return the model's recurrent layers, refusing those without an integer form."""
    if not isinstance(model, SequenceModel):
        raise InputError(
            f"Only a SequenceModel becomes integers, got {type(model).__name__}. Put its layers into one."
        )
    recurrent = model.hadamard_layers
    check_deployable(recurrent.network, "An integer network")
    check_finite(model)
    return recurrent


def _max_input(model: SequenceModel, largest: list[float], percentile: float) -> float:
    if model.embedding is not None:
        return float(model.embedding.weight.abs().max())
    return 1.0 if model.network.input_kind == "one_hot" else _percentile(largest, percentile)


def _largest(values: Tensor, lengths: Tensor | None = None) -> list[float]:
    """Return the largest magnitude of each row, within its length."""
    if lengths is not None:
        values = values.masked_fill(~counted(values, lengths)[:, :, None], 0)
    flat = values.flatten(1)
    if flat.shape[1] == 0:
        return [0.0] * len(flat)
    low, high = torch.aminmax(flat, dim=1)
    magnitudes: list[float] = torch.maximum(-low, high).tolist()
    return magnitudes


def _percentile(values: list[float], percentile: float) -> float:
    """Return the least of `values` that at least `percentile` percent of them do not exceed."""
    if not all(map(math.isfinite, values)):
        raise NotFinite("Calibration needs finite inputs and states, got nan or inf. Clean the data first.")
    rank = max(1, -int(-len(values) * percentile // 100))
    return sorted(values)[rank - 1]


@dataclass(frozen=True)
class Coding:
    """The coding of a layer's input: code x has the value x alpha / 2^(bits - 1), |x| <= 2^(bits - 1)."""

    bits: int
    scale: float  # alpha_i
    is_free: bool = False  # whether alpha_i may be raised because nothing else depends on it

    @property
    def lsb(self) -> float:
        """The value of one code."""
        return self.scale * 2.0 ** (1 - self.bits)


@dataclass(frozen=True)
class RawInputs:
    """The meaning of raw sensor codes r: in each channel, the network's input is v = (r - offset) * scale.

    `knee` is k if a channel's codes are compressed first (`compressed_codes`, 2^k), otherwise 0. `levels` is
    for codes 0, 1, ..., levels that mean r / levels (255 for pixels), which are then represented exactly.
    """

    scale: Sequence[float] = ()
    offset: Sequence[float] = ()
    levels: int | None = None
    unit: float = 1.0  # value of one raw code in the sensor's units, for documentation
    knee: Sequence[int] = ()

    @classmethod
    def standardised(
        cls, offset: ArrayLike, scale: ArrayLike, unit: float | None, knee: ArrayLike | None = None
    ) -> RawInputs:
        """Return the meaning of raw codes r if training standardised the values r * unit.

        v = (r unit - offset) / scale = (r - offset / unit) * unit / scale

        Args:
            knee: threshold of `compress` for channels that were compressed first; 0 for others.
        """
        if unit is None:
            raise InputError(
                "Raw int32 codes need one unit that resolves every channel and reaches its largest value, "
                "and there is none. Before training subtract large offsets, and scale the channels alike."
            )
        Precision(raw_unit=unit)  # raises if the value is invalid
        knees = np.zeros_like(scale, np.float64) if knee is None else np.asarray(knee, np.float64)
        step = np.where(knees > 0, 2.0**-OCTAVE_BITS, unit)
        with np.errstate(over="ignore"):  # `raw_encoding` refuses values that are not finite
            scales, offsets = step / np.asarray(scale, np.float64), np.asarray(offset, np.float64) / step
        powers = [_power(each / unit) if each else 0 for each in knees.tolist()]
        return cls(scales.tolist(), offsets.tolist(), unit=unit, knee=powers if any(powers) else ())


def _power(ratio: float) -> int:
    """Return k such that ratio = 2^k."""
    fraction, exponent = math.frexp(ratio)
    if fraction != 0.5 or not 1 <= exponent - 1 <= 30:
        raise InputError(
            f"A compressed channel needs a raw_unit of its knee / 2^k, k 1..30, got knee / {ratio:.6g}. "
            "Leave raw_unit out."
        )
    return exponent - 1


def input_coding(
    model: SequenceModel,
    calibration: Calibration,
    activation_bits: int,
    input_bits: int | None,
    raw: RawInputs | None,
) -> Coding:
    """Return the coding of the lowest layer's input: p_i and alpha_i."""
    if model.network.input_kind == "one_hot":
        check_equal("input_bits of one-hot inputs, which are exact,", input_bits or 2, 2)
        return Coding(2, 2.0)
    levels = None if raw is None else raw.levels
    default = activation_bits if levels is None else levels.bit_length() + 1
    bits = default if input_bits is None else input_bits
    Precision(input_bits=bits)  # raises if the bits are invalid
    if levels is not None:
        return Coding(bits, 2 ** levels.bit_length() / levels)
    return Coding(bits, calibration.max_input or 1.0, is_free=True)


def embedding_fields(model: SequenceModel, coding: Coding) -> dict[str, Any]:
    """Return the field with the embedding table's codes, if the model has one."""
    if model.embedding is None:
        return {}
    table = model.embedding.weight.detach().double().numpy()
    low, high = signed_range(coding.bits)
    codes = np.clip(np.floor(table * (2 ** (coding.bits - 1) / coding.scale) + 0.5), low, high)
    return {"embedding_int": codes.astype(np.int64)}


def raw_fields(channels: int, raw: RawInputs | None, coding: Coding) -> dict[str, Any]:
    """Return the fields that encode raw sensor codes, if the device is to read them."""
    if raw is None:
        return {}
    scale = raw.scale if raw.levels is None else [1 / raw.levels] * channels
    offset = raw.offset if raw.levels is None else [0.0] * channels
    check_equal("The numbers of scales and offsets of RawInputs", (len(scale), len(offset)), (channels,) * 2)
    encoded = raw_encoding(scale, offset, input_scale=coding.scale, input_bits=coding.bits)
    fields = dict(zip(("raw_offset", "raw_multiplier", "raw_shift"), encoded, strict=True))
    return fields | ({"raw_knee": np.array(raw.knee, np.int32)} if raw.knee else {})
