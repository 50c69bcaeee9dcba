"""Fixed-point formats and exact array arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.fixedpoint.integers import (
    hadamard_transform,
    pack,
    round_scale,
    round_shift,
    rounding_factor,
    saturate,
    shift_left,
    signed_range,
    unpack,
)
from hadamrnn.hadamard.orders import hadamard_matrix


@st.composite
def fixed_point(draw: st.DrawFn, bits: int) -> int:
    """A code of Q_{p,q}, its edges often."""
    low, high = signed_range(bits)
    return draw(st.sampled_from([low, low + 1, 0, high]) | st.integers(low, high))


def in_format(value: Fraction, bits: int, frac_bits: int) -> bool:
    """Whether value lies in Q_{p,q} = 2^-q {-2^(p-1), ..., 2^(p-1) - 1}."""
    code = value * 2**frac_bits
    low, high = signed_range(bits)
    return code.denominator == 1 and bool(low <= code <= high)


BITS = st.integers(1, 16)


@given(data=st.data(), q=st.integers(0, 15))
def test_a_sum_needs_one_bit_more(data: st.DataObject, q: int) -> None:
    x, y = (Fraction(data.draw(fixed_point(q + 1)), 2**q) for _ in range(2))

    assert in_format(x + y, q + 2, q)


@given(data=st.data(), p=BITS, p2=BITS, q=BITS, q2=BITS)
@settings(max_examples=500)
def test_a_product_needs_one_bit_less_than_both_but_for_the_most_negative(
    data: st.DataObject, p: int, p2: int, q: int, q2: int
) -> None:
    x, y = data.draw(fixed_point(p)), data.draw(fixed_point(p2))
    product = Fraction(x, 2**q) * Fraction(y, 2**q2)
    both_most_negative = x == -(1 << p - 1) and y == -(1 << p2 - 1)

    assert in_format(product, p + p2 - 1, q + q2) is not both_most_negative
    assert in_format(product, p + p2, q + q2)


@given(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1), st.integers(0, 30))
def test_round_shift_takes_ties_towards_plus_infinity(values: list[int], shift: int) -> None:
    expected = [(Fraction(value, 2**shift) + Fraction(1, 2)).__floor__() for value in values]

    assert round_shift(np.array(values, np.int32), shift).tolist() == expected
    assert shift_left(np.array(values, np.int32), -shift).tolist() == expected


@given(
    st.lists(st.integers(-(2**31) + 1, 2**31 - 1), min_size=1),
    st.integers(2**15, 2**16 - 1),
    st.integers(16, 46),
)
def test_round_scale_is_the_exact_quotient(values: list[int], multiplier: int, shift: int) -> None:
    expected = [(Fraction(value * multiplier, 2**shift) + Fraction(1, 2)).__floor__() for value in values]

    assert round_scale(np.array(values, np.int32), multiplier, shift).tolist() == expected


@given(st.lists(st.integers(-(2**20), 2**20)), st.integers(2, 16))
def test_saturate_clips_and_counts(values: list[int], bits: int) -> None:
    low, high = signed_range(bits)

    clipped, count = saturate(np.array(values, np.int32), bits)

    assert clipped.tolist() == [min(max(value, low), high) for value in values]
    assert count == sum(not low <= value <= high for value in values)


@pytest.mark.parametrize("block_size", [1, 2, 4, 12, 20, 24, 28, 48, 64, 128, 512])
@pytest.mark.parametrize("num_blocks", [1, 3])
def test_fast_transform_is_the_dense_product(block_size: int, num_blocks: int) -> None:
    rng = np.random.default_rng(block_size)
    states = rng.choice([-(2**15), 2**15 - 1], (block_size * num_blocks, 5)).astype(np.int32)
    before = states.copy()

    blocks = states.reshape(num_blocks, block_size, 5).astype(np.int64)
    dense = (hadamard_matrix(block_size).astype(np.int64) @ blocks).reshape(states.shape)
    fast = hadamard_transform(states, block_size)
    assert fast.dtype == np.int32 and np.array_equal(fast, dense)
    assert np.array_equal(states, before)


@pytest.mark.parametrize("order", [2, 8, 12, 20, 28, 36, 40, 100, 128, 512, 2048])
def test_rounding_factor_is_one_over_the_root_to_sixteen_bits(order: int) -> None:
    multiplier, shift = rounding_factor(order)

    assert abs(multiplier / 2**shift * math.sqrt(order) - 1) <= 2**-16
    assert multiplier == 1 or 2**15 <= multiplier < 2**16


@given(st.integers(2, 32), st.data())
def test_unpack_is_the_inverse_of_pack(bits: int, data: st.DataObject) -> None:
    codes = data.draw(st.lists(st.integers(-(1 << bits - 1), (1 << bits - 1) - 1)))

    packed = pack(np.array(codes, np.int64), bits)

    assert packed.size == -(-len(codes) * bits // 8)
    assert unpack(packed, len(codes), bits).tolist() == codes
