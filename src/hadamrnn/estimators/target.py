"""Describe the target of a fit: labels or values of weighted samples, their errors and folds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Self

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

SCALES = 1e-2, 1e3  # range of temperatures for the predictions
NEWTON_STEPS = 20
LEAST_ERROR = 1e-6  # on labels: below this every prediction is correct, and a larger penalty is as good


@dataclass(frozen=True, eq=False)
class Target(ABC):
    """The target values `(n, outputs)` of a fit, with weights and groups of the samples, `(n,)`.

    Samples with the same input form a group, and cross-validation leaves out whole groups. `owners` `(n,)` is
    the source of each sample, if the caller names it; folds then consist of whole owners.
    """

    values: Tensor
    weights: Tensor
    groups: Tensor
    owners: Tensor | None = None

    @abstractmethod
    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        """Return the loss of a network's outputs for each sample in `index`."""

    @abstractmethod
    def error(self, predictions: Tensor) -> float:
        """Return the error of held-out predictions."""

    @abstractmethod
    def scale(self, predictions: Tensor) -> float:
        """Return the factor that minimises the loss of held-out predictions."""

    @abstractmethod
    def describe(self, predictions: Tensor) -> str:
        """Describe the quality of held-out predictions in words."""

    @abstractmethod
    def _stretches(self, count: int) -> Tensor:
        """Return the fold of each sample; neighbours are in the same fold."""

    def folds(self, count: int) -> Tensor:
        """Return the fold of each sample: by owners if known, else by stretches; no group is in two folds.

        Neighbours are often windows of one recording or person, and predict each other.
        """
        if self.owners is not None:
            return _dealt(self.owners, self.weights, count)
        _, group = self.groups.unique(return_inverse=True)
        folds = self._stretches(count)
        return folds.scatter_reduce(0, group, folds, "amin", include_self=False)[group]

    def at(self, index: Tensor) -> Self:
        """Return the target of some samples."""
        return replace(
            self,
            values=self.values[index],
            weights=self.weights[index],
            groups=self.groups[index],
            owners=None if self.owners is None else self.owners[index],
        )

    @cached_property
    def weight(self) -> float:
        return float(self.weights.sum())

    def mean(self, values: Tensor) -> Tensor:
        """Return the weighted mean over samples."""
        return self.weights @ values / self.weight

    def loss(self, outputs: Tensor, index: Tensor) -> Tensor:
        """Return the weighted mean loss of a network's outputs for the samples in `index`."""
        losses = self.losses(outputs, index)
        return ((self.weights[index] / self.weights.mean()).to(losses.dtype) * losses).mean()


class ValueTarget(Target):
    """A regression target: standardised values and the mean squared error."""

    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        return (outputs - self.values[index].to(outputs.dtype)).square().mean(1)

    def error(self, predictions: Tensor) -> float:
        return float(self.mean((self.values - predictions).square().mean(1)))

    def scale(self, predictions: Tensor) -> float:
        return 1.0

    def _stretches(self, count: int) -> Tensor:
        return _stretches(self.weights, count)

    def describe(self, predictions: Tensor) -> str:
        spread = max(self.error(self.mean(self.values)), 1e-300)
        return f"leave-one-out R2 {1 - self.error(predictions) / spread:.3f}"


class LabelTarget(Target):
    """A classification target: 1 for the class of a sample and -1 for the others.

    The error is the cross-entropy at the best temperature times the squared error. The first measures which
    predictions are correct; the second still ranks networks if all are. As in Platt's calibration, a label is
    treated as slightly uncertain, so that a separable set has a finite temperature.
    """

    def losses(self, outputs: Tensor, index: Tensor) -> Tensor:
        return cross_entropy(outputs, self.values[index].argmax(1), reduction="none")

    def error(self, predictions: Tensor) -> float:
        squared = float(self.mean((self.values - predictions).square().mean(1)))
        logs = torch.log_softmax(self.scale(predictions) * predictions, dim=1)
        return max(float(self.mean(-(self._smoothed() * logs).sum(1))) * squared, LEAST_ERROR)

    def scale(self, predictions: Tensor) -> float:
        """Return the scale with the least cross-entropy, which is convex in it, by bounded Newton steps."""
        smoothed, scale = self._smoothed(), 1.0
        for _ in range(NEWTON_STEPS):
            probabilities = torch.softmax(scale * predictions, dim=1)
            expected = (probabilities * predictions).sum(1)
            slope = float(self.mean(expected - (smoothed * predictions).sum(1)))
            curvature = float(self.mean((probabilities * predictions.square()).sum(1) - expected.square()))
            before, scale = scale, min(max(scale - slope / max(curvature, 1e-12), scale / 4), scale * 4)
            scale = min(max(scale, SCALES[0]), SCALES[1])
            if abs(scale / before - 1) < 1e-3:
                break
        return scale

    def _stretches(self, count: int) -> Tensor:
        """Return stretches within each class, because samples may be sorted by class."""
        folds, labels = torch.zeros(len(self.values), dtype=torch.int64), self.values.argmax(1)
        for label in labels.unique():
            folds[labels == label] = _stretches(self.weights[labels == label], count)
        return folds

    def describe(self, predictions: Tensor) -> str:
        right = predictions.argmax(1) == self.values.argmax(1)
        return f"leave-one-out accuracy {self.mean(right.to(predictions.dtype)):.1%}"

    def _smoothed(self) -> Tensor:
        """Return label probabilities, slightly below 1 for the label itself."""
        doubt = 1 / (len(self.values) + 2)
        return torch.where(self.values > 0, 1 - doubt, doubt / (self.values.shape[1] - 1))


def _stretches(weights: Tensor, count: int) -> Tensor:
    """Divide samples into `count` stretches of about equal weight; return each sample's stretch.

    >>> _stretches(torch.ones(7), 3).tolist()
    [0, 0, 1, 1, 1, 2, 2]
    """
    middles = weights.cumsum(0) - weights / 2
    return (count * middles / weights.sum()).long()


def _dealt(owners: Tensor, weights: Tensor, count: int) -> Tensor:
    """Return the fold of each sample, assigning whole owners, heaviest first, to the lightest fold.

    >>> _dealt(torch.tensor([0, 0, 1, 2, 2, 2]), torch.ones(6), 2).tolist()
    [1, 1, 1, 0, 0, 0]
    """
    _, owner = owners.unique(return_inverse=True)
    totals = torch.zeros(int(owner.max()) + 1, dtype=weights.dtype).index_add_(0, owner, weights)
    folds, sums = torch.zeros_like(totals, dtype=torch.int64), totals.new_zeros(count)
    for each in totals.argsort(descending=True, stable=True).tolist():
        folds[each] = sums.argmin()
        sums[folds[each]] += totals[each]
    return folds[owner]


def spread_out(weights: Tensor, most: int) -> Tensor:
    """Return at most this many indices, evenly spaced over the total weight.

    >>> spread_out(torch.tensor([1.0, 1.0, 4.0, 1.0, 1.0]), 4).tolist()
    [0, 2, 3]
    """
    if len(weights) <= most:
        return torch.arange(len(weights))
    ends = weights.cumsum(0)
    places = (torch.arange(most, dtype=ends.dtype) + 0.5) / most * ends[-1]
    index: Tensor = torch.unique(torch.searchsorted(ends, places))
    return index
