"""Linear networks: superposition, answers beyond the range of training, C and JavaScript."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hadamrnn.data.splits import Split
from hadamrnn.errors import SaturationWarning
from hadamrnn.estimators import HadamRNNRegressor
from hadamrnn.estimators.closed_form import draw_linear, linear_networks
from hadamrnn.estimators.selection import ParameterSpace, features_of, network_cost
from hadamrnn.export import export_js
from hadamrnn.fixedpoint.encoding import encode_values, value_format
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.network import Network


def drifting(low: float, high: float, count: int = 100, seed: int = 0) -> tuple[Any, Any]:
    """Return series at levels within a range, and their level: two channels, the second is noise."""
    rng = np.random.default_rng(seed)
    level = rng.uniform(low, high, count)
    X = np.stack([level[:, None] + rng.normal(0, 0.3, (count, 20)), rng.normal(size=(count, 20))], axis=2)
    return X, level


@pytest.fixture(scope="module")
def fitted() -> HadamRNNRegressor:
    return HadamRNNRegressor(random_state=0).fit(*drifting(0, 3))


@pytest.mark.parametrize("number", range(4))
def test_features_of_two_series_add_up(number: int) -> None:
    network = linear_networks(ParameterSpace(Network(2, 1, 1), 4096))[number]
    x = torch.randn(300, 24, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    kinds = [kind for kind in network.readouts for _ in range(network.hidden_size)]
    linear = torch.tensor([kind == "last" for kind in kinds])
    between = torch.cat([x, (x[:150] + x[150:]) / 2])
    features = features_of(draw_linear(network, Split(between, None), 0), Split(between, None))[:, linear]

    torch.testing.assert_close(features[300:], (features[:150] + features[150:300]) / 2)


def test_states_of_the_longest_series_are_not_negative_at_their_end() -> None:
    rng = np.random.default_rng(0)
    x, lengths = torch.from_numpy(rng.normal(size=(60, 30, 2))), torch.from_numpy(rng.integers(25, 31, 60))
    x[::59], lengths[::59] = 3 * x[::59], 30  # the first and the last reach furthest
    for network in linear_networks(ParameterSpace(Network(2, 1, 1), 4096)):
        model = draw_linear(network, Split(x, None, lengths), 0)
        assert model.hadamard_layers.end_state(x, lengths)[lengths == 30].min() > -1e-9


def test_integrators_are_means_of_each_channel_that_forget() -> None:
    network = linear_networks(ParameterSpace(Network(2, 1, 1, weight_bits=None), 4096))[0]
    x = np.random.default_rng(0).normal(size=(50, 12, 2))
    features = features_of(
        draw_linear(network, Split(torch.from_numpy(x), None), 0), Split(torch.from_numpy(x), None)
    )

    for unit, (channel, leak) in enumerate([(c, k) for c in range(2) for k in (1, 3, 5)]):
        recent = x[:, :, channel] @ (1 - 2.0**-leak) ** np.arange(11, -1, -1)
        np.testing.assert_allclose(features[:, unit] - features[0, unit], recent - recent[0], atol=1e-9)


def test_a_level_beyond_the_range_of_training_is_followed(fitted: HadamRNNRegressor) -> None:
    X, level = drifting(3, 5, seed=1)

    assert fitted.score(X, level) > 0.9
    with pytest.warns(SaturationWarning):  # integers follow as far as their states reach, then stay constant
        answers = fitted.predict_integer(X)
    assert answers.max() < 5 and (answers[level < 3.1] > 2.5).all()


def test_linear_networks_fit_into_max_bytes_and_leave_a_given_shape_alone() -> None:
    base = Network(9, 1, 2)
    for size in (100, 300, 1000, 5000):
        found = linear_networks(ParameterSpace(base, size))
        assert all(network_cost(network).bytes <= size for network in found)
    assert len(found) == 4
    for fixed in ({"hidden_size": 64}, {"leak": (1,)}, {"readouts": ("mean",)}, {"thresholds": 2}):
        assert not linear_networks(ParameterSpace(base, 4096, **fixed))
    assert not linear_networks(ParameterSpace(Network(9, 1, 2, recurrence="relu"), 4096))


def test_a_nonlinear_network_is_taken_where_it_is_clearly_better() -> None:
    X = np.random.default_rng(0).normal(size=(300, 16))
    regressor = HadamRNNRegressor(random_state=0).fit(X, np.abs(X).mean(1))

    assert regressor.score(X, np.abs(X).mean(1)) > 0.8


@pytest.mark.skipif(shutil.which("cc") is None or shutil.which("node") is None, reason="no cc or no node")
def test_c_and_javascript_replay_the_integers_of_integrators(
    fitted: HadamRNNRegressor, tmp_path: Path
) -> None:
    assert fitted.config_.block_size == 1
    folder = fitted.to_c(tmp_path / "c")
    said = subprocess.run(["make", "test"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "passed, 0 differences" in said
    folder = export_js(fitted.quantize(), tmp_path / "js", "net")
    subprocess.run(["node", next(folder.glob("*test*"))], cwd=folder, capture_output=True, check=True)


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e6])
@pytest.mark.parametrize("offset", [0.0, 1e6, -1e6])
def test_r2_does_not_depend_on_the_unit_of_the_targets(scale: float, offset: float) -> None:
    X, level = drifting(0, 3)
    y = (level - level.mean()) / level.std()
    plain = HadamRNNRegressor(32, random_state=0).fit(X, y).score(X, y)
    targets = y * scale + offset
    regressor = HadamRNNRegressor(32, random_state=0).fit(X, targets)
    integer = regressor.quantize()
    values = value_format(integer)
    assert values is not None
    fixed = (
        values.values(Engine(integer).run(encode_values(integer, X)[0]).logits)[:, 0] / 2.0**values.frac_bits
    )

    def r2(answers: Any) -> float:
        return float(1 - np.square(answers - targets).mean() / targets.var())

    assert r2(regressor.predict(X)) == pytest.approx(plain, abs=0.01)
    assert r2(regressor.predict_integer(X)) == pytest.approx(plain, abs=0.01)
    assert r2(fixed) == pytest.approx(plain, abs=0.01)
