"""The closed-form fit: weights on their grid, streams in parts, weights as repetitions, threads."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from sklearn.base import clone
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNRegressor, closed_form
from hadamrnn.estimators.closed_form import rounded, with_features
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.straight_through import quantize
from hadamrnn.quantization.calibration import Calibration

FIXED: dict[str, Any] = {
    "hidden_size": 64,
    "num_blocks": 2,
    "leak": (2, 4),
    "readouts": ("mean", "max"),
    "thresholds": 1,
    "random_state": 0,
}


@settings(max_examples=30, deadline=None)
@given(bits=st.sampled_from([2, 3, 4, 8, "ternary"]), outputs=st.integers(1, 4), seed=st.integers(0, 99))
def test_rounded_weights_lie_on_the_grid_of_their_bits(bits: int | str, outputs: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    coefficients = torch.from_numpy(rng.normal(size=(20, outputs)) * rng.lognormal(0, 2, (20, 1)))
    spread = torch.from_numpy(rng.lognormal(0, 2, 20))
    weight, exponents = rounded(coefficients, spread, torch.eye(20, dtype=torch.float64), bits)

    if (coefficients < 0).any():
        torch.testing.assert_close(quantize(weight, bits), weight)
    assert float(exponents.max() - exponents.min()) <= 15
    torch.testing.assert_close(exponents, exponents.round())


def test_later_features_make_up_for_what_earlier_ones_lose() -> None:
    rng = np.random.default_rng(0)
    mixed = torch.from_numpy(rng.normal(size=(200, 10)) @ rng.normal(size=(10, 60)))
    z = mixed / mixed.std(0, correction=0)
    coefficients = torch.from_numpy(rng.normal(size=(60, 3)))
    curvature = z.T @ z + 0.1 * torch.eye(60, dtype=torch.float64)

    def error(metric: Tensor) -> float:
        weight, exponents = rounded(coefficients, torch.ones(60, dtype=torch.float64), metric, 4)
        off = z @ (weight.T * torch.exp2(-exponents)[:, None] - coefficients)
        return float(off.square().mean())

    assert error(curvature) < 0.2 * error(torch.eye(60, dtype=torch.float64))


@pytest.fixture(scope="module")
def waves() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 120)
    wave = np.sin((0.3 + 0.3 * y[:, None]) * np.arange(30) + rng.uniform(0, 6, (120, 1)))
    return (wave + 0.7 * rng.normal(size=wave.shape))[:, :, None], y


def test_ten_parts_are_one_fit(waves: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = waves
    whole = HadamRNNClassifier(**FIXED).fit(X, y)
    parts = HadamRNNClassifier(**FIXED)
    for part in np.array_split(np.arange(120), 10):
        parts.partial_fit(X[part], y[part], classes=[0, 1, 2])

    np.testing.assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))
    assert parts.quantize() == whole.quantize()


@pytest.mark.parametrize("kind", [HadamRNNClassifier, HadamRNNRegressor])
def test_how_a_long_stream_is_cut_does_not_matter(
    waves: tuple[Any, Any], kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples beyond the kept ones count as moments, and the fit is about as good as one to all rows."""
    monkeypatch.setattr(closed_form, "KEPT_SERIES", 50)
    X, y = waves
    first: dict[str, Any] = {"classes": [0, 1, 2]} if kind is HadamRNNClassifier else {}
    once, often = kind(**FIXED).partial_fit(X, y, **first), kind(**FIXED)
    for part in np.array_split(np.arange(120), 10):
        often.partial_fit(X[part], y[part], **first)

    np.testing.assert_allclose(
        often._outputs(X), once._outputs(X), atol=1e-6 * float(np.abs(once._outputs(X)).max())
    )
    assert often.score(X, y) > kind(**FIXED).fit(X, y).score(X, y) - 0.1


def test_a_sample_of_weight_zero_is_held_out_of_a_part() -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 8)), np.arange(30) % 3
    weights = np.where(np.arange(30) % 5 == 4, 0.0, 1.0)
    weighted = HadamRNNClassifier(**FIXED).partial_fit(X, y, [0, 1, 2], weights)
    without = HadamRNNClassifier(**FIXED).partial_fit(X[weights > 0], y[weights > 0], [0, 1, 2])

    np.testing.assert_array_equal(weighted.predict_proba(X), without.predict_proba(X))


def test_parts_need_all_classes_at_first_and_no_others_later(waves: tuple[Any, Any]) -> None:
    X, y = waves
    with pytest.raises(ValueError, match="classes must"):
        HadamRNNClassifier(**FIXED).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"not in classes: \[2\]"):
        HadamRNNClassifier(**FIXED).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InputError, match='solver="ridge"'):
        HadamRNNClassifier(**FIXED, solver="gradient").partial_fit(X, y, classes=[0, 1, 2])
    with pytest.raises(InputError, match="pass class_weight as a dict"):
        HadamRNNClassifier(**FIXED, class_weight="balanced").partial_fit(X, y, classes=[0, 1, 2])


