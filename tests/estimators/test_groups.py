"""`groups` of fit: selection leaves out whole people, and no person's samples are on both sides."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import sklearn
import torch
from sklearn.base import clone
from sklearn.model_selection import GroupKFold, cross_val_score

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier, HadamRNNRegressor, gradient
from hadamrnn.estimators.ridge import solve
from hadamrnn.estimators.target import ValueTarget


def people(count: int = 12, each: int = 12) -> tuple[Any, Any, Any]:
    """Series in which a person's level predicts their targets better than the rule common to all people."""
    rng = np.random.default_rng(0)
    person = np.repeat(np.arange(count), each)
    level = rng.normal(0, 3, (count, 16))[person]
    cause = rng.normal(size=count * each)
    X = level + cause[:, None] * np.linspace(0, 1, 16) + rng.normal(0, 0.05, (count * each, 16))
    return X, cause + rng.normal(0, 3, count)[person], person


def test_a_penalty_is_chosen_for_people_that_are_left_out() -> None:
    X, y, person = people()
    values = torch.from_numpy(y - y.mean())[:, None]
    ones = torch.ones(len(y), dtype=torch.float64)
    features = torch.from_numpy(X)
    alone = solve(features, ValueTarget(values, ones, torch.arange(len(y))))
    whole = solve(features, ValueTarget(values, ones, torch.arange(len(y)), torch.from_numpy(person)))

    assert whole.error > 2 * alone.error and whole.penalty > alone.penalty


def test_the_names_of_groups_do_not_matter() -> None:
    X, y, person = people()
    named = [f"p{number}" for number in person]
    for small in (HadamRNNClassifier(max_bytes=300, random_state=0), HadamRNNRegressor(32, random_state=0)):
        known = y > 0 if isinstance(small, HadamRNNClassifier) else y
        first, again = (clone(small).fit(X, known, groups=groups) for groups in (person, named))
        np.testing.assert_array_equal(first.predict(X), again.predict(X))


def test_early_stopping_holds_out_whole_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y, person = people()
    held: list[Any] = []
    original = gradient._rows

    def rows(samples: Any, index: Any) -> Any:
        held.append(index)
        return original(samples, index)

    monkeypatch.setattr(gradient, "_rows", rows)
    HadamRNNRegressor(16, max_steps=2, early_stopping=True, random_state=0).fit(X, y, groups=person)
    kept, out = held[0], held[1]

    assert len(out) and not set(person[kept]) & set(person[out])


@pytest.mark.parametrize("groups", [[0] * 144, [0, 1], np.zeros((144, 2))])
def test_groups_must_be_one_for_each_sample_and_two_at_least(groups: Any) -> None:
    X, y, _ = people()
    with pytest.raises((InputError, ValueError), match=r"groups must name|1d array"):
        HadamRNNRegressor(16).fit(X, y, groups=groups)


@pytest.mark.parametrize("kind", [HadamRNNClassifier, HadamRNNRegressor])
@pytest.mark.parametrize("wrong", ["weights", "copies"])
def test_groups_that_do_not_count_are_no_groups_to_leave_out(wrong: str, kind: Any) -> None:
    X, y, person = people()
    weights = np.ones(len(X))
    if wrong == "weights":
        weights[person != person[0]] = 0
    else:  # everybody has the same series
        X[[np.flatnonzero(person == each)[0] for each in np.unique(person)]] = 1.0
    labels = y > np.median(y) if kind is HadamRNNClassifier else y
    with pytest.raises(InputError, match="groups must name"):
        kind(random_state=0).fit(X, labels, sample_weight=weights, groups=person)


def test_scikit_learn_routes_groups_to_splitter_and_fit() -> None:
    X, y, person = people()
    seen: list[Any] = []

    class Watched(HadamRNNRegressor):
        def fit(self, X: Any, y: Any, sample_weight: Any = None, groups: Any = None) -> Watched:
            seen.append(groups)
            return super().fit(X, y, sample_weight, groups)

    with sklearn.config_context(enable_metadata_routing=True):
        regressor = Watched(32, random_state=0).set_fit_request(groups=True)
        scores = cross_val_score(regressor, X, y, cv=GroupKFold(3), params={"groups": person})

    assert len(scores) == 3 and all(len(set(groups)) == 8 for groups in seen)
