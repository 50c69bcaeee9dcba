"""Folds keep neighbours together, and a temperature turns scores into probabilities."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import one_hot

from hadamrnn.estimators.target import LabelTarget, ValueTarget


def test_folds_are_stretches_of_every_class() -> None:
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 0, 0])
    targets = 2.0 * one_hot(labels, 2).double() - 1.0
    weights = torch.ones(9, dtype=torch.float64)

    folds = LabelTarget(targets, weights, torch.arange(9)).folds(3)
    assert folds[labels == 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert folds[labels == 1].tolist() == [0, 1, 2]


def test_equal_samples_fall_into_one_fold() -> None:
    groups = torch.tensor([5, 7, 2, 5, 3, 2, 1, 3, 5])
    ones = torch.ones(9, dtype=torch.float64)
    folds = ValueTarget(ones[:, None], ones, groups).folds(3)

    assert folds.unique().tolist() == [0, 1, 2]
    assert all(len(folds[groups == group].unique()) == 1 for group in groups)


def test_temperatures_make_probabilities_of_scores() -> None:
    """Labels are drawn from softmax(3 a): the fitted factor is 3."""
    generator = torch.Generator().manual_seed(0)
    answers = torch.randn(20_000, 4, generator=generator, dtype=torch.float64)
    codes = torch.multinomial(torch.softmax(3 * answers, 1), 1, generator=generator)[:, 0]
    targets = 2.0 * torch.nn.functional.one_hot(codes, 4).double() - 1
    ones = torch.ones(len(codes), dtype=torch.float64)

    assert LabelTarget(targets, ones, torch.arange(len(codes))).scale(answers) == pytest.approx(3.0, rel=0.03)


def test_of_equally_ranked_scores_those_nearer_the_targets_have_the_smaller_error() -> None:
    """The cross-entropy at the best temperature does not depend on the scale; the squared error does."""
    generator = torch.Generator().manual_seed(0)
    targets = 2.0 * one_hot(torch.arange(300) % 3, 3).double() - 1
    scores = targets + torch.randn(300, 3, generator=generator, dtype=torch.float64)
    target = LabelTarget(targets, torch.ones(300, dtype=torch.float64), torch.arange(300))
    errors = [target.error(scale * scores) for scale in (0.5, 0.25, 0.125)]

    assert errors == sorted(errors)
    assert target.error(-0.5 * scores) > errors[-1]


def test_owners_fall_into_one_fold_each_and_folds_are_as_heavy() -> None:
    owners = torch.tensor([3, 3, 1, 1, 1, 1, 0, 0, 2])
    ones = torch.ones(9, dtype=torch.float64)
    target = ValueTarget(ones[:, None], ones, torch.arange(9), owners)
    folds = target.folds(2)

    assert all(len(folds[owners == owner].unique()) == 1 for owner in owners)
    assert folds.bincount().tolist() == [4, 5] or folds.bincount().tolist() == [5, 4]
    assert target.at(torch.tensor([8, 2])).folds(5).unique().tolist() == [0, 1]
