"""The checks of `IntegerModel`, and the proof that its accumulators stay in int32."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import FrozenInstanceError, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.drawn import draw_integers
from hadamrnn.fixedpoint.encoding import ValueFormat
from hadamrnn.fixedpoint.overflow import readout_bound, recurrence_bound
from hadamrnn.network import Network
from tests.integer_models import integer_model, with_layer

Strategy = Callable[..., st.SearchStrategy[Any]]


def model(**changes: Any) -> IntegerModel:
    hidden, inputs = changes.get("hidden_size", 8), changes.get("input_size", 2)
    defaults: dict[str, Any] = {
        "hidden_size": 8,
        "block_size": hidden,
        "input_size": inputs,
        "output_size": 1,
        "weight_bits": 4,
        "activation_bits": 12,
        "input_bits": 9,
        "recurrence": "linear",
        "every_output": False,
        "input_kind": "dense",
        "signs": np.ones(hidden, np.int8),
        "input_weight_int": np.ones((hidden, inputs), np.int8),
        "input_bias_int": np.ones(hidden, np.int16),
        "output_weight_int": np.ones((1, hidden), np.int8),
        "output_bias_int": np.zeros(1, np.int16),
        "hidden_shift": 1,
        "accumulator_frac_bits": 11,
        "input_bias_shift": 0,
        "output_bias_shift": 0,
        "input_scale": 1.0,
        "logit_scale": 1.0,
    }
    return integer_model(**{**defaults, **changes})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden_size": 10, "block_size": 8}, "must divide"),
        ({"block_size": 6, "hidden_size": 6}, "Nearest valid orders: 4 and 8"),
        ({"weight_bits": 9}, "weight_bits must lie in 2..8 or be ternary, got 9"),
        ({"activation_bits": 17}, "2..16"),
        ({"recurrence": "tanh"}, "must be one of .* got 'tanh'"),
        ({"signs": np.zeros(8, np.int8)}, "got a 0"),
        ({"signs": np.ones(8)}, "must hold integers"),
        ({"input_weight_int": np.full((8, 2), 8)}, r"input_weight_int must lie in -8..7, got 8..8"),
        ({"weight_bits": "ternary", "input_weight_int": np.full((8, 2), 2)}, r"-1..1"),
        ({"input_bias_int": np.full(8, 2048)}, "-2048..2047"),
        ({"output_bias_int": np.zeros(2, np.int16)}, r"shape \(1,\)"),
        ({"accumulator_frac_bits": 10}, "state_shift must lie in 0..31, got -1"),
        ({"logit_scale": float("nan")}, "finite positive"),
        ({"input_kind": "one_hot"}, "input_bits of one-hot inputs, which are exact, must be 2"),
        ({"input_kind": "embedded"}, "vocabulary_size belongs"),
        ({"raw_offset": np.zeros(2, np.int32)}, "all of raw_offset"),
        ({"metadata": {"a": [1]}}, "metadata maps"),
        ({"metadata": {"a": 10**5000}}, "metadata maps"),
        ({"metadata": {"a": float("inf")}}, "metadata maps"),
        ({"hidden_shift": True}, "hidden_shift must be int, got True"),
    ],
)
def test_broken_rules_are_named(change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        model(**change)


def test_arrays_are_read_only_copies() -> None:
    signs = np.ones(8, np.int8)
    frozen = model(signs=signs)
    signs[0] = -1

    (layer,) = frozen.layers
    assert layer.signs[0] == 1
    with pytest.raises(ValueError, match="read-only"):
        layer.signs[0] = -1
    with pytest.raises(FrozenInstanceError):
        frozen.hidden_size = 4  # type: ignore[misc]


def wide(activation_bits: int, frac_bits: int) -> IntegerModel:
    """p = 8, p_a = p_i = 16, one block of 512: at full precision it needs 2^32."""
    return model(
        hidden_size=512,
        weight_bits=8,
        activation_bits=activation_bits,
        input_bits=16,
        hidden_shift=2,
        accumulator_frac_bits=frac_bits,
    )


def test_an_accumulator_that_could_leave_int32_is_refused_with_its_knob() -> None:
    with pytest.raises(InputError, match=r"below 2\^31, it could reach .*Lower accumulator_frac_bits"):
        wide(16, 22)

    assert sum(recurrence_bound(wide(16, 19).layers[0])) < 2**31  # U x shifted right with rounding
    assert wide(16, 19).layers[0].input_shift == -3


def test_refusals_name_the_term_that_dominates() -> None:
    with pytest.raises(InputError, match="Lower input_bias_shift"):
        model(input_bias_int=np.full(8, 2047), input_bias_shift=21)
    with pytest.raises(
        InputError, match=r"state 1073741824 .* bias 1073217536\). Lower accumulator_frac_bits"
    ):
        bias = {"input_bias_int": np.full(8, 2047), "input_bias_shift": 19}
        model(activation_bits=16, hidden_shift=2, accumulator_frac_bits=26, **bias)
    with pytest.raises(InputError, match=r"input product .* Lower input_bits or weight_bits"):
        size = 1 << 9
        model(
            input_size=size,
            input_bits=16,
            weight_bits=8,
            accumulator_frac_bits=22,
            input_weight_int=np.full((8, size), -128),
        )
    with pytest.raises(InputError, match=r"logit .* 2\^31"):
        model(output_bias_int=np.full(1, 2047), output_bias_shift=21)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_every_model_that_is_built_is_within_its_bounds(
    integer_models: Strategy, data: st.DataObject
) -> None:
    built = data.draw(integer_models())

    assert sum(recurrence_bound(built.layers[0])) < 2**31
    assert sum(readout_bound(built)) < 2**31
    assert replace(built) == built
    assert with_layer(built, signs=-built.layers[0].signs) != built


def test_a_stride_of_more_steps_than_an_integer_holds_is_never_due() -> None:
    network = Network(1, 8, 2, num_layers=8, stride=1024, activation_bits=6, weight_bits=2)
    model = draw_integers(network, np.random.default_rng(0), input_bits=4)

    assert model.top_steps(np.array([0, 1 << 60])).tolist() == [0, 0]
    assert model.top_steps(1 << 60) == 0


def test_values_beyond_53_bits_saturate() -> None:
    largest, zero = np.array([2**31 - 1], np.int32), np.zeros(1, np.int64)
    format = ValueFormat(0, multiplier=largest, shift=np.ones(1, np.int8), offset=zero)

    assert format.values([[2**31 - 1], [-(2**31)], [2]]).tolist() == [[2**52 - 1], [-(2**52)], [2**31 - 1]]
