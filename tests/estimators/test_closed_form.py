"""The closed-form fit: ridge by its definition, weights as repetitions, streams, and rounding."""

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
from sklearn.linear_model import Ridge
from torch import Tensor
from torch.nn.functional import one_hot

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNRegressor, closed_form
from hadamrnn.estimators.choice import Wanted, network_cost
from hadamrnn.estimators.closed_form import rounded
from hadamrnn.estimators.goals import Labels, Values
from hadamrnn.estimators.ridge import Moments, solve
from hadamrnn.network import Network
from hadamrnn.nn.straight_through import quantize

FIXED: dict[str, Any] = {
    "hidden_size": 64,
    "num_blocks": 2,
    "leak": (2, 4),
    "readouts": ("mean", "max"),
    "thresholds": 1,
    "random_state": 0,
}


def draw_rows(count: int, width: int, seed: int = 0) -> tuple[Tensor, Values]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, width)) @ rng.normal(size=(width, width)) + rng.normal(size=width)
    targets = features[:, :2] + rng.normal(size=(count, 2))
    weights = torch.from_numpy(rng.integers(1, 4, count).astype(np.float64))
    return torch.from_numpy(features), Values(torch.from_numpy(targets), weights, weights.clamp(max=1.0))


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_left_out_answers_are_those_of_fits_without_the_row(count: int, width: int, penalty: float) -> None:
    features, goal = draw_rows(count, width)
    found = solve(features, goal, (penalty,))
    z = (features - found.mean) / found.spread
    for i in range(count):
        weights = goal.weights.clone()
        weights[i] -= 1
        ridge = Ridge(alpha=penalty * goal.weight).fit(z.numpy(), goal.targets.numpy(), weights.numpy())
        torch.testing.assert_close(
            found.left_out[i], torch.from_numpy(ridge.predict(z[i : i + 1].numpy())[0]), rtol=1e-7, atol=1e-8
        )


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_answers_to_a_fold_are_those_of_fits_without_it(count: int, width: int, penalty: float) -> None:
    features, goal = draw_rows(count, width)
    found = solve(features, goal, (penalty,), folds=torch.arange(count) % 3)
    z = ((features - found.mean) / found.spread).numpy()
    for fold in range(3):
        left, kept = (torch.arange(count) % 3 == fold).numpy(), (torch.arange(count) % 3 != fold).numpy()
        ridge = Ridge(alpha=penalty * goal.weight)
        ridge.fit(z[kept], goal.targets[kept].numpy(), goal.weights[kept].numpy())
        torch.testing.assert_close(
            found.left_out[left], torch.from_numpy(ridge.predict(z[left])), rtol=1e-7, atol=1e-7
        )


