"""Every form of X gives the same series, and ambiguous forms are refused."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNRegressor
from hadamrnn.estimators.reading import read_series
from hadamrnn.estimators.series import Series

Floats = NDArray[np.float64]
PEAK = """
import resource, numpy as np
from hadamrnn.estimators import HadamRNNClassifier
X = np.random.default_rng(0).normal(size=(20, 50_000, 1))
classifier = HadamRNNClassifier(512, num_blocks=16, leak=(2, 4), readouts=("mean", "max"), random_state=0)
classifier.fit(X[:, :100], np.arange(20) % 2)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
classifier.fit(X, np.arange(20) % 2)
print(1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / X.nbytes)
"""
Y = np.array(["down", "up"])[np.arange(8) % 2]


@pytest.fixture
def X() -> Floats:
    return np.random.default_rng(0).normal(size=(8, 12, 3))


def read(X: Any, reset: bool = True, estimator: Any = None) -> Series:
    return read_series(HadamRNNClassifier() if estimator is None else estimator, X, reset=reset)


def nested(rows: Any) -> Any:
    """Return sktime's `nested_univ`: one row per sample, one column per channel, one series per cell."""
    pandas = pytest.importorskip("pandas")
    return pandas.DataFrame({f"c{c}": [pandas.Series(row[:, c]) for row in rows] for c in range(3)})


def stacked(rows: Any) -> Any:
    """Return sktime's `pd-multiindex`: one row per step, the index (sample, time)."""
    pandas = pytest.importorskip("pandas")
    places = [(f"s{i}", step) for i, row in enumerate(rows) for step in range(len(row))]
    index = pandas.MultiIndex.from_tuples(places, names=["sample", "time"])
    return pandas.DataFrame(np.concatenate(list(rows)), index=index, columns=["c0", "c1", "c2"])


@pytest.mark.parametrize("form", [nested, stacked, list, tuple])
@pytest.mark.parametrize("shortest", [5, 12])
def test_every_form_gives_the_same_series(form: Any, shortest: int, X: Floats) -> None:
    rows = [row[: shortest + i % (13 - shortest)] for i, row in enumerate(X)]
    series = read(form(rows))

    expected = np.zeros_like(X)
    for target, row in zip(expected, rows, strict=True):
        target[: len(row)] = row
    np.testing.assert_array_equal(series.values, expected[:, : series.values.shape[1]])
    lengths = [len(row) for row in rows]
    found = [series.values.shape[1]] * 8 if series.lengths is None else series.lengths.tolist()
    assert found == lengths


@pytest.mark.parametrize("form", [nested, stacked])
@pytest.mark.parametrize("kind", [HadamRNNClassifier, HadamRNNRegressor])
def test_a_fit_to_a_frame_is_the_fit_to_its_array(form: Any, kind: Any, X: Floats) -> None:
    y = Y if kind is HadamRNNClassifier else np.arange(8.0)
    frame, array = (kind(16, max_steps=3, random_state=0).fit(data, y) for data in (form(X), X))

    assert frame.n_features_in_ == 3 and frame.feature_names_in_.tolist() == ["c0", "c1", "c2"]
    np.testing.assert_array_equal(frame.predict(form(X)), array.predict(X))
    assert not hasattr(frame.fit(X, y), "feature_names_in_")


def test_labels_with_the_index_of_the_samples_are_matched_by_it(X: Floats) -> None:
    pandas = pytest.importorskip("pandas")
    order = np.random.default_rng(0).permutation(8)
    frame = stacked(X)
    shuffled = pandas.concat([frame.loc[[f"s{i}"]] for i in order])
    values = pandas.Series(np.arange(8.0), index=[f"s{i}" for i in range(8)])
    weights = values + 1.0
    plain = HadamRNNRegressor(16, random_state=0).fit(X[order], values.iloc[order], weights.iloc[order])
    matched = HadamRNNRegressor(16, random_state=0).fit(shuffled, values, weights)
    labels = values.map(lambda value: "odd" if value % 2 else "even")
    classifier = HadamRNNClassifier(16, random_state=0).fit(shuffled, labels)

    np.testing.assert_array_equal(matched.predict(X), plain.predict(X))
    assert matched.score(shuffled, values, weights) == matched.score(X, values, weights)
    assert classifier.score(shuffled, labels) == classifier.score(X, labels)
    with pytest.raises(InputError, match="index of X's samples"):
        classifier.fit(shuffled, labels.rename({"s3": "s9"}))
    assert classifier.fit(shuffled, labels.reset_index(drop=True)).classes_.tolist() == ["even", "odd"]


def test_samples_without_an_order_and_missing_ids_are_refused(X: Floats) -> None:
    pytest.importorskip("pandas")
    frame = stacked(X)
    with pytest.raises(InputError, match="sort_index"):
        read(frame.sample(frac=1.0, random_state=0))
    for names in ({"s3": np.nan}, {5: np.nan}):
        with pytest.raises(InputError, match=r"index of X .* missing"):
            read(frame.rename(index=names))


