"""The table of `docs/estimators.md`: the classifier beside others, on real series from sktime's package.

The sets have published training and test parts. All classifiers have default settings except for their size.
Start at `run_estimators`.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.linear_model import LogisticRegression, RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hadamrnn.errors import InputError, check_name
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.pages.document import Cell, Grid, grid_markdown

LOADERS = {
    "ACSF1": "load_acsf1",
    "ArrowHead": "load_arrow_head",
    "BasicMotions": "load_basic_motions",
    "GunPoint": "load_gunpoint",
    "ItalyPowerDemand": "load_italy_power_demand",
    "JapaneseVowels": "load_japanese_vowels",
    "OSULeaf": "load_osuleaf",
    "PLAID": "load_plaid",
}
HADAMRNN = "HadamRNN 256"
INTRODUCTION = """\
# The estimators on small sets of real series

`HadamRNNClassifier()` with default settings (256 units, 4-bit weights) beside a float32 GRU of 32 units,
trained by the same loop, sktime's MiniRocket with its ridge classifier, and logistic regression on the
values of a series, on the published training and test parts. Accuracies are means over {seeds} seeds,
with the worst and the best. Integer is the network of 12-bit states that C runs, on raw inputs. Bytes
are those of the weights: biases of 12 bits for HadamRNN, 32 bits for everything else; MiniRocket's
features are computed, not stored. Training is the mean CPU time of `fit`, on one thread. Majority is the
accuracy of always answering the most frequent class of the training part. MiniRocket and logistic
regression read shorter series with zeros at their end.

{verdict}
"""
ORIGIN = "Written by `hadamrnn bench estimators --out docs/estimators.md`; do not edit."

Series = list[NDArray[np.float64]]
Part = tuple[Series, NDArray[Any]]


@dataclass(frozen=True)
class EstimatorRow:
    """One classifier on one set, over all seeds; only HadamRNN has an integer form."""

    dataset: str
    network: str
    accuracy: float
    worst: float
    best: float
    integer: float | None
    majority: float
    bytes: int
    seconds: float
    samples: int


def run_estimators(sets: list[str], *, seeds: int = 5) -> tuple[list[EstimatorRow], list[str]]:
    """Return a row for each set and classifier, and what was left out with the reason."""
    left_out = []
    networks = dict(NETWORKS)
    if importlib.util.find_spec("numba") is None:
        del networks["MiniRocket"]
        left_out.append("MiniRocket: sktime's needs numba, pip install numba")
    rows = [measure_classifier(name, network, seeds) for name in sets for network in networks]
    return rows, left_out


def measure_classifier(dataset: str, network: str, seeds: int) -> EstimatorRow:
    """Fit one classifier with every seed, and test it."""
    (X, y), (X_test, y_test) = load_part(dataset, "train"), load_part(dataset, "test")
    scores, integer, times, size = [], [], [], 0
    for seed in range(seeds):
        classifier = NETWORKS[network](seed, max(map(len, [*X, *X_test])))
        began = time.process_time()
        classifier.fit(X, y)
        times.append(time.process_time() - began)
        scores.append(float(classifier.score(X_test, y_test)))
        size = _bytes(classifier)
        if network == HADAMRNN:
            integer.append(float(np.mean(classifier.predict_integer(X_test) == y_test)))
    labels, counts = np.unique(y, return_counts=True)
    return EstimatorRow(
        dataset=dataset,
        network=network,
        accuracy=fmean(scores),
        worst=min(scores),
        best=max(scores),
        integer=fmean(integer) if integer else None,
        majority=float(np.mean(y_test == labels[counts.argmax()])),
        bytes=size,
        seconds=fmean(times),
        samples=len(X),
    )


class FeatureClassifier:
    """A linear classifier on standardised features of padded series: their values, or a transform's output.

    Args:
        transform: with sktime's `fit_transform` and `transform` of arrays `(n, channels, time)`.
    """

    def __init__(self, length: int, linear: Any, transform: Any = None) -> None:
        self._length, self.linear, self._transform = length, linear, transform

    def fit(self, X: Series, y: NDArray[Any]) -> None:
        self._model = make_pipeline(StandardScaler(), self.linear).fit(self._features(X, "fit_transform"), y)

    def score(self, X: Series, y: NDArray[Any]) -> float:
        return float(self._model.score(self._features(X, "transform"), y))

    def _features(self, X: Series, step: str) -> NDArray[np.float64]:
        values = padded(X, self._length)
        if self._transform is None:
            return values.reshape(len(values), -1)
        return np.asarray(getattr(self._transform, step)(values.transpose(0, 2, 1)), np.float64)


def _minirocket(seed: int, length: int) -> FeatureClassifier:
    rocket = importlib.import_module("sktime.transformations.panel.rocket").MiniRocketMultivariate
    ridge = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10))
    return FeatureClassifier(length, ridge, rocket(random_state=seed, n_jobs=1))


# Each makes a classifier from a seed and the length of the longest series.
NETWORKS: dict[str, Callable[[int, int], Any]] = {
    HADAMRNN: lambda seed, length: HadamRNNClassifier(random_state=seed),
    "GRU 32": lambda seed, length: HadamRNNClassifier(model="gru", hidden_size=32, random_state=seed),
    "MiniRocket": _minirocket,
    "logistic regression": lambda seed, length: FeatureClassifier(
        length, LogisticRegression(max_iter=1000, random_state=seed)
    ),
}


def padded(series: Series, length: int) -> NDArray[np.float64]:
    """Return the series with zeros at their end, `(n, length, channels)`.

    >>> padded([np.ones((1, 1)), np.ones((2, 1))], 2)[:, :, 0].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return np.stack([np.pad(each, ((0, length - len(each)), (0, 0))) for each in series])


