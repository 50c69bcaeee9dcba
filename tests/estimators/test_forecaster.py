"""Forecasts use the latest window, in the units of each channel, and agree with those of the integers."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.linear_model import Ridge

from hadamrnn import HadamRNNForecaster, InputError, SaturationWarning
from hadamrnn.data.ett import ENDS, read_ett
from hadamrnn.data.splits import Split
from hadamrnn.estimators.closed_form import keep_linear
from hadamrnn.estimators.forecaster import _cut
from hadamrnn.estimators.ridge import PENALTIES
from hadamrnn.estimators.selection import draw_network, features_of
from hadamrnn.network import Network
from hadamrnn.quantization.calibration import forward_layers

Floats = NDArray[np.float64]


def small(**parameters: Any) -> HadamRNNForecaster:
    return HadamRNNForecaster(
        **{"horizon": 6, "lookback": 24, "hidden_size": 32, "random_state": 0, **parameters}
    )


@pytest.fixture(scope="module")
def waves() -> Floats:
    """Two periodic channels of different size and level."""
    time = np.arange(700)
    noise = np.random.default_rng(0).normal(0, 0.02, (700, 2))
    return (np.stack([np.sin(time / 3), np.cos(time / 5)], axis=1) + noise) * [1.0, 500.0] + [0.0, 9e3]


def test_waves_are_continued_in_their_own_units(waves: Floats) -> None:
    forecaster = small().fit(waves[:600])
    ahead = waves[600:606]

    for forecast in (forecaster.predict(), forecaster.predict_integer()):
        assert forecast.shape == (6, 2)
        assert (np.abs(forecast - ahead).max(0) < [0.2, 100.0]).all()


def test_a_forecast_depends_on_the_last_window_alone(waves: Floats) -> None:
    forecaster = small().fit(waves[:500])
    windows = np.stack([waves[start : start + 24] for start in range(500, 520)])
    together = forecaster.predict(windows)

    assert together.shape == (20, 6, 2)
    for window, start, forecast in zip(windows, range(500, 520), together, strict=True):
        np.testing.assert_allclose(forecaster.predict(window), forecast, rtol=1e-12)
        np.testing.assert_allclose(forecaster.predict(waves[: start + 24]), forecast, rtol=1e-12)


def test_level_and_unit_of_a_channel_pass_through(waves: Floats) -> None:
    moved = waves * [3.0, 0.25] + [100.0, -7.0]
    plain, other = small().fit(waves), small().fit(moved)

    np.testing.assert_allclose(other.predict(), plain.predict() * [3.0, 0.25] + [100.0, -7.0], rtol=1e-7)


def test_one_channel_may_be_flat(waves: Floats) -> None:
    flat, column = small().fit(waves[:, 0]), small().fit(waves[:, :1])

    np.testing.assert_array_equal(flat.predict(), column.predict())
    np.testing.assert_array_equal(flat.predict(waves[:40, 0]), column.predict(waves[:40, :1]))


def test_a_constant_channel_stays_where_it_is(waves: Floats) -> None:
    series = np.hstack([waves, np.full((700, 1), 5.0)])

    np.testing.assert_allclose(small().fit(series).predict()[:, 2], 5.0, atol=0.05)


def test_no_state_is_negative_at_the_end_of_a_window() -> None:
    network = Network(1, 32, 6, leak=(4,), weight_bits=6, normalize=True)
    x = torch.randn(500, 24, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    model = draw_network(network, 0).double()
    keep_linear(model, x)
    states = forward_layers(model).end_state(x, None)

    assert states.min() > -1e-9
    # Linearity: the mean of two windows has the mean of their states.
    between = forward_layers(model).end_state((x[:250] + x[250:]) / 2, None)
    torch.testing.assert_close(between, (states[:250] + states[250:]) / 2)


def test_seeds_clones_and_pickles(waves: Floats) -> None:
    first, again, other = (small(random_state=seed).fit(waves) for seed in (0, 0, 1))

    np.testing.assert_array_equal(first.predict(), again.predict())
    assert not np.array_equal(first.predict(), other.predict())
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first)).predict(), first.predict())
    np.testing.assert_array_equal(clone(first).fit(waves).predict(), first.predict())


def test_the_cost_is_what_the_integer_network_takes(waves: Floats, tmp_path: Path) -> None:
    forecaster = small().fit(waves)
    size = forecaster.quantize().save(tmp_path / "model.int.safetensors")

    assert abs(size.payload - forecaster.cost_.bytes) < 0.02 * size.payload


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("make") is None, reason="no compiler")
def test_the_exported_c_passes_its_test(waves: Floats, tmp_path: Path) -> None:
    folder = small().fit(waves).to_c(tmp_path / "c", "load")

    subprocess.run(["make", "-C", str(folder), "test"], check=True, capture_output=True)


@pytest.mark.parametrize(
    ("parameters", "series", "message"),
    [
        ({}, np.zeros((30, 2)), r"lookback \+ horizon \+ 1 = 31 steps, got 30"),
        ({"lookback": 0}, np.zeros((99, 2)), r"lookback must lie in 1\.\."),
        ({"lookback": 9.5}, np.zeros((99, 2)), r"lookback must be int, got 9\.5"),
        ({"leak": (0,)}, np.zeros((99, 2)), r"leak must lie in 1\.\.15, got 0"),
        ({"leak": ()}, np.zeros((99, 2)), "leak must list one k or more, got none"),
        ({"penalty": 0.0}, np.zeros((99, 2)), r"penalty must lie in \(0, .*, got 0\.0"),
        ({"penalty": np.nan}, np.zeros((99, 2)), r"penalty must lie in \(0, .*, got nan"),
        ({"penalty": "high"}, np.zeros((99, 2)), "penalty must be float or one of auto, got 'high'"),
        ({"hidden_size": 13}, np.zeros((99, 2)), "13"),
        ({}, np.full((99, 2), np.nan), "contains NaN"),
        ({}, np.full((99, 2), 1e200), r"X must lie within -1e\+100 and 1e\+100, got 1e\+200"),
        ({}, np.zeros((9, 9, 9)), r"A series is \(time, channels\)"),
    ],
)
def test_bad_input_is_refused_in_a_line(parameters: Any, series: Floats, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        small(**parameters).fit(series)


def test_a_window_must_be_long_enough_and_have_the_channels(waves: Floats) -> None:
    forecaster = small().fit(waves)

    for window in (waves[:23], waves[:, :1], np.zeros((4, 24, 3))):
        with pytest.raises(InputError, match="24 steps or more of 2 channels"):
            forecaster.predict(window)


def test_parameters_set_after_the_fit_change_nothing(waves: Floats) -> None:
    forecaster = small().fit(waves)
    expected, integer = forecaster.predict(), forecaster.quantize()
    forecaster.set_params(lookback=12, horizon=3, hidden_size=8)

    np.testing.assert_array_equal(forecaster.predict(), expected)
    np.testing.assert_array_equal(forecaster.predict(waves), expected)
    assert forecaster.quantize() == integer
    assert integer.metadata["lookback"] == 24 and integer.metadata["horizon"] == 6


def test_a_jump_beyond_int32_is_clipped_in_integers(waves: Floats) -> None:
    forecaster = small().fit(waves)
    for jump in (1e9, 1e30):
        window = np.vstack([np.full((1, 2), jump), waves[:30]])

        np.testing.assert_array_equal(
            forecaster.predict_integer(window), forecaster.predict_integer(waves[:30])
        )
        window[-3] = jump
        with pytest.warns(SaturationWarning, match="2 of 48 inputs"):
            assert np.isfinite(forecaster.predict_integer(window)).all()


@pytest.mark.parametrize("penalty", ["auto", 0.5])
def test_networks_are_compared_on_steps_that_none_was_fitted_to(waves: Floats, penalty: Any) -> None:
    """The fit ends before the last fifth of the series, and forecasts within that fifth give the error."""
    forecaster = small(penalty=penalty)
    windows = _cut(waves / waves.std(0), 24, 6, 10**6)
    model = draw_network(forecaster._network(), 0)
    trial = forecaster._try(model, windows, 700)
    features, starts = features_of(trial.model, Split(windows.past, None)).numpy(), windows.starts.numpy()
    fitted, judged = starts + 30 <= 560, starts + 24 >= 560
    spread = features[fitted].std(0)
    errors = {}
    for each in PENALTIES if penalty == "auto" else [penalty]:
        ridge = Ridge(alpha=each * fitted.sum()).fit(features[fitted] / spread, windows.future[fitted])
        off = ridge.predict(features[judged] / spread) - windows.future[judged].numpy()
        errors[each] = np.square(off).mean()

    assert trial.error == pytest.approx(min(errors.values()), rel=1e-6)
    assert errors[trial.penalty] == min(errors.values())


def test_the_columns_of_a_frame_keep_their_order(waves: Floats) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(waves, columns=["load", "heat"])
    forecaster = small().fit(frame)

    np.testing.assert_array_equal(forecaster.predict(frame), forecaster.predict(waves))
    with pytest.raises(ValueError, match="feature names should match"):
        forecaster.predict(frame[["heat", "load"]])
    assert not hasattr(forecaster.fit(waves), "feature_names_in_")


@pytest.mark.parametrize("channels", [1, 2, 3, 6, 7])
def test_windows_that_are_held_out_are_of_all_channels_alike(channels: int) -> None:
    """Each value is a multiple of its channel's factor, so rises identify the channel of a window."""
    series = np.arange(1.0, 301)[:, None] * (1 + np.arange(channels))
    for most in (10**6, 120, 50):
        windows = _cut(series, 5, 1, most)
        _, counts = torch.round(windows.at_most(40).future).unique(return_counts=True)

        assert len(windows.past) <= most and len(windows.at_most(40).past) <= 40
        assert len(counts) == channels and counts.max() - counts.min() <= 1
        assert (windows.past[:, 0, 0] == -4 * windows.future[:, 0]).all()


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA names no data folder")
def test_etth1_is_forecast_within_five_kilobytes() -> None:
    hours = read_ett("ETTh1").astype(np.float64)
    train = hours[: ENDS[0]]
    cut = np.lib.stride_tricks.sliding_window_view(hours[ENDS[1] - 96 : ENDS[2]], 192, axis=0)
    rows = cut.transpose(0, 2, 1)
    found = []
    for seed in range(2):
        forecaster = HadamRNNForecaster(96, random_state=seed).fit(train)
        errors = (forecaster.predict_integer(rows[:, :96]) - rows[:, 96:]) / train.std(0)
        found.append(np.square(errors).mean())

    assert forecaster.cost_.bytes <= 5000 and np.mean(found) <= 0.39
