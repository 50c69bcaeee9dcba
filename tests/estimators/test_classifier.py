"""Labels, their weights and their scores; invalid ones are refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier

Y = np.arange(42) % 3


@pytest.fixture
def X() -> NDArray[np.float64]:
    return np.random.default_rng(0).normal(size=(42, 12, 2)) + Y[:, None, None]


def small(**parameters: Any) -> HadamRNNClassifier:
    return HadamRNNClassifier(16, random_state=0, **parameters)


@pytest.mark.parametrize("values", [["a", None, "b"], [1, "b", 2]])
def test_labels_that_cannot_be_compared_are_refused(X: Any, values: list[Any]) -> None:
    with pytest.raises(InputError, match=r"labels of one type, .* got"):
        small().fit(X, np.array(values, dtype=object)[Y])


def test_missing_labels_of_pandas_are_refused(X: Any) -> None:
    pandas = pytest.importorskip("pandas")
    labels = pandas.Series(np.array(["a", "b", "c"])[Y], dtype="string")
    labels[5] = pandas.NA
    with pytest.raises(ValueError, match=r"none may be missing|contains NaN"):
        small().fit(X, labels)


@pytest.mark.parametrize("count", [14, 420])
def test_a_class_of_weight_zero_is_as_if_its_samples_were_not_there(X: Any, count: int) -> None:
    """With fewer samples than features, and with more."""
    X, y = np.resize(X, (count * 3, 12, 2)), np.resize(Y, count * 3)
    found = small(class_weight={0: 0.0, 1: 1.0, 2: 1.0}).fit(X, y).predict_proba(X)

    assert np.isfinite(found).all()
    assert (found[:, 0] < found[:, 1:].max(1)).all()


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_class_weights_are_finite_and_never_negative(X: Any, weight: float) -> None:
    with pytest.raises(InputError, match="class_weight must"):
        small(class_weight={0: weight, 1: 5.0, 2: 5.0}).fit(X, Y)


def test_a_score_needs_a_label_for_each_series(X: Any) -> None:
    classifier = small().fit(X, Y)

    for labels in ([1], Y[:5]):
        with pytest.raises(ValueError, match="inconsistent numbers of samples"):
            classifier.score(X, labels)


def test_the_classes_of_a_stream_are_two_or_more_and_stay(X: Any) -> None:
    with pytest.raises(ValueError, match="greater than one; got 1 class"):
        small().partial_fit(X, np.zeros(42), classes=[0])
    with pytest.raises(ValueError, match="classes contains NaN"):
        small().partial_fit(X, Y, classes=[0, 1, 2, np.nan])
    classifier = small().partial_fit(X, Y, classes=[0, 1, 2])
    with pytest.raises(InputError, match=r"\[0 1 2\], got \[0 1 2 3\]"):
        classifier.partial_fit(X, Y, classes=[0, 1, 2, 3])

    assert classifier.partial_fit(X, Y, classes=[2, 1, 0]).classes_.tolist() == [0, 1, 2]
