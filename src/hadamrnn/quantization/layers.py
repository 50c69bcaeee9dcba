"""Lower one layer of a float network to an `IntegerLayer`, given its ranges.

    x = alpha_i x_int / 2^(p_i-1)      U = alpha_U U_int / 2^(p-1)
    h / (alpha_i alpha_U) = alpha_h h_int / 2^(p_a-1)
    alpha_W alpha_h = 2^n_h,  n_h the smallest natural number with 2^n_h >= alpha_W max|h| / (alpha_i alpha_U)

With these scales the codes of U and x enter the accumulator unchanged. The layer output is

    y = a (h - m) + c [+ x]            y = alpha_y y_int / 2^(p_o-1)

with a, m and c of the normalisation. alpha_y covers the largest y. If x is added, alpha_y is a power of two
times alpha_i, so that x is only shifted. Start reading at `lower_layer`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import (
    IntegerLayer,
    activation_bits,
    finest_layer,
    layer_fields,
    weight_frac_bits,
)
from hadamrnn.fixedpoint.overflow import LIMIT
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.normalization import EPSILON, UnitNorm
from hadamrnn.nn.straight_through import quantization_codes
from hadamrnn.quantization.calibration import Coding

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

MAX_SHIFT = 31
MAX_GAIN_SHIFT = 30
MAX_CODE_BITS = 16
# Limit on raising alpha_i for a finer state; near 2 the input would lose as much as the state gains.
MAX_RAISE = 1.75


@dataclass(frozen=True)
class FloatLayer:
    """A layer of the float network with the largest magnitudes of its states and outputs."""

    cell: HadamCell
    norm: UnitNorm | None  # normalisation before the next layer
    max_state: float
    max_output: float  # max |y| of the layer output; 0 for the last layer

    def input_codes(self) -> tuple[Integers, float]:
        """Return U as codes, and alpha_U."""
        assert self.cell.network.weight_bits is not None
        codes, step = quantization_codes(self.cell.input_weight.detach(), self.cell.network.weight_bits)
        return integers(codes), float(step) * 2 ** weight_frac_bits(self.cell.network.weight_bits)

    def needed_range(self, input_scale: float) -> float:
        """Return alpha_W max|h| / (alpha_i alpha_U), the lower bound of 2^n_h."""
        recurrent_scale = 2 / math.sqrt(self.cell.block_size)
        return recurrent_scale * self.max_state / (input_scale * self.input_codes()[1])

    def raised(self, coding: Coding) -> Coding:
        """Raise alpha_i until max|h| fills the range of the next smaller n_h, and return that coding.

        The range of h is a power of two times alpha_i, so up to half of it might otherwise be unused. Every
        step rounds the state, so its resolution matters more than the input's.
        """
        needed = self.needed_range(coding.scale)
        shift = hidden_shift(needed)
        # Slightly more, so rounding cannot leave max|h| outside the range.
        factor = (1 + 1e-9) * math.ldexp(needed, 1 - shift)
        if not coding.is_free or shift == 0 or factor > MAX_RAISE:
            return coding
        return replace(coding, scale=coding.scale * factor)


@dataclass(frozen=True)
class LoweredLayer:
    """An integer layer with the scales of its codes."""

    layer: IntegerLayer
    state_lsb: float  # resolution of h
    output: Coding | None  # coding of the layer output; None for the last layer


def lower_layer(
    network: Network, index: int, floats: FloatLayer, coding: Coding, above: FloatLayer | None
) -> LoweredLayer:
    """Lower layer `index` to integers.

    Args:
        network: the integer model's network, with activation_bits.
        coding: coding of the layer's input.
        above: the next layer; None for the last layer.
    """
    cell, bits = floats.cell, activation_bits(network)
    codes, input_range = floats.input_codes()
    unit = coding.scale * input_range
    shift = hidden_shift(floats.needed_range(coding.scale))
    state_lsb = unit * (2**shift * math.sqrt(cell.block_size) / 2) * 2.0 ** (1 - bits)
    fields: dict[str, Any] = {
        **layer_fields(network, index),
        "input_bits": coding.bits,
        "signs": integers(cell.signs()),
        "input_weight_int": codes,
        "hidden_shift": shift,
    }
    output = None
    if above is not None:
        skipped = coding if network.has_skip(index) else None
        output, output_fields = _layer_output(network, floats, skipped, state_lsb, above)
        fields |= output_fields

    def make(frac_bits: int) -> IntegerLayer:
        if cell.input_bias is not None:
            biases = bias_codes(floats_of(cell.input_bias), unit * 2.0**-frac_bits, bits)
            fields["input_bias_int"], fields["input_bias_shift"] = biases
        return IntegerLayer(**fields, accumulator_frac_bits=frac_bits)

    least = bits - shift  # the fewest fractional bits that represent a state exactly
    most = max(least, weight_frac_bits(network.weight_bits) + coding.bits - 1)
    return LoweredLayer(finest_layer(make, most, least), state_lsb, output)


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
    """Return codes of `bits` bits and the smallest shift s >= 0 such that bias ~ codes 2^s unit.

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