@pytest.mark.parametrize("kind", [HadamRNNClassifier, HadamRNNRegressor])
def test_sample_weights_are_repetitions(waves: tuple[Any, Any], kind: Any) -> None:
    X, y = waves
    times = np.random.default_rng(1).integers(0, 3, len(y))
    weighted = kind(**FIXED).fit(X, y, sample_weight=times)
    repeated = kind(**FIXED).fit(np.repeat(X, times, axis=0), np.repeat(y, times))

    np.testing.assert_allclose(weighted._outputs(X), repeated._outputs(X), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", [HadamRNNClassifier, HadamRNNRegressor])
@pytest.mark.parametrize("solver", ["ridge", "gradient"])
@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_a_common_factor_of_all_weights_changes_nothing(
    waves: tuple[Any, Any], kind: Any, solver: str, factor: float
) -> None:
    X, y = waves
    parameters = {"max_bytes": 600, "random_state": 0, "solver": solver, "max_steps": 5, "hidden_size": 16}
    plain = kind(**parameters).fit(X, y)
    weighted = kind(**parameters).fit(X, y, sample_weight=np.full(len(y), factor))

    np.testing.assert_array_equal(weighted._outputs(X), plain._outputs(X))


@pytest.mark.parametrize(
    ("kind", "solver"),
    [(HadamRNNClassifier, "auto"), (HadamRNNClassifier, "ridge"), (HadamRNNRegressor, "auto")],
)
@pytest.mark.parametrize("arrange", [np.tile, np.repeat])
def test_repeating_all_samples_changes_nothing(
    waves: tuple[Any, Any], kind: Any, solver: str, arrange: Any
) -> None:
    """Not even if their number then exceeds the limit for leave-one-out errors."""
    X, y = waves
    index = arrange(np.arange(120), 10)
    once, often = (
        kind(solver=solver, max_bytes=600, random_state=0).fit(X[rows], y[rows])
        for rows in (np.arange(120), index)
    )

    assert often.penalty_ == once.penalty_ and often.config_ == once.config_
    np.testing.assert_allclose(often._outputs(X), once._outputs(X), rtol=1e-9, atol=1e-9)


def test_a_second_pass_through_a_long_stream_changes_no_penalty(
    waves: tuple[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(closed_form, "KEPT_SERIES", 80)
    X, y = waves
    stream = HadamRNNClassifier(**FIXED).partial_fit(X, y, classes=[0, 1, 2])
    before = stream.penalty_
    for _ in range(3):
        stream.partial_fit(X, y)

    assert stream.penalty_ == before


def test_seeds_in_two_threads_are_those_in_a_row(waves: tuple[Any, Any]) -> None:
    X, y = waves
    estimator = HadamRNNClassifier(solver="ridge", max_bytes=600)

    def answers(seed: int) -> NDArray[np.float64]:
        fitted = clone(estimator).set_params(random_state=seed).fit(X[:60, :15], y[:60])
        probabilities: NDArray[np.float64] = fitted.predict_proba(X[:, :15])
        return probabilities

    expected = [answers(seed) for seed in range(6)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(answers, range(6)))

    np.testing.assert_array_equal(found, expected)


def test_verbose_says_what_was_chosen(waves: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    X, y = waves
    HadamRNNClassifier(**FIXED).fit(X, y)
    assert capsys.readouterr().err == ""
    HadamRNNClassifier(solver="ridge", max_bytes=600, random_state=0, verbose=True).fit(X, y)
    lines = capsys.readouterr().err.splitlines()

    assert "compared" in lines[0] and "units" in lines[1] and "leave-one-out accuracy" in lines[2]


@pytest.mark.parametrize("solver", ["auto", "ridge"])
def test_more_bytes_are_used_and_the_default_is_four_kilobytes(waves: tuple[Any, Any], solver: Any) -> None:
    X, y = waves
    small, default = (
        HadamRNNClassifier(solver=solver, max_bytes=size, random_state=0).fit(X, y).cost_.bytes
        for size in (500, None)
    )

    assert small <= 500 < default <= 4096


def test_the_largest_feature_is_in_units_of_its_own_exponent() -> None:
    model = SequenceModel(Network(2, 8, 3, normalize=True, readouts=("mean", "max"))).double()
    assert model.feature_scale is not None
    exponents = torch.arange(16) % 5 - 2
    model.feature_scale.exponents.copy_(exponents)
    features = torch.randn(50, 16, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    found = with_features(Calibration(1.0, 1.0, 9, 50), model, features)
    units = zip(features.T.tolist(), exponents.tolist(), strict=True)
    assert found.max_feature == max(abs(value) * 2.0**-each for column, each in units for value in column)
