"""Encode the values of a sensor or a data set as codes of an integer model, and turn logits into values.

    values    r = round(value / raw_unit)                                             as in the training file
    raw codes x = saturate(round((r - raw_offset) * raw_multiplier / 2^raw_shift))    integers only
    inputs    x = saturate(round(v * 2^(input_bits - 1) / input_scale))               v of the float network

Ties round towards +infinity; r saturates to int32 and x to input_bits. Arrays of any shape are accepted, with
channels last. If a sensor's values span many powers of two, `compressed_codes` replaces r. Start reading at
`encode_values`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import IntegerBase, Metadata
from hadamrnn.fixedpoint.integers import check_integers, round_shift, saturate, scaled_integers, signed_range

Codes = NDArray[np.int32]

OCTAVE_BITS = 16  # fractional bits of compressed codes


class Inputs(Protocol):
    """The properties of an integer network's inputs; the fields are those of `IntegerModel`."""

    @property
    def input_kind(self) -> str: ...
    @property
    def input_size(self) -> int: ...
    @property
    def input_bits(self) -> int: ...
    @property
    def input_scale(self) -> float: ...
    @property
    def raw_unit(self) -> float: ...
    @property
    def raw_offset(self) -> NDArray[np.int32] | None: ...
    @property
    def raw_multiplier(self) -> NDArray[np.int32] | None: ...
    @property
    def raw_shift(self) -> NDArray[np.int32] | None: ...
    @property
    def raw_knee(self) -> NDArray[np.int32] | None: ...


def encode_values(model: Inputs, values: ArrayLike) -> tuple[Codes, int]:
    """Return the codes of values `(..., input_size)` as in the training file, and how many saturated."""
    array = np.asarray(values, np.float64)
    _check_values(model, array)
    return encode_raw(model, raw_codes(array, model.raw_unit))


def raw_codes(values: ArrayLike, unit: float) -> NDArray[np.int64]:
    """Return the int32 codes round(value / unit) of a sensor with this unit, ties towards +infinity.

    >>> raw_codes([-0.75, 0.25, 0.75, 1e30], 0.5).tolist()
    [-1, 1, 2, 2147483647]
    """
    with np.errstate(over="ignore"):
        codes = np.floor(np.asarray(values, np.float64) / unit + 0.5)
    return np.clip(codes, *signed_range(32)).astype(np.int64)


def encode_raw(model: Inputs, raw: ArrayLike) -> tuple[Codes, int]:
    """Return the input codes for raw int32 sensor codes `(..., input_size)`, and how many saturated."""
    array = np.asarray(raw)
    _check_channels("Raw codes", model, array)
    advice = " encode_values takes real numbers."
    check_integers("Raw codes", array, array.shape, signed_range(32), advice)
    clipped, count = saturate(_wide_codes(model, array), model.input_bits)
    return clipped.astype(np.int32), count


def count_outliers(model: Inputs, values: ArrayLike) -> int:
    """Return the number of training values that exceed the range of the codes by more than one code.

    The largest calibration value may round to the first code outside the range, which is harmless.
    """
    low, high = signed_range(model.input_bits)
    codes = _wide_codes(model, raw_codes(values, model.raw_unit))
    return int(((codes < low - 1) | (codes > high + 1)).sum())


def _wide_codes(model: Inputs, raw: NDArray[Any]) -> NDArray[np.int64]:
    """Return the input codes for raw int32 sensor codes before they are clipped to `input_bits`."""
    values: NDArray[np.int64] = raw.astype(np.int64)
    if model.raw_offset is not None and model.raw_multiplier is not None and model.raw_shift is not None:
        shift = model.raw_shift.astype(np.int64)
        if model.raw_knee is not None:
            values = compressed_codes(values, model.raw_knee)
        values = (values - model.raw_offset) * model.raw_multiplier + ((np.int64(1) << shift) >> 1) >> shift
    return values


def compressed_codes(raw: NDArray[np.int64], knee: NDArray[np.int32]) -> NDArray[np.int64]:
    """Return `compress(raw, 2^knee)` in units of 2^-16, rounded towards zero; raw itself if knee is 0.

    a = |raw| + 2^knee is e octaves above 1. A device computes this with leading zeros and shifts.

    >>> compressed_codes(np.array([0, 16, -48, 5]), np.array([4, 4, 4, 0])).tolist()
    [0, 65536, -131072, 5]
    """
    above = np.abs(raw) + (np.int64(1) << knee.astype(np.int64))
    octave = np.frexp(above.astype(np.float64))[1].astype(np.int64) - 1
    rest = (above - (np.int64(1) << octave) << OCTAVE_BITS) >> octave
    return np.where(knee > 0, np.sign(raw) * ((octave - knee << OCTAVE_BITS) + rest), raw)


