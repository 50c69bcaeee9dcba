"""Networks with leaks, pools and several layers: the integer network equals the float one up to rounding."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.interface import Tokens
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import Calibration, Coding, RawInputs, calibrate
from hadamrnn.quantization.chain import IntegerNetwork
from hadamrnn.quantization.layers import FloatLayer, LoweredLayer
from hadamrnn.quantization.lowering import float_layers, lower, lower_layers
from tests.family_models import family_network
from tests.quantization.models import LEVELS, TIME, drawn_model, with_statistics


def lowered(model: SequenceModel, x: Tensor, bits: int) -> tuple[Calibration, IntegerModel]:
    raw = None if model.network.takes_ids else RawInputs(levels=LEVELS)
    calibration = calibrate(model, [(x, None)])
    integer = lower(model, calibration, activation_bits=bits, raw=raw)
    if integer.embedding_int is not None:  # use the rounded table, so that its rounding adds no error
        assert model.embedding is not None
        step = integer.input_scale / 2 ** (integer.input_bits - 1)
        model.embedding.weight.data = torch.from_numpy(integer.embedding_int * step)
    return calibration, integer


class ErrorBound:
    """A bound on the error of each logit, from every rounding in its computation.

    Vectors are bounded in their 2-norm: W is orthogonal and leaks only shrink, sigma and sums of means are
    1-Lipschitz, so the errors of the steps of a layer at most add up.
    """

    def __init__(self, model: SequenceModel, calibration: Calibration, integer: IntegerModel) -> None:
        self.model, self.integer = model, integer
        self.stack = float_layers(model.hadamard_layers, calibration)
        coding = Coding(integer.input_bits, integer.input_scale)
        self.layers = lower_layers(integer.network, self.stack, coding)

    def of_logits(self, x: Tensor) -> float:
        integer, network = self.integer, self.integer.network
        rows = self.model.hadamard_layers.layer_states(
            Tokens(x, self.model.embedding) if network.takes_ids else x
        )
        read, steps = 0.0, TIME
        for floats, layer, (states, _) in zip(self.stack, self.layers, rows, strict=True):
            state = steps * (self.of_step(floats, layer) + norm(floats.cell.quantized_weight()) * read)
            if layer.output is not None:
                read = self.of_output(floats, layer, state, read, states)
                steps //= network.stride
        weight = np.abs(integer.output_weight_int.astype(float)) * integer.logit_scale
        bias = 0.5 * 2.0**integer.output_bias_shift * integer.logit_scale
        return float((weight @ self.of_features(state, rows[-1][0])).max() + bias) * (1 + 1e-9)

    def of_step(self, floats: FloatLayer, lowered_layer: LoweredLayer) -> float:
        """Bound one step of a layer: state, clipping at the very top, multiplier, leak, bias, product."""
        layer = lowered_layer.layer
        unit = 1 / np.sqrt(layer.block_size) / 2**layer.state_shift  # lsb of the accumulator, in codes
        multiplier = 2.0 ** (layer.activation_bits - 17)
        bias = 0.5 * 2**layer.input_bias_shift * unit
        codes = 0.5 + 1.0 + multiplier + (0.5 * unit if layer.leak else 0) + bias + 0.5 * unit
        return float(np.sqrt(layer.hidden_size) * codes * lowered_layer.state_lsb)

    def of_output(
        self, floats: FloatLayer, lowered_layer: LoweredLayer, state: float, read: float, states: Tensor
    ) -> float:
        """Bound the layer output."""
        layer, output = lowered_layer.layer, lowered_layer.output
        assert output is not None
        if layer.gain_int is None:
            return state
        step = output.lsb * self.integer.network.stride
        wanted = np.ones(layer.hidden_size) if floats.norm is None else floats.norm.folded()[0].numpy()
        mean = np.zeros(layer.hidden_size) if floats.norm is None else floats.norm.running_mean.numpy()
        gain = layer.gain_int * 2.0**-layer.gain_shift * step / lowered_layer.state_lsb
        rounded = np.abs((gain - wanted) * (np.abs(states.numpy() - mean).max((0, 1))))
        codes = 0.5 + 1.0 + 0.5 * 2.0 ** (layer.offset_shift - layer.gain_shift)
        skip = 0.0 if layer.skip_shift is None else np.sqrt(layer.hidden_size) * 1.5 * step + read
        own = np.abs(gain).max() * state + np.linalg.norm(rounded)
        return float(own + np.sqrt(layer.hidden_size) * codes * step + skip)

    def of_features(self, state: float, states: Tensor) -> Any:
        """Bound each feature in codes, given the error of the last layer's states."""
        integer, step = self.integer, self.layers[-1].state_lsb
        if integer.feature_shift is None or integer.feature_multiplier is None:
            return np.full(integer.network.num_features, state / step)
        theta = torch.zeros(1, integer.hidden_size).double()
        theta = theta if self.model.thresholds is None else self.model.thresholds
        near = [((states - row).abs() <= state + 1.5 * step).double().mean(1).max(0).values for row in theta]
        units = integer.hidden_size
        values = {
            "last": np.full(units, state / step),
            "mean": np.full(units * len(theta), state / step + 1.0),  # and the threshold's rounding
            "positive": torch.cat(near).numpy(),
            "max": np.full(units, state / step),
        }
        tops = {"positive": 1.0, "mean": 2.0**integer.activation_bits}
        codes, least = [], 2.0 ** (integer.activation_bits - 1)
        for kind, multiplier in zip(integer.network.readouts, integer.feature_multiplier, strict=True):
            relative = 2.0**-14  # rounding of the multiplier and of the rate
            codes.append((values[kind] + tops.get(kind, least) * relative) * multiplier * 2.0**15)
        return np.concatenate(codes) * 2.0 ** -integer.feature_shift.astype(float) + 0.5


