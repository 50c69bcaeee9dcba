"""Folds keep neighbours together, and a temperature makes probabilities of scores."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import one_hot

from hadamrnn.estimators.goals import Labels


def test_folds_are_stretches_of_every_class() -> None:
    labels = torch.tensor([0, 1, 0, 1, 0, 1, 0, 0, 0])
    targets = 2.0 * one_hot(labels, 2).double() - 1.0
    weights = torch.ones(9, dtype=torch.float64)

    folds = Labels(targets, weights, weights).folds(3)
    assert folds[labels == 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert folds[labels == 1].tolist() == [0, 1, 2]


def test_temperatures_make_probabilities_of_scores() -> None:
    """Scores are drawn from softmax(3 a): the temperature found is 3."""
    generator = torch.Generator().manual_seed(0)
    answers = torch.randn(20_000, 4, generator=generator, dtype=torch.float64)
    codes = torch.multinomial(torch.softmax(3 * answers, 1), 1, generator=generator)[:, 0]
    targets = 2.0 * torch.nn.functional.one_hot(codes, 4).double() - 1
    ones = torch.ones(len(codes), dtype=torch.float64)

    assert Labels(targets, ones, ones).scale(answers) == pytest.approx(3.0, rel=0.03)
