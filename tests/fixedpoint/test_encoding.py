"""Raw sensor codes and real numbers become the codes of a model, or are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import IntegerModel, encode_inputs, encode_raw, encode_values, raw_encoding
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.encoding import (
    OCTAVE_BITS,
    ValueFormat,
    compress,
    compressed_codes,
    expand,
    raw_from_inputs,
    value_scaling,
)
from hadamrnn.network import Network

Strategy = Callable[..., st.SearchStrategy[Any]]


def dense_model(channels: int) -> IntegerModel:
    """Return a model of inputs of 9 bits."""
    return draw_integers(Network(channels, 8, 1, activation_bits=12), np.random.default_rng(0))


@given(st.lists(st.integers(0, 255), min_size=1, max_size=20))
def test_pixels_are_exact_in_nine_bits(pixels: list[int]) -> None:
    offset, multiplier, shift = raw_encoding([1 / 255], [0], input_scale=256 / 255, input_bits=9)
    exact = replace(
        dense_model(1),
        input_scale=256 / 255,
        raw_offset=offset,
        raw_multiplier=multiplier,
        raw_shift=shift,
    )
    column = np.array(pixels)[:, None]

    assert encode_raw(exact, column)[0].tolist() == column.tolist()
    assert encode_inputs(exact, column / 255)[0].tolist() == column.tolist()


def _octaves(raw: int, knee: int) -> int:
    """Return the octaves that 1 + |raw| / 2^knee spans, in units of 2^-16."""
    if knee == 0:
        return raw
    above = abs(raw) + (1 << knee)
    octave = above.bit_length() - 1
    size = (octave - knee) * 2**16 + (above - (1 << octave)) * 2**16 // (1 << octave)
    return size if raw >= 0 else -size


@given(raw=st.integers(-(2**31), 2**31 - 1), knee=st.integers(1, 30))
def test_compressed_codes_are_the_compressed_values_and_expand_to_them(raw: int, knee: int) -> None:
    octaves = compress([float(raw)], 2.0**knee)

    codes = compressed_codes(np.array([raw]), np.array([knee], np.int32))
    assert abs(codes[0] - octaves[0] * 2.0**OCTAVE_BITS) <= 1
    np.testing.assert_allclose(expand(octaves, 2.0**knee), raw, rtol=1e-12, atol=1e-12 * 2.0**knee)


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_raw_codes_become_inputs_as_unbounded_integers_say(
    integer_models: Strategy, data: st.DataObject
) -> None:
    built: IntegerModel = data.draw(integer_models().filter(lambda m: m.raw_offset is not None))
    edges = st.sampled_from([-(2**31), -1, 0, 2**31 - 1]) | st.integers(-(2**31), 2**31 - 1)
    raw = [[data.draw(edges) for _ in range(built.input_size)]]
    assert built.raw_offset is not None
    assert built.raw_multiplier is not None
    assert built.raw_shift is not None

    codes, saturated = encode_raw(built, raw)

    top = 1 << built.input_bits - 1
    knees = np.zeros_like(built.raw_shift) if built.raw_knee is None else built.raw_knee
    exact = [
        (_octaves(value, int(knee)) - int(offset)) * int(multiplier) + ((1 << int(shift)) >> 1) >> int(shift)
        for value, offset, multiplier, shift, knee in zip(
            raw[0], built.raw_offset, built.raw_multiplier, built.raw_shift, knees, strict=True
        )
    ]
    assert codes[0].tolist() == [min(max(value, -top), top - 1) for value in exact]
    assert saturated == sum(not -top <= value < top for value in exact)


@given(st.floats(1e-9, 1e3), st.booleans(), st.integers(2, 16), st.floats(0.01, 100))
def test_raw_encoding_keeps_sixteen_bits_of_the_scale(
    scale: float, negative: bool, bits: int, input_scale: float
) -> None:
    scale = -scale if negative else scale
    factor = scale * 2 ** (bits - 1) / input_scale

    # Above 2^16 every raw code except 0 saturates; below 2^-31 the whole int32 range moves x by less than 1.
    if not 2.0**-31 <= abs(factor) < 2**16:
        with pytest.raises(InputError, match="Choose another raw unit"):
            raw_encoding([scale], [0], input_scale=input_scale, input_bits=bits)
        return
    _, multiplier, shift = raw_encoding([scale], [0], input_scale=input_scale, input_bits=bits)

    assert abs(int(multiplier[0]) / 2 ** int(shift[0]) / factor - 1) <= 2**-15


@given(
    scale=st.floats(2.0**-20, 2.0**-9),
    offset=st.integers(-(2**20), 2**20),
    codes=st.lists(st.integers(-256, 255), min_size=1, max_size=20),
)
def test_raw_codes_of_inputs_are_encoded_as_these_inputs(scale: float, offset: int, codes: list[int]) -> None:
    offsets, factors, shifts = raw_encoding([scale], [offset], input_scale=1.0, input_bits=9)
    model = replace(
        dense_model(1), input_scale=1.0, raw_offset=offsets, raw_multiplier=factors, raw_shift=shifts
    )
    column = np.array(codes)[:, None]

    again, _ = encode_raw(model, raw_from_inputs(model, column / 256))
    assert np.abs(again - column).max() <= 1


INT32 = st.integers(-(2**31), 2**31 - 1)


@given(logit=INT32, multiplier=INT32, shift=st.integers(1, 62), offset=st.integers(-(2**52), 2**52 - 1))
def test_values_are_rounded_as_unbounded_integers_say(
    logit: int, multiplier: int, shift: int, offset: int
) -> None:
    form = ValueFormat(0, np.array([multiplier], np.int32), np.array([shift], np.int8), np.array([offset]))
    exact = (2 * logit * multiplier + (1 << shift)) // (2 << shift) + offset  # floor(x + 1/2)

    assert form.values([[logit]]).tolist() == [[min(max(exact, -(2**52)), 2**52 - 1)]]


Encode = Callable[[IntegerModel, Any], Any]


@pytest.mark.parametrize("encode", [encode_raw, encode_values, encode_inputs, raw_from_inputs])
def test_inputs_of_another_shape_or_of_a_network_of_ids_are_refused(encode: Encode) -> None:
    words = Network(2, 8, 1, activation_bits=12, input_kind="one_hot")

    with pytest.raises(InputError, match=r"2 channels last; .* has shape \(4, 1\)"):
        encode(dense_model(2), np.zeros((4, 1), np.int64))
    with pytest.raises(InputError, match=r"one_hot"):
        encode(draw_integers(words, np.random.default_rng(0)), np.zeros((4, 2), np.int64))


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("encode", [encode_values, encode_inputs, raw_from_inputs])
def test_real_inputs_that_are_not_finite_are_refused(encode: Encode, value: float) -> None:
    with pytest.raises(InputError, match="must be finite"):
        encode(dense_model(2), [[0.5, value]])


def test_raw_codes_that_are_no_int32_are_refused() -> None:
    with pytest.raises(InputError, match=r"Raw codes must hold integers .* got float64"):
        encode_raw(dense_model(1), [[0.5]])
    with pytest.raises(InputError, match="Raw codes must lie in"):
        encode_raw(dense_model(1), [[1 << 31]])


@pytest.mark.parametrize("encode", [encode_values, encode_inputs])
def test_ties_of_real_inputs_are_rounded_towards_plus_infinity(encode: Encode) -> None:
    halves = np.array([[-2.5], [-1.5], [-0.5], [0.5], [1.5], [2.5]]) / 256  # one code of 9 bits is 1 / 256

    assert encode(dense_model(1), halves)[0][:, 0].tolist() == [-2, -1, 0, 1, 2, 3]


@pytest.mark.parametrize("encode", [encode_values, encode_inputs])
def test_the_largest_real_inputs_saturate(encode: Encode) -> None:
    codes, saturated = encode(dense_model(2), [[1e308, -1e308]])

    assert codes.tolist() == [[255, -256]] and saturated == 2


def test_a_raw_encoding_has_an_offset_for_each_channel_or_one_for_all() -> None:
    alike = [raw_encoding([0.5, 0.25], offset, input_scale=1.0, input_bits=9) for offset in (3, [3, 3])]

    assert [part.tolist() for part in alike[0]] == [part.tolist() for part in alike[1]]
    with pytest.raises(InputError, match=r"got shapes \(2,\) and \(3,\)"):
        raw_encoding([0.5, 0.25], [1, 2, 3], input_scale=1.0, input_bits=9)


def test_a_model_without_raw_codes_scales_no_value() -> None:
    assert value_scaling(dense_model(3)) == ([0.0] * 3, [1.0] * 3)
