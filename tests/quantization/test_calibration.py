"""Calibration: ranges of all values of the network, over valid steps only."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import encode_inputs
from hadamrnn.network import Network
from hadamrnn.nn.stack import HadamStack
from hadamrnn.quantization.calibration import Calibration, NotFinite, _percentile, calibrate
from hadamrnn.quantization.chain import IntegerNetwork
from hadamrnn.quantization.lowering import lower
from tests.quantization.models import drawn_model, random_inputs, random_model


def test_calibration_finds_the_largest_state_within_each_rows_length() -> None:
    model = random_model(0)
    x = random_inputs(model, 6, 9)
    lengths = torch.tensor([9, 1, 4, 9, 2, 3])

    found = calibrate(model, [(x[:4], lengths[:4]), (x[4:], lengths[4:])])
    assert isinstance(model.recurrent, HadamStack)

    with torch.no_grad():
        states = model.recurrent.every_state(x, lengths)
    assert found == Calibration(float(states.abs().max()), float(x.abs().max()), 9, 6)


def test_states_that_overflow_are_refused_instead_of_skipped() -> None:
    model = random_model(0)
    assert isinstance(model.recurrent, HadamStack)
    with torch.no_grad():
        model.recurrent.cell(0).input_weight.fill_(1e308)

    with pytest.raises(NotFinite):
        calibrate(model, [(random_inputs(model, 6, 9), None)])


def test_padding_neither_widens_the_ranges_nor_saturates() -> None:
    """Padding with zeros is far from the data once channels with a large mean are standardised."""
    model = random_model(0)
    x = random_inputs(model, 6, 9)
    lengths = torch.tensor([8, 1, 4, 7, 2, 3])
    valid = torch.arange(9) < lengths[:, None]
    padded = x.masked_fill(~valid[:, :, None], -2000.0)

    found = calibrate(model, [(padded, lengths)])
    network = IntegerNetwork(lower(model, found))
    logits = network(padded, lengths)

    assert found.max_input == float(x[valid].abs().max())
    assert found.seq_length == 8  # the longest row, not the width of the batch
    assert torch.equal(logits, network(x, lengths))
    assert network.input_saturations == 0


def test_a_percentile_lets_the_outliers_saturate() -> None:
    model = random_model(0, input_size=3)
    x = random_inputs(model, 50, 9)
    x[0] *= 64

    whole = calibrate(model, [(x, None)])
    most = calibrate(model, [(x, None)], percentile=98)
    coarse, fine = (lower(model, found) for found in (whole, most))

    assert most.max_state < whole.max_state
    assert calibrate(model, [(x[1:], None)]).max_state == most.max_state
    assert fine.logit_scale < coarse.logit_scale
    assert encode_inputs(coarse, x.numpy())[1] < encode_inputs(fine, x.numpy())[1]


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=12), st.floats(0.1, 100))
def test_a_percentile_is_the_smallest_value_that_covers_its_share(values: list[float], share: float) -> None:
    covering = [value for value in values if 100 * sum(v <= value for v in values) >= len(values) * share]

    assert _percentile(values, share) == min(covering)


@torch.no_grad()
def test_calibration_sees_every_layer_within_its_lengths_and_leaves_the_statistics_alone() -> None:
    network = Network(3, 8, 2, num_layers=2, normalize=True, stride=2, readouts=("mean", "max"))
    model, x = drawn_model(network, 0)
    recurrent, lengths = model.hadamard_layers, torch.tensor([12, 3, 1, 0, 7, 12])
    before = {name: value.clone() for name, value in model.state_dict().items()}

    found = calibrate(model.train(), [(x[:4], lengths[:4]), (x[4:], lengths[4:])])

    assert model.training
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    model.eval()
    rows = [x[row : row + 1, : int(length)] for row, length in enumerate(lengths) if length > 0]
    below = [recurrent.layer_states(row)[0] for row in rows]
    assert found.below[0][0] == largest([states for states, _ in below])
    assert found.below[0][1] == largest([y for _, y in below if y is not None])
    rows = [row for row in rows if row.shape[1] >= 2]  # rows long enough for a step of the upper layer
    assert found.max_state == largest([recurrent.layer_states(row)[1][0] for row in rows])
    scales = model.folded_readout()[0]
    features = [recurrent.pooled_state(row, None, ("mean", "max")) * scales for row in rows]
    assert found.max_feature == pytest.approx(largest(features), rel=1e-12)
    assert (found.seq_length, found.samples) == (12, 6)


def largest(parts: list[Tensor]) -> float:
    return max(float(part.abs().max()) for part in parts)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_refused_wherever_it_is(value: float) -> None:
    model = random_model(0)
    x = random_inputs(model, 5, 9)
    x[2, 3, 0] = value
    with pytest.raises(InputError, match="finite inputs and states"):
        calibrate(model, [(x, None)])
    for name, _ in model.named_parameters():
        broken = copy.deepcopy(model)
        broken.get_parameter(name).data.view(-1)[0] = value
        with pytest.raises(InputError, match=f"must be finite, but {name} holds NaN or infinity"):
            lower(broken, Calibration(1.0, 1.0, 9, 5))


def test_a_calibration_that_fails_leaves_the_model_in_training_mode() -> None:
    model = random_model(0).train()
    with pytest.raises(InputError):
        calibrate(model, [(random_inputs(model, 2, 3) * math.nan, None)])
    assert model.training


@pytest.mark.parametrize("percentile", ["most", None, math.nan])
def test_a_percentile_that_is_no_number_is_refused(percentile: float) -> None:
    with pytest.raises(InputError, match="percentile must"):
        calibrate(random_model(0), [], percentile)
