"""Prove statically that no input can make an int32 accumulator overflow.

Every sum in an integer network is a sum of products, so the sum of the terms' magnitudes bounds every partial
sum in any order. Row i of one step satisfies

    block_size 2^(p_a-1) 2^s1 + 2^(k-1)  +  sum_j |U_ij| max|x_j| 2^s2  +  |b_i| 2^s3  <  2^31

where 2^(k-1) rounds the leak of its block; a leak never increases a state. The bounds between layers and
before V are in `prove_output` and `prove_readout`. Sums over steps are bounded by `longest`, and states by
saturation. If a model breaks a bound, the error names the dominant term and the setting that lowers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.network import COUNTED

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.layer import IntegerLayer
    from hadamrnn.fixedpoint.model import IntegerModel

LIMIT = 1 << 31


class AccumulatorOverflow(InputError):
    """Raised if one step could overflow int32; fewer `accumulator_frac_bits` may help."""


def input_product_bounds(layer: IntegerLayer) -> NDArray[np.int64]:
    """Return max |U x| over every input x, for each row, shape `(hidden_size,)`."""
    magnitude: NDArray[np.int64] = np.abs(layer.input_weight_int.astype(np.int64))
    bounds = magnitude.max(axis=1) if layer.input_kind == "one_hot" else magnitude.sum(axis=1)
    largest_code = 1 if layer.input_kind == "one_hot" else 1 << layer.input_bits - 1
    return np.asarray(bounds * largest_code)


def recurrence_bound(layer: IntegerLayer) -> tuple[int, int, int]:
    """Return the three terms (state, input, bias) of the row with the largest sum in one step."""
    state = layer.block_size << layer.activation_bits - 1 + layer.state_shift
    halves = 1 << layer.unit_leaks >> 1
    rows = [
        (state + int(half), _shifted(int(u), layer.input_shift), int(b))
        for half, u, b in zip(halves, input_product_bounds(layer), np.abs(layer.input_bias), strict=True)
    ]
    return max(rows, key=sum)


def output_bound(layer: IntegerLayer) -> tuple[int, int]:
    """Return the two terms of the gain with the largest sum: h * gain, and offset plus rounding."""
    assert layer.gain_int is not None and layer.offset_int is not None
    gains = np.abs(layer.gain_int.astype(np.int64)) << layer.activation_bits - 1
    offsets = np.abs(layer.offset_int.astype(np.int64)) << layer.offset_shift
    half = 1 << layer.gain_shift >> 1
    return max(((int(g), int(o) + half) for g, o in zip(gains, offsets, strict=True)), key=sum)


def readout_bound(model: IntegerModel) -> tuple[int, int]:
    """Return the two terms of the logit with the largest sum: V codes, and bias."""
    products = np.abs(model.output_weight_int.astype(np.int64)) @ feature_bounds(model)
    terms = zip(products.tolist(), np.abs(model.output_bias).tolist(), strict=True)
    return max(terms, key=sum)


def feature_bounds(model: IntegerModel) -> NDArray[np.int64]:
    """Return the largest magnitude of each code that V reads, `(features,)`.

    A mean is at most top - theta, because its rate times its steps is at most 2^15 M.
    """
    top = (1 << model.activation_bits - 1) - 1
    if model.feature_shift is None or model.feature_multiplier is None or model.feature_bits is None:
        return np.full(model.network.num_features, top, np.int64)
    thresholds = model.threshold_rows.astype(np.int64).reshape(-1)
    values = {
        "last": np.full(model.hidden_size, top),
        "mean": np.maximum(top - thresholds, 0),
        "positive": np.ones(thresholds.size, np.int64),
        "max": np.full(model.hidden_size, top + 1),
    }
    pairs = zip(model.network.readouts, model.feature_multiplier, strict=True)
    products = np.concatenate([values[kind] * (multiplier << 15) for kind, multiplier in pairs])
    shifts = model.feature_shift.astype(np.int64)
    codes = products + (np.int64(1) << shifts - 1) >> shifts
    return np.asarray(np.minimum(codes, 1 << model.feature_bits - 1))


def prove_input(layer: IntegerLayer) -> None:
    """Refuse a layer whose product U x, including the rounding term, could overflow int32."""
    half = 1 << -layer.input_shift - 1 if layer.input_shift < 0 else 0
    terms = {"U x": int(input_product_bounds(layer).max()), "rounding": half}
    prove("The input product", terms, "Lower input_bits or weight_bits.")


def prove_recurrence(layer: IntegerLayer) -> None:
    """Refuse a layer whose accumulator could overflow int32 in one step."""
    state, product, bias = recurrence_bound(layer)
    knob = _knob(layer, state, product, bias)
    prove("The accumulator", {"state": state, "input": product, "bias": bias}, knob, AccumulatorOverflow)


def prove_output(layer: IntegerLayer) -> None:
    """Refuse a layer whose gain or skip could overflow int32."""
    if layer.gain_int is not None:
        product, offset = output_bound(layer)
        knob = "activation_bits" if product >= offset else "offset_shift or gain_shift"
        prove("A gain", {"state": product, "offset": offset}, f"Lower {knob}.")
    if layer.skip_shift is not None and layer.output_bits is not None:
        code, shift = 1 << layer.input_bits - 1, layer.skip_shift
        half = 1 << -shift - 1 if shift < 0 else 0
        bound = max(code + half, _shifted(code, shift) + (1 << layer.output_bits - 1))
        prove("A skip", {"code": bound}, "Bring skip_shift nearer to 0.")


def bits_of_sums(steps: int) -> int:
    """Return the most activation_bits with which a sum over this many steps fits int32.

    >>> bits_of_sums(32_767), bits_of_sums(32_768)
    (16, 15)
    """
    return ((LIMIT - 1) // max(steps, 1)).bit_length() - 1


def prove_readout(model: IntegerModel) -> None:
    """Refuse a model whose logits, or sums over the longest sequence, could overflow int32."""
    if any(kind in COUNTED for kind in model.network.readouts):
        bound = model.longest << model.activation_bits
        most = (LIMIT - 1) >> model.activation_bits
        knob = f"Lower longest to {most}, or activation_bits."
        prove(f"A sum over {model.longest} steps", {"states": bound}, knob)
    product, bias = readout_bound(model)
    knob = "activation_bits or weight_bits" if product >= bias else "output_bias_shift"
    prove("A logit", {"read-out": product, "bias": bias}, f"Lower {knob}.")


def prove(what: str, terms: dict[str, int], knob: str, error: type[InputError] = InputError) -> None:
    """Refuse a sum of terms that could overflow int32."""
    bound = sum(terms.values())
    if bound >= LIMIT:
        parts = " + ".join(f"{name} {term}" for name, term in terms.items())
        raise error(f"{what} must stay below 2^31, it could reach {bound} ({parts}). {knob}")


def _shifted(bound: int, shift: int) -> int:
    """Bound |x << shift|, or the rounded right shift |(x + half) >> -shift|, given |x| <= bound."""
    return bound << shift if shift >= 0 else (bound + (1 << -shift - 1)) >> -shift


def _knob(layer: IntegerLayer, state: int, product: int, bias: int) -> str:
    if bias >= max(state, product):
        return "Lower input_bias_shift: the input bias dwarfs the input, rescale it."
    if product >= state:
        return "Lower input_bits or weight_bits."
    if layer.state_shift > 0:
        return "Lower accumulator_frac_bits, input_bits or weight_bits."
    return "Lower activation_bits or block_size (more num_blocks)."