def compress(values: ArrayLike, knee: ArrayLike) -> NDArray[np.float64]:
    """Return how many octaves 1 + |value| / knee spans, with the value's sign, linear within an octave.

        sign(v) (e + a / 2^e - 1)        a = 1 + |v| / knee, 2^e <= a < 2^(e + 1)

    Values well below the knee are almost proportional, v / knee.

    >>> compress([0.0, 0.5, 1.0, -3.0, 1023.0], 1.0).tolist()
    [0.0, 0.5, 1.0, -2.0, 10.0]
    """
    fractions, exponents = np.frexp(1 + np.abs(values) / np.asarray(knee))
    return np.asarray(np.sign(values) * (exponents + 2 * fractions - 2))


def expand(octaves: ArrayLike, knee: ArrayLike) -> NDArray[np.float64]:
    """Invert `compress`: return the values for `octaves`.

    >>> expand(compress([0.1, -7.0, 300.0], 0.5), 0.5).round(9).tolist()
    [0.1, -7.0, 300.0]
    """
    rest, whole = np.modf(np.abs(octaves))
    with np.errstate(over="ignore"):
        return np.asarray(np.sign(octaves) * (np.exp2(whole) * (1 + rest) - 1) * knee)


def encode_inputs(model: Inputs, inputs: ArrayLike) -> tuple[Codes, int]:
    """Return the codes of the float network's inputs `(..., input_size)`, and how many saturated.

    If training standardised values, inputs are standardised values. For a model that reads raw codes they are
    converted to raw codes first, which is exact for codes within 2^16 of their offset.
    """
    if model.raw_offset is not None:
        return encode_raw(model, raw_from_inputs(model, inputs))
    array = np.asarray(inputs, np.float64)
    _check_values(model, array)
    with np.errstate(over="ignore"):  # overflow saturates
        scaled = np.floor(array * (2.0 ** (model.input_bits - 1) / model.input_scale) + 0.5)
    clipped, count = saturate(scaled, model.input_bits)
    return clipped.astype(np.int32), count


def _check_values(model: Inputs, array: NDArray[np.floating[Any]]) -> None:
    _check_channels("Real inputs", model, array)
    if not np.isfinite(array).all():
        raise InputError("Real inputs must be finite, got nan or inf. Clean the data first.")


def _check_channels(what: str, model: Inputs, array: NDArray[Any]) -> None:
    if model.input_kind != "dense" or array.shape[-1:] != (model.input_size,):
        raise InputError(
            f"{what} belong to dense models, {model.input_size} channels last; this model is "
            f"{model.input_kind}, the array has shape {array.shape}."
        )


def input_meaning(model: IntegerBase) -> str:
    """Describe the inputs of the network for the programmer of a device."""
    if model.input_kind != "dense":
        return f"ids 0..{model.vocabulary_size - 1}"
    front_end = model.network.front_end
    what, unit = ("raw codes", model.raw_unit) if front_end is None else ("int16 samples", front_end.unit)
    if unit == 1:
        return f"{what} are the integers that the training data held"
    return f"{what} are the training data's values divided by {unit!r}, rounded"


def value_scaling(model: Inputs) -> tuple[list[float], list[float]]:
    """Return offset and scale of each channel: the network's input is (value - offset) / scale.

    For a compressed channel they apply to its octaves. A channel that the network ignores has scale 1.
    """
    if model.raw_offset is None or model.raw_multiplier is None or model.raw_shift is None:
        return [0.0] * model.input_size, [1.0] * model.input_size
    resolution = model.input_scale * 2.0 ** (1 - model.input_bits)
    factors = np.ldexp(model.raw_multiplier.astype(np.float64), -model.raw_shift) * resolution
    knees = np.zeros(model.input_size) if model.raw_knee is None else model.raw_knee
    units = np.where(knees > 0, 2.0**-OCTAVE_BITS, model.raw_unit)
    scales = np.divide(units, factors, out=np.ones_like(factors), where=factors != 0)
    return (model.raw_offset * units).tolist(), scales.tolist()


def raw_from_inputs(model: Inputs, inputs: ArrayLike) -> Codes:
    """Return raw codes for the float network's inputs `(..., input_size)`: the inverse of `encode_raw`.

    r = raw_offset + v * 2^(input_bits - 1) / input_scale * 2^raw_shift / raw_multiplier
    """
    array = np.asarray(inputs)
    _check_values(model, array)
    scaled: NDArray[np.float64] = array * (2.0 ** (model.input_bits - 1) / model.input_scale)
    if model.raw_offset is not None and model.raw_multiplier is not None and model.raw_shift is not None:
        factors = np.ldexp(model.raw_multiplier.astype(np.float64), -model.raw_shift)
        steps = np.divide(scaled, factors, out=np.zeros_like(scaled), where=factors != 0)
        scaled = steps + model.raw_offset.astype(np.float64)
        if model.raw_knee is not None:
            expanded = expand(np.ldexp(scaled, -OCTAVE_BITS), np.exp2(model.raw_knee))
            scaled = np.where(model.raw_knee > 0, expanded, scaled)
    return np.clip(np.rint(scaled), *signed_range(32)).astype(np.int32)


