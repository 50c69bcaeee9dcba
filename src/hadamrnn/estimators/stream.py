"""Data that come in parts: the first rows fix the network, all rows add up in the moments of the regression.

Start reading at `Stream.add`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.estimators.closed_form import set_readout
from hadamrnn.estimators.features import features_of
from hadamrnn.estimators.goals import Goal
from hadamrnn.estimators.ridge import Moments, solve
from hadamrnn.estimators.series import Floats, Scaling, Series
from hadamrnn.nn.model import SequenceModel

KEPT_SERIES = 2000  # that fix the network, and whose left-out answers choose penalty and temperature


@dataclass(frozen=True, eq=False)
class KnownSeries:
    """Some series, what is known of them, `(n,)` or `(n, targets)`, and their weights."""

    series: Series
    known: NDArray[Any]
    weights: Floats

    def __len__(self) -> int:
        return len(self.series)

    def at(self, index: NDArray[Any]) -> KnownSeries:
        return KnownSeries(self.series.at(index), self.known[index], self.weights[index])

    def __add__(self, other: KnownSeries) -> KnownSeries:
        return KnownSeries(
            _joined(self.series, other.series),
            np.concatenate([self.known, other.known]),
            np.concatenate([self.weights, other.weights]),
        )


@dataclass(eq=False)
class Stream:
    """What `partial_fit` keeps between calls: the seed, the first rows, and the moments of all rows.

    The network is fixed once there are too many rows to keep; then `features` are those of the kept.
    """

    seed: int
    kept: KnownSeries | None = None
    features: Tensor | None = None
    moments: Moments | None = None

    def add(self, part: KnownSeries) -> KnownSeries:
        """Keep the first rows of the stream, and return those that are too many."""
        kept = part if self.kept is None else self.kept + part
        self.kept = kept.at(np.arange(min(KEPT_SERIES, len(kept))))
        return kept.at(np.arange(len(self.kept), len(kept)))


def refit(
    model: SequenceModel, scaling: Scaling, stream: Stream, kept: Goal, part: KnownSeries, goal: Goal
) -> float:
    """Add the rows of a part to the moments, set the read-out anew and return its penalty.

    Args:
        kept: the goal of the rows that the stream keeps.
        goal: that of the part.
    """
    assert stream.kept is not None
    if stream.features is None:
        stream.features = features_of(model, scaling.split(stream.kept.series, np.float64))
    first = kept.rows(stream.features)
    more = Moments.of(goal.rows(features_of(model, scaling.split(part.series, np.float64))))
    stream.moments = (Moments.of(first) if stream.moments is None else stream.moments) + more
    solution = solve(first, kept.error, moments=stream.moments)
    set_readout(model, solution, kept, stream.moments)
    return solution.penalty


def _joined(first: Series, second: Series) -> Series:
    """Return series one after the other, the shorter ones with zeros at their end."""
    steps = max(first.values.shape[1], second.values.shape[1])
    values = [
        np.pad(each.values, ((0, 0), (0, steps - each.values.shape[1]), (0, 0))) for each in (first, second)
    ]
    lengths = np.concatenate([first.steps_each(), second.steps_each()])
    return Series(np.concatenate(values), None if (lengths == steps).all() else lengths)
