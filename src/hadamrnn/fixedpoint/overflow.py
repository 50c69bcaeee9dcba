"""Static overflow analysis: no input whatever takes an int32 accumulator out of its range.

Every sum of an integer network is a row of products, so the sum of the magnitudes of its terms bounds
every partial sum in every order. Row i of one step holds

    block_size 2^(p_a-1) 2^s1  +  sum_j |U_ij| max|x_j| 2^s2  +  |b_i| 2^s3  <  2^31

A model that breaks a bound is refused with the term that dominates and the knob that lowers it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.model import IntegerModel

LIMIT = 1 << 31


class AccumulatorOverflow(InputError):
    """One step could leave int32; fewer `accumulator_frac_bits` may help."""


def input_product_bounds(model: IntegerModel) -> NDArray[np.int64]:
    """Return max |U x| over every input x, for each row, shape `(hidden_size,)`."""
    magnitude: NDArray[np.int64] = np.abs(model.input_weight_int.astype(np.int64))
    bounds = magnitude.max(axis=1) if model.input_kind == "one_hot" else magnitude.sum(axis=1)
    largest_code = 1 if model.input_kind == "one_hot" else 1 << model.input_bits - 1
    return np.asarray(bounds * largest_code)


def recurrence_bound(model: IntegerModel) -> tuple[int, int, int]:
    """Return the three terms of the row of one step with the largest sum: state, input, bias."""
    state = model.block_size << model.activation_bits - 1 + model.state_shift
    products = input_product_bounds(model)
    biases = np.zeros(model.hidden_size, np.int64)
    if model.input_bias_int is not None:
        biases = np.abs(model.input_bias_int.astype(np.int64)) << model.input_bias_shift
    rows = [
        (state, _shifted(int(u), model.input_shift), int(b)) for u, b in zip(products, biases, strict=True)
    ]
    return max(rows, key=sum)


def readout_bound(model: IntegerModel) -> tuple[int, int]:
    """Return the two terms of the logit with the largest sum: V max(h, 0) and the bias."""
    top = (1 << model.activation_bits - 1) - 1
    products = np.abs(model.output_weight_int.astype(np.int64)).sum(axis=1) * top
    biases = np.abs(model.output_bias_int.astype(np.int64)) << model.output_bias_shift
    return max(((int(v), int(b)) for v, b in zip(products, biases, strict=True)), key=sum)


def prove_input(model: IntegerModel) -> None:
    """Refuse a model whose product U x, with the half unit of its rounding, could leave int32."""
    half = 1 << -model.input_shift - 1 if model.input_shift < 0 else 0
    bound = int(input_product_bounds(model).max()) + half
    if bound >= LIMIT:
        raise InputError(
            f"The input product must stay below 2^31, it could reach {bound}. "
            f"Lower input_bits or weight_bits."
        )


def prove_recurrence(model: IntegerModel) -> None:
    """Refuse a model whose accumulator could leave int32 in one step."""
    state, product, bias = recurrence_bound(model)
    if state + product + bias >= LIMIT:
        raise AccumulatorOverflow(
            f"The accumulator must stay below 2^31, it could reach {state + product + bias} "
            f"(state {state} + input {product} + bias {bias}). {_knob(model, state, product, bias)}"
        )


def prove_readout(model: IntegerModel) -> None:
    """Refuse a model whose logits could leave int32."""
    product, bias = readout_bound(model)
    if product + bias >= LIMIT:
        knob = "activation_bits or weight_bits" if product >= bias else "output_bias_shift"
        raise InputError(
            f"A logit must stay below 2^31, it could reach {product + bias} "
            f"(read-out {product} + bias {bias}). Lower {knob}."
        )


def _shifted(bound: int, shift: int) -> int:
    """Bound |x << shift|, or the rounded right shift |(x + half) >> -shift|, given |x| <= bound."""
    return bound << shift if shift >= 0 else (bound + (1 << -shift - 1)) >> -shift


def _knob(model: IntegerModel, state: int, product: int, bias: int) -> str:
    if bias >= max(state, product):
        return "Lower input_bias_shift: the input bias dwarfs the input, rescale it."
    if product >= state:
        return "Lower input_bits or weight_bits."
    if model.state_shift > 0:
        return "Lower accumulator_frac_bits, input_bits or weight_bits."
    return "Lower activation_bits or block_size (more num_blocks)."
