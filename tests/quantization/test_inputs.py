"""Raw sensor integers and pixels become the float network's inputs without any option."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hadamrnn.data.scaling import standardise
from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import encode_inputs, encode_raw, input_meaning, raw_from_inputs
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.calibration import Calibration, RawInputs
from hadamrnn.quantization.chain import input_codes, quantize
from hadamrnn.quantization.lowering import lower
from tests.quantization.models import LEVELS, random_model

SIZES = np.array([900.0, 7.0, 30_000.0])


def recordings(path: Path, x: NDArray[np.generic], **options: bool) -> Splits:
    np.savez(path, x=x, y=np.arange(len(x)) % 2)
    return load_task("npz", None, path=str(path), **options)


def values() -> NDArray[np.float64]:
    draws = np.random.default_rng(0).normal(size=(40, 12, 3))
    return np.asarray((0.3 * draws + 0.5) * SIZES)


def integer_of(splits: Splits, unit: float | None = None) -> IntegerModel:
    torch.manual_seed(0)
    model = SequenceModel(Network(splits.input_size, 16, splits.output_size)).eval()
    return quantize(model, splits, QuantizeConfig(raw_unit=unit))


@pytest.mark.parametrize("kind", ["int16", "whole floats", "floats", "not standardised"])
def test_raw_codes_encode_as_the_float_networks_inputs(kind: str, tmp_path: Path) -> None:
    x = values() if kind == "floats" else np.rint(values())
    file = x.astype(np.int16 if kind == "int16" else np.float32)
    splits = recordings(tmp_path / "mine.npz", file, standardize=kind != "not standardised")
    integer = integer_of(splits)
    unit = float(integer.metadata["raw_unit"])
    inputs = splits.test.batch(slice(None))[0].numpy()
    offset = 0.0 if splits.offset is None else splits.offset.numpy()
    scale = 1.0 if splits.scale is None else splits.scale.numpy()
    raw = np.rint((inputs * scale + offset) / unit).astype(np.int64)

    difference = encode_raw(integer, raw)[0] - encode_inputs(integer, inputs)[0]

    assert np.abs(difference).max() <= 1
    assert (unit == 1.0) == (kind != "floats") == ("that the training data held" in input_meaning(integer))
    # Python evaluates exactly what the device computes from the same raw codes, if they have 16 bits.
    codes, _ = input_codes(integer, torch.from_numpy(inputs))
    assert np.abs(codes - encode_raw(integer, raw)[0]).max() <= (kind == "floats")
    assert kind == "floats" or np.array_equal(raw_from_inputs(integer, inputs), raw)


def test_whole_numbers_of_few_levels_are_not_shifted_by_a_rounded_offset(tmp_path: Path) -> None:
    x = (np.random.default_rng(1).random((40, 12, 1)) < 0.3).astype(np.int16)
    splits = recordings(tmp_path / "switch.npz", x)
    integer = integer_of(splits)
    assert splits.offset is not None and splits.scale is not None

    codes = encode_raw(integer, np.array([[0], [1]]))[0]

    standard = (np.array([[0.0], [1.0]]) - splits.offset.numpy()) / splits.scale.numpy()
    assert np.abs(codes - encode_inputs(integer, standard)[0]).max() <= 1


@pytest.mark.parametrize("apart", [1e10, 1e-10])
def test_channels_too_far_apart_are_refused_in_one_line(apart: float, tmp_path: Path) -> None:
    splits = recordings(tmp_path / "mine.npz", values() / SIZES * [1.0, 1.0, apart])

    assert splits.raw_unit is None
    with pytest.raises(InputError, match="subtract large offsets"):
        integer_of(splits)


def test_a_constant_channel_needs_no_unit_of_its_own() -> None:
    x = torch.from_numpy(values())
    x[:, :, 1] = 0.7  # its deviation is zero, unlike others of up to 10,000

    assert standardise(x[:, :, [0, 2]])[2] == standardise(x)[2]


@pytest.mark.parametrize("unit", [1e9, 1e-30, 5e-324])
def test_a_raw_unit_out_of_proportion_is_refused(unit: float, tmp_path: Path) -> None:
    splits = recordings(tmp_path / "mine.npz", values())

    with pytest.raises(InputError, match="Choose another raw unit"):
        integer_of(splits, unit)
    for wrong in (0.0, -unit, 1e300, float("nan"), float("inf")):
        with pytest.raises(InputError, match=r"raw_unit must lie in \(0, 3e\+38\], got"):
            integer_of(splits, wrong)


def test_pixels_enter_exactly_and_raw() -> None:
    model = random_model(0)
    integer = lower(model, Calibration(4.0, 1.0, 10, 1), raw=RawInputs(levels=LEVELS))
    pixels = np.arange(LEVELS + 1)[:, None].repeat(3, axis=1)

    assert integer.input_bits == 9
    assert encode_inputs(integer, pixels / LEVELS)[0].tolist() == pixels.tolist()
    assert encode_raw(integer, pixels)[0].tolist() == pixels.tolist()


def test_raw_sensor_codes_enter_as_their_standardised_values() -> None:
    model = random_model(0)
    rng = np.random.default_rng(0)
    codes = rng.integers(-30_000, 30_000, (200, 3))
    offset, scale = np.array([120.0, -7000.0, 3.0]), np.array([1 / 9000, 1 / 12000, 1 / 15000])
    values = (codes - offset) * scale
    raw = RawInputs(scale.tolist(), offset.tolist())
    integer = lower(model, Calibration(4.0, float(np.abs(values).max()), 10, 1), raw=raw)

    difference = encode_raw(integer, codes)[0] - encode_inputs(integer, values)[0]

    assert np.abs(difference).max() <= 1


def test_raw_inputs_keep_the_thresholds_of_compressed_channels_as_powers_of_two() -> None:
    assert RawInputs.standardised([0.0, 0.0], [1.0, 1.0], 0.5, [0.0, 4.0]).knee == [0, 3]  # 4 = 0.5 * 2^3
    assert not RawInputs.standardised([0.0, 0.0], [1.0, 1.0], 0.5, [0.0, 0.0]).knee
