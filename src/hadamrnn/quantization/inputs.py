"""What the lowest layer reads, as codes: a sensor's raw values, pixels, symbols or words."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, raw_encoding
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization import Precision
from hadamrnn.quantization.calibration import Calibration


@dataclass(frozen=True)
class Coding:
    """What the codes x mean that a layer reads: x alpha / 2^(bits - 1), for |x| <= 2^(bits - 1)."""

    bits: int
    scale: float  # alpha_i
    is_free: bool = False  # nothing else depends on alpha_i: it may be larger

    @property
    def step(self) -> float:
        """The value of one code."""
        return self.scale * 2.0 ** (1 - self.bits)


@dataclass(frozen=True)
class RawInputs:
    """What raw sensor codes r mean: the network's input is v = (r - offset) * scale, channel by channel.

    `knee` is k of a channel whose codes are compressed first (`compressed_codes`, 2^k), 0 of the others.
    `levels` is for codes 0, 1, ..., levels that mean r / levels (pixels: 255): they then enter exactly.
    """

    scale: Sequence[float] = ()
    offset: Sequence[float] = ()
    levels: int | None = None
    unit: float = 1.0  # the sensor's value of one raw code, for the reader of the model
    knee: Sequence[int] = ()

    @classmethod
    def standardised(
        cls, offset: ArrayLike, scale: ArrayLike, unit: float | None, knee: ArrayLike | None = None
    ) -> RawInputs:
        """Return the codes r of a sensor whose values r unit were standardised in training.

        v = (r unit - offset) / scale = (r - offset / unit) * unit / scale

        Args:
            knee: of `compress`, which values went through before; 0 where they did not.
        """
        if unit is None:
            raise InputError(
                "Raw int32 codes need one unit that resolves every channel and reaches its largest value, "
                "and there is none. Before training subtract large offsets, and scale the channels alike."
            )
        Precision(raw_unit=unit)  # checks it
        knees = np.zeros_like(scale, np.float64) if knee is None else np.asarray(knee, np.float64)
        step = np.where(knees > 0, 2.0**-OCTAVE_BITS, unit)
        with np.errstate(over="ignore"):  # `raw_encoding` refuses what is not finite
            scales, offsets = step / np.asarray(scale, np.float64), np.asarray(offset, np.float64) / step
        powers = [_power(each / unit) if each else 0 for each in knees.tolist()]
        return cls(scales.tolist(), offsets.tolist(), unit=unit, knee=powers if any(powers) else ())


def _power(ratio: float) -> int:
    """Return k with ratio = 2^k."""
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
    """Return p_i and alpha_i of the lowest layer."""
    if model.network.input_kind == "one_hot":
        if input_bits not in (None, 2):
            raise InputError(
                f"One-hot inputs are exact in 2 bits, got input_bits {input_bits}. Leave it out."
            )
        return Coding(2, 2.0)
    levels = None if raw is None else raw.levels
    default = activation_bits if levels is None else levels.bit_length() + 1
    bits = default if input_bits is None else input_bits
    Precision(input_bits=bits)  # checks them
    if levels is not None:
        return Coding(bits, 2 ** levels.bit_length() / levels)
    return Coding(bits, calibration.max_input or 1.0, is_free=True)


def embedding_fields(model: SequenceModel, coding: Coding) -> dict[str, Any]:
    """Return the codes of the embedding table, of a model that has one."""
    if model.embedding is None:
        return {}
    table = model.embedding.weight.detach().double().numpy()
    low, high = signed_range(coding.bits)
    codes = np.clip(np.floor(table * (2 ** (coding.bits - 1) / coding.scale) + 0.5), low, high)
    return {"embedding_int": codes.astype(np.int64)}


def raw_fields(channels: int, raw: RawInputs | None, coding: Coding) -> dict[str, Any]:
    """Return the encoding of raw sensor codes, where the device is to take them."""
    if raw is None:
        return {}
    scale = raw.scale if raw.levels is None else [1 / raw.levels] * channels
    offset = raw.offset if raw.levels is None else [0.0] * channels
    if len(scale) != channels or len(offset) != channels:
        raise InputError(
            f"RawInputs needs a scale and an offset for each of {channels} channels, "
            f"got {len(scale)} and {len(offset)}."
        )
    encoded = raw_encoding(scale, offset, input_scale=coding.scale, input_bits=coding.bits)
    fields = dict(zip(("raw_offset", "raw_multiplier", "raw_shift"), encoded, strict=True))
    return fields | ({"raw_knee": np.array(raw.knee, np.int32)} if raw.knee else {})
