"""The table of `docs/estimators.md`: the classifier beside a GRU, on four sets of real series.

The sets come inside sktime's wheel, with their published cut into training and test parts. Both networks
have default settings but for their size, and the same loop trains them. Start at `run_estimators`.
"""

from __future__ import annotations

import importlib
import importlib.util
import time
from dataclasses import dataclass
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.estimators import HadamRNNClassifier

LOADERS = {
    "BasicMotions": "load_basic_motions",
    "GunPoint": "load_gunpoint",
    "ItalyPowerDemand": "load_italy_power_demand",
    "JapaneseVowels": "load_japanese_vowels",
}
NETWORKS: dict[str, dict[str, Any]] = {
    "HadamRNN 256": {},
    "GRU 32": {"model": "gru", "hidden_size": 32},
}
INTRODUCTION = """\
# The estimators on small sets of real series

Written by `hadamrnn bench estimators --out docs/estimators.md`; do not edit. `HadamRNNClassifier()` with
default settings (256 units, 4-bit weights) beside a float32 GRU of 32 units, trained by the same loop, on the
published training and test parts. Accuracies are means over {seeds} seeds, with the worst and the best.
Integer is the network of 12-bit states that C runs, on raw inputs. Bytes are those of the weights: biases
of 12 bits for HadamRNN, all of 32 bits for the GRU. Training is the mean CPU time of `fit`, on one thread.
Majority is the accuracy of always answering the most frequent class of the training part.
"""

Part = tuple[list[NDArray[np.float64]], NDArray[Any]]


@dataclass(frozen=True)
class EstimatorRow:
    """One network on one set, over all seeds; a GRU has no integer form."""

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


def run_estimators(sets: list[str], *, seeds: int = 5) -> list[EstimatorRow]:
    """Return a row for each set and network."""
    return [measure(name, network, seeds) for name in sets for network in NETWORKS]


def measure(dataset: str, network: str, seeds: int) -> EstimatorRow:
    """Fit one network with every seed, and test it."""
    (X, y), (X_test, y_test) = load_part(dataset, "train"), load_part(dataset, "test")
    scores, integer, times, size = [], [], [], 0
    for seed in range(seeds):
        classifier = HadamRNNClassifier(**NETWORKS[network], random_state=seed)
        began = time.process_time()
        classifier.fit(X, y)
        times.append(time.process_time() - began)
        scores.append(classifier.score(X_test, y_test))
        size = classifier.cost_.bytes
        if classifier.calibration_ is not None:
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


def load_part(dataset: str, split: str) -> Part:
    """Return the series, `(time, channels)` each, and labels of the training or the test part of a set."""
    if dataset not in LOADERS:
        raise InputError(f"A set is one of {', '.join(LOADERS)}, got {dataset!r}.")
    if importlib.util.find_spec("sktime") is None:
        raise InputError(
            "These sets come with the package sktime. Install it: pip install 'hadamrnn[sktime]'"
        )
    loader = getattr(importlib.import_module("sktime.datasets"), LOADERS[dataset])
    frame, labels = loader(split=split, return_type="nested_univ")
    series = [np.stack([np.asarray(channel, np.float64) for channel in row], axis=1) for row in frame.values]
    return series, np.asarray(labels)


def estimators_page(rows: list[EstimatorRow], seeds: int) -> str:
    """Return the Markdown of the page."""
    lines = [INTRODUCTION.format(seeds=seeds)]
    lines += ["| set | network | accuracy | worst to best | integer | majority | bytes | training |"]
    lines += ["|---|---|---:|---:|---:|---:|---:|---:|"]
    return "\n".join([*lines, *map(_line, rows), ""])


def _line(row: EstimatorRow) -> str:
    cells = (
        f"{row.dataset} ({row.samples} series)",
        row.network,
        f"{row.accuracy:.1%}",
        f"{row.worst:.1%} to {row.best:.1%}",
        "-" if row.integer is None else f"{row.integer:.1%}",
        f"{row.majority:.1%}",
        f"{row.bytes:,}",
        f"{row.seconds:.1f} s",
    )
    return f"| {' | '.join(cells)} |"