def _layer_output(
    network: Network, floats: FloatLayer, skipped: Coding | None, state_lsb: float, above: FloatLayer
) -> tuple[Coding, dict[str, Any]]:
    """Return the coding of the layer output, and the fields that compute it.

    The next layer reads sums of `stride` codes, which represent means of values, so the lsb of a sum is 1 /
    stride times the lsb of y.
    """
    assert network.activation_bits is not None
    more_bits = (network.stride - 1).bit_length()
    if not network.scales_layers:
        if network.activation_bits + more_bits > MAX_CODE_BITS:
            raise InputError(
                f"{network.stride} states of {network.activation_bits} bits must add up to {MAX_CODE_BITS}. "
                f"Use activation_bits {MAX_CODE_BITS - more_bits}, or train with normalize."
            )
        bits = network.activation_bits
        return _summed(network.stride, bits, state_lsb), {"output_bits": bits}
    bits = min(network.activation_bits, MAX_CODE_BITS - more_bits)
    range_needed = floats.max_output or 1.0
    fields: dict[str, Any] = {"output_bits": bits}
    if skipped is None:
        output = _summed(network.stride, bits, range_needed * 2.0 ** (1 - bits), is_free=True)
        output = above.raised(output)
    else:
        shift = math.ceil(math.log2(range_needed / skipped.lsb)) - (bits - 1)
        fields["skip_shift"] = -shift
        output = _summed(network.stride, bits, skipped.lsb * 2.0**shift)
    output_lsb = output.lsb * network.stride
    return output, fields | _gains(floats, state_lsb, output_lsb, network.activation_bits)


def _summed(stride: int, bits: int, lsb: float, *, is_free: bool = False) -> Coding:
    """Return the coding of sums of `stride` codes of `bits` bits with resolution `lsb`."""
    bits += (stride - 1).bit_length()
    return Coding(bits, lsb / stride * 2.0 ** (bits - 1), is_free)


def _gains(floats: FloatLayer, state_lsb: float, output_lsb: float, bits: int) -> dict[str, Any]:
    """Return a and c as codes: y_int = (gain h_int + (offset << offset_shift)) / 2^gain_shift.

        gain / 2^gain_shift ~ a state_lsb / output_lsb

    An error in a gain matters in proportion to the unit's spread, so a constant unit may have any gain. The
    offset compensates for the error at the mean m.
    """
    scale, mean, spread, shift_up = _affine(floats)
    wanted = scale * (state_lsb / output_lsb)
    low, high = signed_range(bits)
    best: tuple[float, dict[str, Any]] | None = None
    for gain_shift in range(MAX_GAIN_SHIFT + 1):
        gain = np.clip(np.floor(wanted * 2.0**gain_shift + 0.5), low, high)
        error = float(np.square((gain * 2.0**-gain_shift - wanted) * spread).sum())
        if best is not None and error >= best[0]:
            continue
        offset = shift_up / output_lsb * 2.0**gain_shift - gain * (mean / state_lsb)
        codes, offset_shift = bias_codes(offset, 1.0, bits)
        largest = np.abs(gain) * -low + np.abs(codes) * 2.0**offset_shift
        if largest.max() + 2.0**gain_shift < LIMIT:
            fields = {"gain_shift": gain_shift, "offset_int": codes, "offset_shift": offset_shift}
            best = error, {"gain_int": gain.astype(np.int64), **fields}
    if best is None:
        raise InputError(
            f"No gains of {bits} bits bring states up to {floats.max_state:.3g} to outputs up to "
            f"{floats.max_output:.3g}. Train with other activation_bits."
        )
    return best[1]


def _affine(floats: FloatLayer) -> tuple[Floats, Floats, Floats, Floats]:
    """Return a, m, s and c of y = a (h - m) + c, where s is the states' spread; without a norm, y = h."""
    ones, norm = np.ones(floats.cell.hidden_size), floats.norm
    if norm is None:
        return ones, 0 * ones, ones, 0 * ones
    var = floats_of(norm.running_var)
    scale = floats_of(norm.weight) / np.sqrt(var + EPSILON)
    return scale, floats_of(norm.running_mean), np.sqrt(var), floats_of(norm.bias)


def floats_of(values: Tensor) -> Floats:
    return values.detach().double().numpy()


def integers(codes: Tensor) -> Integers:
    return codes.detach().to(torch.int64).numpy()
