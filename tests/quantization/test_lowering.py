"""Lowering: the integer network equals the float network up to rounding."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.overflow import recurrence_bound
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.straight_through import quantization_codes
from hadamrnn.quantization.calibration import Calibration, RawInputs, calibrate
from hadamrnn.quantization.chain import IntegerNetwork
from hadamrnn.quantization.layers import bias_codes
from hadamrnn.quantization.lowering import lower
from tests.quantization.models import LEVELS, random_inputs, random_model

KINDS: list[dict[str, Any]] = [
    {},
    {"input_kind": "one_hot"},
    {"input_kind": "embedded", "vocabulary_size": 7, "padding_id": 0},
]


@given(
    seed=st.integers(0, 2**31),
    kind=st.sampled_from(KINDS),
    recurrence=st.sampled_from(["linear", "relu"]),
    every_output=st.booleans(),
    shape=st.sampled_from([(16, 1), (16, 4), (24, 2), (12, 1), (8, 8), (32, 1)]),
    weight_bits=st.sampled_from([2, 3, 4, 8, "ternary"]),
    activation_bits=st.integers(6, 16),
)
@settings(max_examples=150, deadline=None)
def test_integers_stay_within_the_rounding_of_every_step(
    seed: int,
    kind: dict[str, Any],
    recurrence: str,
    every_output: bool,
    shape: tuple[int, int],
    weight_bits: Any,
    activation_bits: int,
) -> None:
    """W is orthogonal and sigma 1-Lipschitz, so the errors of the steps at most add up in norm."""
    hidden, blocks = shape
    model = random_model(
        seed,
        hidden_size=hidden,
        num_blocks=blocks,
        recurrence=recurrence,
        every_output=every_output,
        weight_bits=weight_bits,
        **kind,
    )
    time = 12
    x = random_inputs(model, 5, time)
    raw = RawInputs(levels=LEVELS) if not model.network.takes_ids else None
    calibration = calibrate(model, [(x, None)])
    integer = lower(model, calibration, activation_bits=activation_bits, raw=raw)
    if integer.embedding_int is not None:  # use the rounded table, so that its rounding adds no error
        assert model.embedding is not None
        step = integer.input_scale / 2 ** (integer.input_bits - 1)
        model.embedding.weight.data = torch.from_numpy(integer.embedding_int * step)
    network = IntegerNetwork(integer)

    logits = network(x)

    with torch.no_grad():
        difference = (logits - model(x)).abs().max()
    assert difference <= logit_error_bound(model, integer, time)


def logit_error_bound(model: SequenceModel, integer: Any, time: int) -> float:
    """Return the largest possible error of a logit, from the roundings of `time` steps."""
    top = 1 << integer.activation_bits - 1
    acc_to_state = 1 / math.sqrt(integer.network.block_size) / 2 ** integer.layers[0].state_shift
    rounding = 0.5 + top * 2.0**-16  # a state, and of the 16-bit multiplier
    clipping = 1.0  # a state at the very top of its range
    bias = 0.5 * 2 ** integer.layers[0].input_bias_shift * acc_to_state
    product = 0.5 * acc_to_state if integer.layers[0].input_shift < 0 else 0.0
    per_step = math.sqrt(integer.hidden_size) * (rounding + clipping + bias + product)
    read = float(np.linalg.norm(integer.output_weight_int.astype(float), axis=1).max())
    codes = time * per_step * read + 0.5 * 2**integer.output_bias_shift
    return float(codes * integer.logit_scale * (1 + 1e-9))


@given(seed=st.integers(0, 2**31), power=st.integers(-6, 6), recurrence=st.sampled_from(["linear", "relu"]))
@settings(max_examples=50, deadline=None)
def test_outputs_do_not_depend_on_the_scale_of_states(seed: int, power: int, recurrence: str) -> None:
    """(W, lambda b_i, lambda U, V / lambda, b_o) is the same network, and lowers to the same integers."""
    model = random_model(seed, recurrence=recurrence)
    x = random_inputs(model, 4, 10)
    twin = random_model(seed, recurrence=recurrence)
    scale = 2.0**power
    cell = twin.recurrent.cells[0]  # type: ignore[index]
    assert isinstance(cell, HadamCell)
    assert cell.input_bias is not None
    cell.input_weight.data *= scale
    cell.input_bias.data *= scale
    twin.readout.weight.data /= scale

    torch.testing.assert_close(twin(x), model(x), rtol=1e-12, atol=1e-12)
    lowered = [lower(net, calibrate(net, [(x, None)])) for net in (model, twin)]
    assert lowered[0] == lowered[1]


def test_no_state_of_the_calibration_data_saturates() -> None:
    """n_h is rounded up, never to nearest."""
    model = random_model(3, hidden_size=64)
    x = random_inputs(model, 64, 30)
    largest = calibrate(model, [(x, None)]).max_state
    integer = lower(
        model, Calibration(largest, 1.0, 30, 64), activation_bits=16, raw=RawInputs(levels=LEVELS)
    )

    network = IntegerNetwork(integer)
    network(x)

    assert network.saturations == 0


def test_a_wide_accumulator_gives_up_fractional_bits_before_it_is_refused() -> None:
    """weight_bits 8, activation_bits = input_bits = 16, one block of 512: at full precision it needs 2^32."""
    model = random_model(0, hidden_size=512, weight_bits=8)
    calibration = Calibration(max_state=200.0, max_input=1.0, seq_length=10, samples=1)

    integer = lower(model, calibration, activation_bits=16, input_bits=16)

    assert integer.layers[0].input_shift < 0
    assert sum(recurrence_bound(integer.layers[0])) < 2**31


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bidirectional": True}, "got bidirectional=True"),
        ({"num_layers": 2}, "The number of calibrated layers must be 2, got 1"),
        ({"weight_bits": None}, "2..8"),
        ({"weight_bits": 12}, "got 12"),
    ],
)
def test_what_has_no_integer_form_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        lower(random_model(0, **options), Calibration(1.0, 1.0, 1, 1))


def test_a_module_of_the_users_own_is_refused_in_one_line() -> None:
    own = nn.Sequential(nn.Linear(3, 4), nn.ReLU())
    rule = "Only a SequenceModel becomes integers, got Sequential"
    with pytest.raises(InputError, match=rule):
        calibrate(own, [(torch.zeros(1, 2, 3), None)])  # type: ignore[arg-type]
    with pytest.raises(InputError, match=rule):
        lower(own, Calibration(1.0, 1.0, 1, 1))  # type: ignore[arg-type]


def test_other_networks_and_bits_are_refused() -> None:
    with pytest.raises(InputError, match=r"6\.\.16, got 5"):
        lower(random_model(0), Calibration(1.0, 1.0, 1, 1), activation_bits=5)
    with pytest.raises(InputError, match="at least one sequence"):
        calibrate(random_model(0), [])
    with pytest.raises(InputError, match="percentile"):
        calibrate(random_model(0), [], percentile=0)
    with pytest.raises(InputError, match="RawInputs"):
        lower(random_model(0), Calibration(1.0, 1.0, 1, 1), raw=RawInputs([1.0], [0.0]))


@given(max_state=st.floats(1e-3, 1e4), seed=st.integers(0, 2**31), kind=st.sampled_from(KINDS[::2]))
@settings(max_examples=100, deadline=None)
def test_the_largest_state_uses_most_of_its_range(max_state: float, seed: int, kind: dict[str, Any]) -> None:
    """A measured input scale is adjusted; otherwise up to half of the range would never be used."""
    model = random_model(seed, hidden_size=16, **kind)
    calibration = Calibration(max_state=max_state, max_input=2.0, seq_length=5, samples=1)

    integer = lower(model, calibration)

    step = integer.logit_scale / float(quantization_codes(model.readout.weight.detach(), 4)[1])
    used = max_state / (step * 2**11)
    assert 2.0 <= integer.input_scale <= 1.75001 * 2.0
    assert used <= 1
    assert integer.layers[0].hidden_shift == 0 or used > 0.87


def test_column_signs_have_no_integer_form() -> None:
    model = random_model(0, switches="rows+columns")

    with pytest.raises(InputError, match=r'signs of rows only, got switches="rows\+columns"\. Train with'):
        lower(model, Calibration(4.0, 1.0, 10, 1))


def test_a_bias_takes_any_shift_that_c_has_and_none_beyond() -> None:
    """Six bits cover -32 to 31, and a shift is at most 31."""
    largest = np.array([31.0, -32.0]) * 2.0**31

    codes, shift = bias_codes(largest, unit=1.0, bits=6)

    assert codes.tolist() == [31, -32] and shift == 31
    with pytest.raises(InputError, match=r"31 .* 6 bits"):
        bias_codes(largest * 1.02, unit=1.0, bits=6)
