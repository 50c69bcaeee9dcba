"""The estimators pass all of scikit-learn's checks, with its default tags and no exceptions."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.metrics import accuracy_score
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from sklearn.utils.estimator_checks import parametrize_with_checks

from hadamrnn.errors import InputError
from hadamrnn.estimators import (
    HadamRNNClassifier,
    HadamRNNDetector,
    HadamRNNForecaster,
    HadamRNNRegressor,
)
from hadamrnn.estimators.gradient import threads

Waves = tuple[NDArray[np.float64], NDArray[Any]]


@pytest.mark.slow
@parametrize_with_checks([HadamRNNClassifier(max_bytes=1000), HadamRNNRegressor(max_bytes=1000)])
def test_scikit_learn_finds_nothing(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("estimator", [HadamRNNClassifier(), HadamRNNRegressor()])
def test_no_check_is_excused_by_a_tag(estimator: Any) -> None:
    tags = get_tags(estimator)
    kind = tags.classifier_tags or tags.regressor_tags

    assert not (kind.poor_score or tags.no_validation or tags.non_deterministic)


@pytest.fixture
def waves() -> Waves:
    """Slow and fast sines of random phase, in units of thousands; two channels, the second noise."""
    rng = np.random.default_rng(0)
    names = np.array(["slow", "fast"])[np.arange(60) % 2]
    speed = np.where(names == "slow", 0.3, 1.1)[:, None]
    wave = np.sin(speed * np.arange(20) + rng.uniform(0, 0.5, (60, 1)))
    return np.stack([5000 + 300 * wave, rng.normal(size=wave.shape)], axis=2), names


def small(**parameters: Any) -> HadamRNNClassifier:
    return HadamRNNClassifier(**{"hidden_size": 32, "random_state": 0, **parameters})


def test_it_works_in_pipelines_grid_searches_and_cross_validation(waves: Waves) -> None:
    X, y = waves
    pipeline = make_pipeline(FunctionTransformer(lambda X: X[:, :, :1]), small())
    search = GridSearchCV(small(), [{"hidden_size": np.array([8])}, {"weight_bits": [4, "ternary"]}], cv=2)

    assert cross_val_score(pipeline, X, y, cv=2).mean() > 0.9
    assert search.fit(X, y).best_score_ > 0.9


def test_series_of_different_length_are_read_as_lists(waves: Waves) -> None:
    X, y = waves
    rows = [series[: 12 + i % 9] for i, series in enumerate(X)]
    classifier = small().fit(rows, y)

    assert classifier.score(rows, y) > 0.9
    assert cross_val_score(small(), rows, y, cv=3).mean() > 0.8
    # Neither padding nor the rest of the batch affects a series.
    alone = np.concatenate([classifier.predict_proba([row]) for row in rows])
    np.testing.assert_allclose(alone, classifier.predict_proba(rows), atol=1e-12)


def test_a_list_of_equal_series_is_the_array(waves: Waves) -> None:
    X, y = waves

    np.testing.assert_array_equal(
        small().fit(list(X), y).predict_proba(X), small().fit(X, y).predict_proba(list(X))
    )


def test_features_are_series_of_one_channel(waves: Waves) -> None:
    X, y = waves
    table, series = X[:, :, 0], X[:, :, :1]

    np.testing.assert_array_equal(
        small().fit(table, y).predict_proba(table), small().fit(series, y).predict_proba(series)
    )


def test_the_seed_decides_and_torch_is_left_alone(waves: Waves) -> None:
    import torch

    X, y = waves
    state, threads = torch.get_rng_state(), torch.get_num_threads()
    first, again, other = (small(random_state=seed).fit(X, y).predict_proba(X) for seed in (0, 0, 1))

    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert torch.equal(state, torch.get_rng_state()) and threads == torch.get_num_threads()


def test_threads_change_nothing_but_time(waves: Waves) -> None:
    X, y = waves

    np.testing.assert_array_equal(
        small(n_jobs=2, max_steps=20).fit(X, y).predict_proba(X),
        small(max_steps=20).fit(X, y).predict_proba(X),
    )


def test_pickles_and_clones_answer_alike(waves: Waves) -> None:
    X, y = waves
    classifier = small(class_weight="balanced").fit(X, y)
    copy = pickle.loads(pickle.dumps(classifier))

    np.testing.assert_array_equal(copy.predict_proba(X), classifier.predict_proba(X))
    assert copy.quantize() == classifier.quantize()
    np.testing.assert_array_equal(clone(classifier).fit(X, y).predict_proba(X), classifier.predict_proba(X))


def test_class_weights_move_the_decision_where_classes_overlap() -> None:
    rng = np.random.default_rng(0)
    y = (np.arange(200) % 10 == 0).astype(int)
    X = rng.normal(size=(200, 5)) + 0.5 * y[:, None]
    found = {
        name: float(small(class_weight=weight).fit(X, y).predict(X)[y == 1].mean())
        for name, weight in (("none", None), ("balanced", "balanced"), ("dict", {0: 1.0, 1: 1000.0}))
    }

    assert found["none"] < found["balanced"] <= found["dict"] == 1.0


def test_a_warm_start_goes_on(waves: Waves) -> None:
    X, y = waves
    classifier = small(max_steps=20, early_stopping=False, warm_start=True).fit(X, y)
    losses = [np.mean(classifier.loss_curve_)]
    for _ in range(3):
        losses.append(np.mean(classifier.fit(X, y).loss_curve_))

    assert losses[-1] < 0.5 * losses[0]
    with pytest.raises(InputError, match="must have the classes"):
        classifier.fit(X, np.where(y == "slow", "slow", "other"))
    with pytest.raises(InputError, match="same shape"):
        classifier.set_params(hidden_size=16).fit(X, y)


def test_early_stopping_saves_steps_on_held_out_samples(waves: Waves) -> None:
    X, y = waves
    patient = small(max_steps=600).fit(X, y)  # too few samples to hold some out
    holding = small(max_steps=600, early_stopping=True, validation_fraction=0.2).fit(X, y)

    assert patient.n_iter_ == len(patient.loss_curve_) == 600
    assert holding.n_iter_ == len(holding.loss_curve_) < 600
    assert holding.score(X, y) > 0.9


@pytest.mark.parametrize("early_stopping", [True, False])
def test_more_steps_at_most_are_no_worse(early_stopping: bool) -> None:
    """Training stops only after the rate has fallen, never in the noise at its full height."""
    X, y = load_digits(return_X_y=True)
    train, test = slice(0, 600), slice(1000, None)
    few, many = (
        small(max_steps=steps, early_stopping=early_stopping).fit(X[train], y[train]).score(X[test], y[test])
        for steps in (150, 1000)
    )

    assert many >= few


def test_fits_in_threads_are_the_fits_in_sequence(waves: Waves) -> None:
    X, y = waves

    def answers(seed: int) -> NDArray[np.float64]:
        probabilities: NDArray[np.float64] = (
            small(hidden_size=8, max_steps=5, random_state=seed).fit(X, y).predict_proba(X)
        )
        return probabilities

    expected = [answers(seed) for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(answers, range(40)))

    np.testing.assert_array_equal(found, expected)


def test_threads_of_a_fit_are_its_own(waves: Waves) -> None:
    import torch

    before, seen = torch.get_num_threads(), []

    def others() -> None:
        with ThreadPoolExecutor(1) as pool:
            seen.append(pool.submit(torch.get_num_threads).result())

    with threads(before + 1):
        others()
        inside = torch.get_num_threads()

    assert (inside, seen, torch.get_num_threads()) == (before + 1, [before], before)


def test_verbose_shows_each_look(waves: Waves, capsys: pytest.CaptureFixture[str]) -> None:
    small(max_steps=40).fit(*waves)
    assert capsys.readouterr() == ("", "")
    small(max_steps=40, verbose=True).fit(*waves)
    small(max_steps=20, verbose=True, early_stopping=True).fit(*waves)
    shown = capsys.readouterr().err.splitlines()

    assert [line.split("  ")[1] for line in shown] == ["step 20", "step 40", "step 20"]
    assert "validation" not in shown[0] and "validation cross_entropy" in shown[2]


def test_regressors_answer_in_the_units_of_one_or_several_targets() -> None:
    X = np.random.default_rng(0).normal(size=(150, 8))
    values = np.stack([1e6 + 1e3 * X.sum(1), 1e-3 * X[:, 0]], axis=1)
    several = HadamRNNRegressor(64, random_state=0).fit(X, values)
    single = HadamRNNRegressor(64, random_state=0).fit(X, values[:, 0])

    assert several.predict(X).shape == (150, 2) and several.score(X, values) > 0.7
    assert single.predict(X).shape == (150,) and single.score(X, values[:, 0]) > 0.7


def test_digits_are_read_well_with_default_settings() -> None:
    X, y = load_digits(return_X_y=True)
    classifier = HadamRNNClassifier(random_state=0).fit(X[:1200], y[:1200])

    assert accuracy_score(y[1200:], classifier.predict(X[1200:])) > 0.85


BAD_FITS = [
    ("Input X contains NaN", np.full((4, 5), np.nan), [0, 1, 0, 1]),
    ("Input X contains NaN", np.full((4, 5, 2), np.nan), [0, 1, 0, 1]),
    ("Input X contains infinity in sample 1", [np.zeros((3, 1)), np.full((4, 1), np.inf)], [0, 1]),
    ("could not convert string to float", np.array([["a", "b"], ["c", "d"]], dtype=object), [0, 1]),
    ("The number of classes has to be greater than one; got 1 class", np.zeros((4, 5)), [1, 1, 1, 1]),
    ("1 sample", np.zeros((1, 5)), [0]),
    ("1 sample", np.zeros((1, 5, 2)), [0]),
    ("inconsistent numbers of samples", np.zeros((4, 5, 2)), [0, 1]),
    ("same number of channels", [np.zeros((3, 1)), np.zeros((3, 2))], [0, 1]),
    ("Unknown label type", np.zeros((4, 5)), [0.1, 0.2, 0.3, 0.4]),
    ("target y is None", np.zeros((4, 5)), None),
    ("Input y contains NaN", np.zeros((4, 5)), [0.0, 1.0, 0.0, np.nan]),
]


@pytest.mark.parametrize(("message", "X", "y"), BAD_FITS)
def test_bad_data_gets_scikit_learns_words(message: str, X: Any, y: Any) -> None:
    with pytest.raises(ValueError, match=message):
        small().fit(X, y)


def test_later_data_must_have_the_channels_and_labels_of_the_first(waves: Waves) -> None:
    X, y = waves
    classifier = small().fit(X, y)
    table = small().fit(X[:, :, 0], y)

    with pytest.raises(ValueError, match=r"X has 1 channels, .* expecting 2 channels"):
        classifier.predict(X[:, :, :1])
    with pytest.raises(ValueError, match="Expected 3D array, got 2D array instead"):
        classifier.predict(X[:, :, 0])
    with pytest.raises(ValueError, match=r"X has 7 features, .* expecting 20 features"):
        table.predict(X[:, :7, 0])
    with pytest.raises(ValueError, match=r"y contains previously unseen labels: \['still'\]"):
        classifier.score(X, np.where(y == "slow", "slow", "still"))
    with pytest.raises(ValueError, match=r"dtype='numeric' is not compatible|could not convert string"):
        classifier.predict(np.full((2, 3, 2), "a"))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"hidden_size": 13}, "13"),
        ({"max_steps": "many"}, "max_steps must be int or one of auto, got 'many'"),
        ({"early_stopping": "never"}, "early_stopping must be"),
        ({"learning_rate": -1.0}, r"learning_rate must lie in \(0"),
        ({"input_noise": -1.0}, r"input_noise must lie in \[0"),
        ({"class_weight": {"slow": 0.0, "fast": 0.0}}, "positive for a class in y"),
    ],
)
def test_bad_parameters_raise_one_line(waves: Waves, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        small(**parameters).fit(*waves)


def test_a_rate_that_is_too_large_is_named() -> None:
    X, y = load_digits(return_X_y=True)
    with pytest.raises(InputError, match=r"Training diverged: .* smaller learning_rate"):
        HadamRNNRegressor(solver="gradient", learning_rate=1e30, random_state=0).fit(X, y)


@pytest.mark.parametrize(
    "kind", [HadamRNNClassifier, HadamRNNRegressor, HadamRNNForecaster, HadamRNNDetector]
)
def test_the_defaults_are_those_that_gave_the_published_figures(kind: type[Any]) -> None:
    golden = json.loads((Path(__file__).parents[1] / "golden/estimators.json").read_text())

    assert json.loads(json.dumps(kind().get_params())) == golden[kind.__name__]