def test_folds_are_stretches_of_every_class() -> None:
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 0, 0])
    targets = 2.0 * one_hot(labels, 2).double() - 1.0
    weights = torch.ones(9, dtype=torch.float64)

    folds = Labels(targets, weights, weights).folds(3)
    assert folds[labels == 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert folds[labels == 1].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
def test_a_weight_of_two_is_the_row_twice(count: int, width: int) -> None:
    features, goal = draw_rows(count, width)
    times = goal.weights.long()
    ones = torch.ones(int(times.sum()), dtype=torch.float64)
    repeated = Values(goal.targets.repeat_interleave(times, 0), ones, ones)
    once, again = solve(features, goal), solve(features.repeat_interleave(times, 0), repeated)

    assert once.penalty == again.penalty
    torch.testing.assert_close(once.coefficients, again.coefficients, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(once.error, again.error, rtol=1e-9, atol=0.0)


def test_moments_of_parts_add_up() -> None:
    features, goal = draw_rows(50, 8)
    parts = [
        Moments.of(features[part], goal.at(part))
        for part in (torch.arange(0, 7), torch.arange(7, 30), torch.arange(30, 50))
    ]
    total = parts[0] + parts[1] + parts[2]
    whole = Moments.of(features, goal)
    found = solve(features, goal, moments=total)

    torch.testing.assert_close(total.covariance, whole.covariance)
    torch.testing.assert_close(found.coefficients, solve(features, goal).coefficients)


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


def test_temperatures_make_probabilities_of_scores() -> None:
    """Scores are drawn from softmax(3 a): the temperature found is 3."""
    generator = torch.Generator().manual_seed(0)
    answers = torch.randn(20_000, 4, generator=generator, dtype=torch.float64)
    codes = torch.multinomial(torch.softmax(3 * answers, 1), 1, generator=generator)[:, 0]
    targets = 2.0 * torch.nn.functional.one_hot(codes, 4).double() - 1
    ones = torch.ones(len(codes), dtype=torch.float64)

    assert Labels(targets, ones, ones).scale(answers) == pytest.approx(3.0, rel=0.03)


@pytest.mark.parametrize("outputs", [2, 10])
@pytest.mark.parametrize("channels", [1, 9])
def test_networks_fill_the_bytes_and_never_more(outputs: int, channels: int) -> None:
    base = Network(channels, 1, outputs)
    for max_bytes in (700, 4096):
        sizes = [network_cost(each).bytes for each in Wanted(base, max_bytes).networks(search=True)]
        assert max(sizes) <= max_bytes and min(sizes) > 0
    with pytest.raises(InputError, match=r"max_bytes must hold a network of 8 units, \d+ bytes here, got 10"):
        Wanted(base, 10).networks(search=True)


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
    """Beyond what is kept the moments count, and the fit is still about as good as that of all rows."""
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


def test_a_sample_of_weight_zero_is_left_out_of_a_part() -> None:
    X, y = np.random.default_rng(0).normal(size=(30, 8)), np.arange(30) % 3
    weights = np.where(np.arange(30) % 5 == 4, 0.0, 1.0)
    weighted = HadamRNNClassifier(**FIXED).partial_fit(X, y, [0, 1, 2], weights)
    without = HadamRNNClassifier(**FIXED).partial_fit(X[weights > 0], y[weights > 0], [0, 1, 2])

    np.testing.assert_array_equal(weighted.predict_proba(X), without.predict_proba(X))


def test_parts_need_all_classes_at_first_and_no_others_later(waves: tuple[Any, Any]) -> None:
    X, y = waves
    with pytest.raises(ValueError, match="classes must be passed on the first call"):
        HadamRNNClassifier(**FIXED).partial_fit(X, y)
    with pytest.raises(ValueError, match=r"not in classes: \[2\]"):
        HadamRNNClassifier(**FIXED).partial_fit(X, y, classes=[0, 1])
    with pytest.raises(InputError, match="partial_fit adds up a ridge regression"):
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


def test_twenty_seeds_in_two_threads_are_twenty_in_a_row(waves: tuple[Any, Any]) -> None:
    X, y = waves
    estimator = HadamRNNClassifier(max_bytes=600)

    def answers(seed: int) -> NDArray[np.float64]:
        fitted = clone(estimator).set_params(random_state=seed).fit(X[:60, :15], y[:60])
        probabilities: NDArray[np.float64] = fitted.predict_proba(X[:, :15])
        return probabilities

    expected = [answers(seed) for seed in range(20)]
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(answers, range(20)))

    np.testing.assert_array_equal(found, expected)


def test_verbose_says_what_was_chosen(waves: tuple[Any, Any], capsys: pytest.CaptureFixture[str]) -> None:
    X, y = waves
    HadamRNNClassifier(**FIXED).fit(X, y)
    assert capsys.readouterr().err == ""
    HadamRNNClassifier(max_bytes=600, random_state=0, verbose=True).fit(X, y)
    lines = capsys.readouterr().err.splitlines()

    assert "compared" in lines[0] and "units" in lines[1] and "left-out accuracy" in lines[2]


def test_more_bytes_are_used_and_the_default_is_four_kilobytes(waves: tuple[Any, Any]) -> None:
    X, y = waves
    small, default = (
        HadamRNNClassifier(max_bytes=size, random_state=0).fit(X, y).cost_.bytes for size in (500, None)
    )

    assert small <= 500 < default <= 4096