def test_a_classifier_of_unequal_series_reads_equal_ones_and_a_single_one(X: Floats) -> None:
    rows = [row[: 6 + i, 0] for i, row in enumerate(X[:6])]
    classifier = HadamRNNClassifier(16, random_state=0).fit(rows, Y[:6])
    equal = [row[:6] for row in rows]
    expected = classifier.predict_proba([row[:, None] for row in equal])

    for form in (equal, np.array(equal), np.array(equal)[:, :, None]):
        np.testing.assert_array_equal(classifier.predict_proba(form), expected)
    np.testing.assert_allclose(classifier.predict_proba(equal[:1]), expected[:1], rtol=1e-12)
    for single in (equal[0], equal[0][:, None]):
        with pytest.raises(ValueError, match=r"series of shape \(time, 1\)\. Pass a single series as \[X\]"):
            classifier.predict(single)


@pytest.mark.parametrize("form", [nested, stacked])
def test_channels_of_another_order_are_refused(form: Any, X: Floats) -> None:
    estimator = HadamRNNClassifier()
    read(form(X), estimator=estimator)

    with pytest.raises(ValueError, match="feature names should match"):
        read(form(X)[["c1", "c0", "c2"]], reset=False, estimator=estimator)


def test_steps_are_read_in_the_order_of_their_time(X: Floats) -> None:
    frame = stacked(X)
    later_first = frame.iloc[::-1]

    np.testing.assert_array_equal(read(later_first).values, X[::-1])


def test_a_wide_frame_is_a_table(X: Floats) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :, 0], columns=[f"t{step}" for step in range(12)])

    np.testing.assert_array_equal(read(frame).values, X[:, :, :1])


def test_more_channels_than_steps_are_refused_but_in_a_list(X: Floats) -> None:
    turned = X.transpose(0, 2, 1)
    with pytest.raises(ValueError, match=r"\(8, 3, 12\) may be .*X\.transpose\(0, 2, 1\); .* pass list\(X\)"):
        read(turned)

    assert read(list(turned)).values.shape == (8, 3, 12)
    assert read(X[:, :3]).channels == 3  # equally many of both: not ambiguous


def test_a_fitted_estimator_knows_its_channels(X: Floats) -> None:
    estimator = HadamRNNClassifier()
    read(list(X.transpose(0, 2, 1)), estimator=estimator)  # three steps of twelve channels

    assert read(X.transpose(0, 2, 1), reset=False, estimator=estimator).channels == 12
    with pytest.raises(ValueError, match=r"X has 3 channels, .* expecting 12 .*pass X\.transpose\(0, 2, 1\)"):
        read(X, reset=False, estimator=estimator)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X: [row[: 6 + i].T for i, row in enumerate(X[:3])], r"pass \[series\.T for series in X\]"),
        (lambda X: [X[0], X[1, :, :2], X[2, :5]], r"same number of channels, got \[2, 3\]\.$"),
        (lambda X: nested(X).assign(c1=[[0.0]] * 8), r"must have one length, got \[1, 12\] in row 0 of X"),
        (lambda X: nested(X).assign(c1=[1.0] * 8), "numeric|float|sequence"),
        (lambda X: stacked(X).iloc[:12], "1 sample"),
    ],
)
def test_frames_and_lists_that_fit_nothing_are_refused(change: Any, message: str, X: Floats) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        read(change(X))


@pytest.mark.parametrize("form", [nested, stacked, list, np.asarray])
def test_a_gap_is_refused_with_its_place(form: Any, X: Floats) -> None:
    X[5, 7, 2] = np.nan
    said = "contains NaN in sample 5, step 7, channel 2; 1 of its 288 values .* Fill the gaps"
    with pytest.raises(ValueError, match=said) as error:
        read(form(X))

    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", [1e101, -1e200])
def test_a_value_too_large_to_square_is_refused_with_its_place(value: float, X: Floats) -> None:
    X[1, 2, 0] = value
    with pytest.raises(
        ValueError, match=rf"contains {value:g} in sample 1, step 2, channel 0".replace("+", r"\+")
    ):
        read(X)


@pytest.mark.parametrize("wide", [True, False])
def test_columns_of_one_name_are_refused_in_words(wide: bool, X: Floats) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X[:, :, 0]) if wide else nested(X)
    frame.columns = ["a"] * len(frame.columns)
    try:
        series = read(frame)
    except ValueError as error:  # by scikit-learn, in some versions
        assert "unique" in str(error)
    else:
        np.testing.assert_array_equal(series.values, X[:, :, :1] if wide else X)


@pytest.mark.skipif(sys.platform != "linux", reason="ru_maxrss has other units elsewhere")
def test_a_fit_takes_at_most_ten_times_the_memory_of_its_data() -> None:
    done = subprocess.run([sys.executable, "-c", PEAK], capture_output=True, text=True, check=True)

    assert float(done.stdout) < 10


@pytest.mark.parametrize("kind", [np.float64, np.int64])
@pytest.mark.parametrize("offset", [0, 500, 1_000_000, 2_000_000_000])
def test_an_offset_of_the_series_does_not_matter(kind: Any, offset: int) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    waves = 10 * np.sin((0.3 + 0.3 * y[:, None]) * np.arange(30)) + rng.normal(size=(60, 30))
    X = waves.round().astype(kind)
    plain = HadamRNNClassifier(32, random_state=0).fit(X, y)
    moved = HadamRNNClassifier(32, random_state=0).fit(X + offset, y)

    np.testing.assert_allclose(moved.predict_proba(X + offset), plain.predict_proba(X), atol=1e-6)
    np.testing.assert_array_equal(moved.predict_integer(X + offset), plain.predict_integer(X))