def raw_encoding(
    scale: ArrayLike, offset: ArrayLike, *, input_scale: float, input_bits: int
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int32]]:
    """Return raw_offset, raw_multiplier and raw_shift for real inputs v = (r - offset) * scale.

    The factor scale 2^(input_bits - 1) / input_scale of each channel becomes a 16-bit multiplier over a
    power of two, with a relative error of at most 2^-16. Inputs that int32 codes cannot express are refused.

    >>> raw_encoding([1 / 255], [0], input_scale=256 / 255, input_bits=9)  # a pixel is its own code
    (array([0], dtype=int32), array([32768], dtype=int32), array([15], dtype=int32))
    """
    factors = np.asarray(scale, np.float64) * 2.0 ** (input_bits - 1) / input_scale
    offsets = np.asarray(offset)
    if factors.ndim != 1 or not len(factors) or offsets.shape not in ((), (1,), factors.shape):
        raise InputError(
            f"Raw scales and offsets come one per channel, got shapes {factors.shape} and {offsets.shape}."
        )
    whole = np.broadcast_to(np.floor(offsets + 0.5), factors.shape)
    largest, furthest = np.abs(factors).max(), np.abs(whole).max()
    if not (2.0**-31 <= largest < 1 << 16 and furthest < 1 << 31):  # also refuses nan and inf
        raise InputError(
            f"Raw int32 codes must reach the network's inputs; one moves an input by {largest:.3g} codes, "
            f"and offsets go up to {furthest:.3g}. Choose another raw unit."
        )
    _, exponents = np.frexp(factors)  # 2^(exponent - 1) <= |factor| < 2^exponent
    shifts = np.where(factors == 0, 0, np.clip(16 - exponents, 0, 46))
    multipliers = np.rint(np.ldexp(factors, shifts))
    rounded_up = (np.abs(multipliers) == 1 << 16) & (shifts > 0)
    multipliers, shifts = np.where(rounded_up, multipliers / 2, multipliers), shifts - rounded_up
    multipliers = np.clip(multipliers, -0xFFFF, 0xFFFF)
    return whole.astype(np.int32), multipliers.astype(np.int32), shifts.astype(np.int32)


MULTIPLIER_BITS, MAX_FRAC_BITS = 31, 30
VALUE_BITS = 53  # bits of a value: JavaScript represents integers of this size exactly
MAX_CHARACTERS = 3000  # longest text of all targets in the metadata


@dataclass(frozen=True, eq=False)
class ValueFormat:
    """The conversion of a regressor's logits to fixed-point values; arrays have one entry per target.

        value = saturate(round(logit * multiplier / 2^shift) + offset)    to 53 bits, ties towards +infinity

    The real prediction is value / 2^frac_bits. All targets share frac_bits, which is as large as possible, up
    to 30, such that the part of a value that comes from the logit fits int32 and no value saturates. A large
    offset therefore costs no resolution.
    """

    frac_bits: int
    multiplier: NDArray[np.int32]
    shift: NDArray[np.int8]  # 1..62
    offset: NDArray[np.int64]  # 53 bits

    def values(self, logits: ArrayLike) -> NDArray[np.int64]:
        """Convert logits `(..., targets)` to values; the exported C gives the same bits."""
        products = np.asarray(logits, np.int64) * self.multiplier.astype(np.int64)
        values = round_shift(products, self.shift.astype(np.int64)) + self.offset
        return np.asarray(np.clip(values, *signed_range(VALUE_BITS)))


def target_metadata(scale: ArrayLike, offset: ArrayLike) -> Metadata:
    """Return the metadata for targets y = logit * scale + offset; empty if there are too many targets."""
    pairs = np.stack([np.asarray(scale, np.float64), np.asarray(offset, np.float64)], axis=1)
    for digits in (15, 9):
        text = json.dumps([[float(f"{number:.{digits}g}") for number in pair] for pair in pairs])
        if len(text) <= MAX_CHARACTERS:
            return {"targets": text}
    return {}


def target_units(model: IntegerBase) -> NDArray[np.float64] | None:
    """Return the scale and offset of every target `(targets, 2)`; None if the metadata lacks them."""
    try:
        pairs = np.array(json.loads(str(model.metadata.get("targets", "[]"))), np.float64)
    except (ValueError, TypeError, RecursionError):
        return None
    usable = pairs.shape == (model.output_size, 2) and np.isfinite(pairs).all()
    return pairs if usable else None


def value_format(model: IntegerBase) -> ValueFormat | None:
    """Return the format of a regressor's values; None for other models."""
    pairs = target_units(model)
    if pairs is None:
        return None
    scales, offsets = pairs.T
    moves = np.abs(scales) * model.logit_bound
    _, (move, largest) = np.frexp([moves.max(), (moves + np.abs(offsets)).max()])  # below 2^exponent
    frac_bits = int(np.clip(min(MULTIPLIER_BITS - move, VALUE_BITS - 1 - largest), 0, MAX_FRAC_BITS))
    multipliers, shifts = scaled_integers(np.ldexp(scales, frac_bits), MULTIPLIER_BITS)
    whole = np.clip(np.floor(np.ldexp(offsets, frac_bits) + 0.5), *signed_range(VALUE_BITS))
    return ValueFormat(
        frac_bits, multipliers.astype(np.int32), shifts.astype(np.int8), whole.astype(np.int64)
    )