def norm(matrix: Tensor) -> float:
    return float(torch.linalg.matrix_norm(matrix.detach(), 2))


@given(seed=st.integers(0, 2**31), bits=st.integers(10, 16))
@settings(max_examples=60, deadline=None)
def test_the_family_stays_within_the_rounding_of_every_step(seed: int, bits: int) -> None:
    network = replace(family_network(np.random.default_rng(seed)), activation_bits=None)
    model, x = drawn_model(network, seed)
    try:
        calibration, integer = lowered(model, x, bits)
    except InputError as error:  # sums of this many states with this many bits; no other reason
        assert "must add up to" in str(error) and not network.normalize and not network.skip
        return

    logits = IntegerNetwork(integer)(x)

    with torch.no_grad():
        difference = float((logits - model(x)).abs().max())
        assert difference <= ErrorBound(model, calibration, integer).of_logits(x)


@pytest.mark.parametrize("seed", range(24))
def test_more_bits_take_the_errors_away(seed: int) -> None:
    """With six more bits errors are about 64 times smaller in any network, except for jumps in counts."""
    readouts = [("last",), ("mean",), ("mean", "max", "last")][seed % 3]
    network = family_network(np.random.default_rng(seed), readouts=readouts, activation_bits=None)
    errors = []
    for bits in (8, 14):
        model, x = drawn_model(network, seed)
        _, integer = lowered(model, x, bits)
        with torch.no_grad():
            errors.append(float((IntegerNetwork(integer)(x) - model(x)).abs().max()))

    assert errors[1] < errors[0] / 4


def test_a_unit_that_never_moves_does_not_coarsen_the_gains_of_others() -> None:
    """Its variance is zero, so its scale is about three hundred times its weight."""
    network = Network(3, 16, 2, num_layers=2, num_blocks=16, normalize=True, input_bias=False)
    model, x = drawn_model(network, 0)
    cell = model.recurrent.cells[0]  # type: ignore[index]
    assert isinstance(cell, HadamCell)
    cell.input_weight.data[3] = 0.0
    with_statistics(model, x)

    gains = lower(model, calibrate(model, [(x, None)])).layers[0].gain_int

    assert gains is not None
    assert np.abs(np.delete(gains, 3)).max() >= 2**10  # the others use all of their bits


def test_states_too_wide_for_a_stride_are_refused_with_the_way_out() -> None:
    model, x = drawn_model(Network(3, 8, 2, num_layers=2, stride=4), 0)

    with pytest.raises(InputError, match=r"4 states of 15 bits .* Use activation_bits 14"):
        lower(model, calibrate(model, [(x, None)]), activation_bits=15)
    assert lower(model, calibrate(model, [(x, None)]), activation_bits=14).layers[1].input_bits == 16


def test_sums_hold_as_many_steps_as_they_can() -> None:
    model, x = drawn_model(Network(3, 8, 2, readouts=("mean",)), 0)
    calibration = calibrate(model, [(x, None)])

    assert [lower(model, calibration, activation_bits=bits).longest for bits in (12, 16)] == [65535, 32767]
    plain, x = drawn_model(Network(3, 8, 2), 0)
    assert lower(plain, calibrate(plain, [(x, None)])).longest == 0