def _bytes(classifier: Any) -> int:
    if isinstance(classifier, HadamRNNClassifier):
        return int(classifier.cost_.bytes)
    return 4 * int(np.size(classifier.linear.coef_) + np.size(classifier.linear.intercept_))


def load_part(dataset: str, split: str) -> Part:
    """Return the series, `(time, channels)` each, and labels of the training or the test part of a set."""
    check_name("A set", dataset, LOADERS)
    if importlib.util.find_spec("sktime") is None:
        raise InputError(
            "These sets come with the package sktime. Install it: pip install 'hadamrnn[sktime]'"
        )
    loader = getattr(importlib.import_module("sktime.datasets"), LOADERS[dataset])
    frame, labels = loader(split=split, return_type="nested_univ")
    series = [np.stack([np.asarray(channel, np.float64) for channel in row], axis=1) for row in frame.values]
    return series, np.asarray(labels)


def estimators_page(rows: list[EstimatorRow], seeds: int, left_out: list[str]) -> str:
    """Return the Markdown of the page."""
    header = ("set", "classifier", "accuracy", "worst to best", "integer", "majority", "bytes", "training")
    grid = Grid(header, tuple(tuple(map(Cell, _texts(row))) for row in rows))
    findings = "\n".join([verdict(rows), *(f"\nLeft out: {line}." for line in left_out)])
    introduction = INTRODUCTION.format(seeds=seeds, verdict=findings)
    return "\n".join([introduction, grid_markdown(grid, numbers=6), "", ORIGIN, ""])


def verdict(rows: list[EstimatorRow]) -> str:
    """Return the sets on which HadamRNN is ahead of all others, those on which it is not, and the rest."""
    sets = list(dict.fromkeys(row.dataset for row in rows))
    best = {
        name: max((row for row in rows if row.dataset == name), key=lambda row: row.accuracy) for name in sets
    }
    ahead = [name for name in sets if best[name].network == HADAMRNN]
    behind = [f"{name} ({best[name].network} is)" for name in sets if name not in ahead]
    absent = [name for name in LOADERS if name not in sets]
    return " ".join(
        [
            f"Of the classifiers listed HadamRNN is the most accurate on {', '.join(ahead) or 'no set'}.",
            *([f"It is not on {', '.join(behind)}."] if behind else []),
            *([f"Not measured here: {', '.join(absent)}."] if absent else []),
        ]
    )


def _texts(row: EstimatorRow) -> tuple[str, ...]:
    return (
        f"{row.dataset} ({row.samples} series)",
        row.network,
        f"{row.accuracy:.1%}",
        f"{row.worst:.1%} to {row.best:.1%}",
        "-" if row.integer is None else f"{row.integer:.1%}",
        f"{row.majority:.1%}",
        f"{row.bytes:,}",
        f"{row.seconds:.1f} s",
    )
