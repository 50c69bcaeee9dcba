"""What a closed-form fit aims at: labels or values, how left-out answers are judged, and their scale."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

SCALES = 1e-2, 1e3  # of the answers, that a temperature may give
NEWTON_STEPS = 20
LEAST_ERROR = 1e-6  # of labels; below it all is right and sure, and a larger penalty is as good


@dataclass(frozen=True, eq=False)
class Goal(ABC):
    """Targets `(n, outputs)`, weights `(n,)`, and the group of each sample, `(n,)`.

    Samples with the same input form a group; cross-validation leaves out a whole group, with all its weight.
    """

    targets: Tensor
    weights: Tensor
    groups: Tensor

    @abstractmethod
    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a network's outputs for each of the samples `index`."""

    @abstractmethod
    def error(self, answers: Tensor) -> float:
        """Return the error of answers to left-out samples, to be made small."""

    @abstractmethod
    def scale(self, answers: Tensor) -> float:
        """Return what answers are multiplied by, chosen by those to left-out samples."""

    @abstractmethod
    def describe(self, answers: Tensor) -> str:
        """Say how good answers to left-out samples are."""

    @abstractmethod
    def _stretches(self, count: int) -> Tensor:
        """Return the fold of each sample; neighbours fall into the same one."""

    def folds(self, count: int) -> Tensor:
        """Return the fold of each sample: stretches of neighbours, and no group in two folds.

        Neighbours are often windows of one recording, or of one person, and predict each other.
        """
        _, group = self.groups.unique(return_inverse=True)
        folds = self._stretches(count)
        return folds.scatter_reduce(0, group, folds, "amin", include_self=False)[group]

    def at(self, index: Tensor) -> Self:
        """Return the goal of some samples."""
        return replace(
            self, targets=self.targets[index], weights=self.weights[index], groups=self.groups[index]
        )

    @cached_property
    def weight(self) -> float:
        return float(self.weights.sum())

    def mean(self, values: Tensor) -> Tensor:
        """Return the mean over samples, each with its weight."""
        return self.weights @ values / self.weight

    def loss(self, outputs: Tensor, index: Tensor) -> Tensor:
        """Return the mean loss of a network's outputs for the samples `index`, each with its weight."""
        losses = self.losses(outputs, index)
        return ((self.weights[index] / self.weights.mean()).to(losses.dtype) * losses).mean()


class Values(Goal):
    """Standardised values: the mean squared error."""

    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        return (outputs - self.targets[index].to(outputs.dtype)).square().mean(1)

    def error(self, answers: Tensor) -> float:
        return float(self.mean((self.targets - answers).square().mean(1)))

    def scale(self, answers: Tensor) -> float:
        return 1.0

    def _stretches(self, count: int) -> Tensor:
        return _stretches(self.weights, count)

    def describe(self, answers: Tensor) -> str:
        spread = max(self.error(self.mean(self.targets)), 1e-300)
        return f"left-out R2 {1 - self.error(answers) / spread:.3f}"


class Labels(Goal):
    """One class each, targets 1 for it and -1 for the others.

    The error is cross-entropy at the best temperature times the squared error: the first sees which answers
    are right, the second still tells networks apart where all are. As in Platt's calibration a label counts
    as slightly uncertain, so a separable set has a finite temperature.
    """

    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        return cross_entropy(outputs, self.targets[index].argmax(1), reduction="none")

    def error(self, answers: Tensor) -> float:
        squared = float(self.mean((self.targets - answers).square().mean(1)))
        logs = torch.log_softmax(self.scale(answers) * answers, dim=1)
        return max(float(self.mean(-(self._wanted() * logs).sum(1))) * squared, LEAST_ERROR)

    def scale(self, answers: Tensor) -> float:
        """Return the scale with the least cross-entropy, which is convex in it: Newton's steps, bounded."""
        wanted, scale = self._wanted(), 1.0
        for _ in range(NEWTON_STEPS):
            chances = torch.softmax(scale * answers, dim=1)
            expected = (chances * answers).sum(1)
            slope = float(self.mean(expected - (wanted * answers).sum(1)))
            bend = float(self.mean((chances * answers.square()).sum(1) - expected.square()))
            before, scale = scale, min(max(scale - slope / max(bend, 1e-12), scale / 4), scale * 4)
            scale = min(max(scale, SCALES[0]), SCALES[1])
            if abs(scale / before - 1) < 1e-3:
                break
        return scale

    def _stretches(self, count: int) -> Tensor:
        """Return stretches of each class: samples may be sorted by class."""
        folds, labels = torch.zeros(len(self.targets), dtype=torch.int64), self.targets.argmax(1)
        for label in labels.unique():
            folds[labels == label] = _stretches(self.weights[labels == label], count)
        return folds

    def describe(self, answers: Tensor) -> str:
        right = answers.argmax(1) == self.targets.argmax(1)
        return f"left-out accuracy {self.mean(right.to(answers.dtype)):.1%}"

    def _wanted(self) -> Tensor:
        """Return the chance that a label is right, and what is left for the others."""
        doubt = 1 / (len(self.targets) + 2)
        return torch.where(self.targets > 0, 1 - doubt, doubt / (self.targets.shape[1] - 1))


def _stretches(weights: Tensor, count: int) -> Tensor:
    """Return which of `count` stretches of about the same weight each sample is in.

    >>> _stretches(torch.ones(7), 3).tolist()
    [0, 0, 1, 1, 1, 2, 2]
    """
    middles = weights.cumsum(0) - weights / 2
    return (count * middles / weights.sum()).long()
