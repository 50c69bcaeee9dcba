"""Write the table of `docs/estimators.md`: the classifier compared with others on real series.

The sets come with sktime; they and UCI HAR have published training and test parts.
Start at `run_estimators`.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.linear_model import LogisticRegression, RidgeClassifier, RidgeClassifierCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from hadamrnn.data.har import read_har
from hadamrnn.data.scaling import standardise
from hadamrnn.data.splits import Split, Splits
from hadamrnn.errors import InputError, check_name, short
from hadamrnn.estimators import HadamRNNClassifier
from hadamrnn.files import parse_json, read_regular, write_atomically
from hadamrnn.network import architecture
from hadamrnn.nn.model import SequenceModel
from hadamrnn.settings import from_json
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import predict_logits
from hadamrnn.training.loop import fit
from hadamrnn.training.models import RandomGenerator
from hadamrnn_benchmarks.markdown import markdown_table

HAR = "UCI HAR"
SETS = (
    *("ACSF1", "ArrowHead", "BasicMotions", "GunPoint", "ItalyPowerDemand", "JapaneseVowels"),
    *("OSULeaf", "PLAID", HAR),
)
HADAMRNN, LARGER, RIDGE, ROCKET = "HadamRNN", "HadamRNN 16 kB", 'solver="ridge"', "MiniRocket"
PENALTY_ROWS = 1000  # most rows for the leave-one-out errors of MiniRocket's ridge
ONCE = ("GRU 32", "logistic regression")  # the first takes minutes, the second is deterministic
TITLE = "# The estimators on real series"
INTRODUCTION = """\
{title}

This page compares, on published training and test parts (UCI HAR's test people are not in its training
part):

- `HadamRNNClassifier()`: a reservoir that counts, at most 4 kB for up to ten classes;
- the same with `solver="ridge"`: random recurrent networks of the kind that `hadamrnn train` trains;
- sktime's MiniRocket with its ridge classifier, whose penalty has the least leave-one-out error (for UCI
  HAR over 1000 series);
- a float32 GRU of 32 units, trained with the package's loop;
- logistic regression on the values of a series.

Accuracies are means over {seeds} seeds, with the worst and the best; the GRU, which takes minutes, and
logistic regression have one seed. *Integer* is the accuracy of the network of 16-bit states that C runs,
on raw inputs. *Majority* always answers the most frequent class of the training part. *Bytes* are those
of the weights: biases and thresholds have 16 bits in HadamRNN, everything in the others has 32 bits, and
MiniRocket's features are not stored. *Training* is the mean CPU time of `fit` on one thread. MiniRocket
and logistic regression read shorter series padded with zeros.

A fit uses only its training part. The candidates that it selects from were compared on splits of the
training parts, but with the test figures in view: expect somewhat less on other data.

{verdict}
"""
ORIGIN = "Written by `hadamrnn bench estimators --out docs/estimators.md`; do not edit."

Series = list[NDArray[np.float64]]
Part = tuple[Series, NDArray[Any]]


@dataclass(frozen=True)
class EstimatorRow:
    """The figures of one classifier on one set over some seeds; only HadamRNN has an integer form."""

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
    seeds: int


def run_estimators(
    sets: list[str], *, classifiers: Sequence[str] = (), seeds: int = 5, keep: Path | None = None
) -> tuple[list[EstimatorRow], list[str]]:
    """Return a row for each set and classifier, and what was skipped with the reasons.

    Args:
        classifiers: some of `NETWORKS`; all by default.
        keep: a file of rows, which are not measured again; new rows are appended at once.
    """
    left_out = []
    for name in classifiers:
        check_name("A classifier", name, NETWORKS)
    for name in sets:
        check_name("A set", name, SETS)
    networks = [name for name in NETWORKS if not classifiers or name in classifiers]
    if ROCKET in networks and importlib.util.find_spec("numba") is None:
        networks.remove(ROCKET)
        left_out.append("MiniRocket: sktime's needs numba, pip install numba")
    kept = read_rows(keep) if keep is not None and keep.exists() else []
    rows = []
    for name in sets:
        for network in networks:
            wanted = 1 if network in ONCE else seeds
            same = [row for row in kept if (row.dataset, row.network, row.seeds) == (name, network, wanted)]
            rows.append(same[0] if same else measure_classifier(name, network, wanted))
            if keep is not None and not same:
                kept.append(rows[-1])
                write_atomically(keep, json.dumps([asdict(row) for row in kept], indent=1).encode())
    return rows, left_out


def read_rows(path: Path) -> list[EstimatorRow]:
    """Return the rows that a run with `keep` has written."""
    rows = parse_json(read_regular(path), path)
    if not isinstance(rows, list):
        raise InputError(f"{path} must hold rows of this benchmark, got {short(rows)}. Name another file.")
    return [from_json(EstimatorRow, row, path) for row in rows]


def measure_classifier(dataset: str, network: str, seeds: int) -> EstimatorRow:
    """Fit one classifier with every seed, and test it."""
    (X, y), (X_test, y_test) = load_part(dataset, "train"), load_part(dataset, "test")
    length = max(map(len, [*X, *X_test]))
    if network == ROCKET:  # warm-up: numba compiles on the first call
        NETWORKS[network](0, length).fit(*(part[::-1][:: max(1, len(part) // 20)] for part in (X, y)))
    scores, integer, times, size = [], [], [], 0
    for seed in range(seeds):
        classifier = NETWORKS[network](seed, length)
        began = time.process_time()
        classifier.fit(X, y)
        times.append(time.process_time() - began)
        scores.append(float(classifier.score(X_test, y_test)))
        size = max(size, _bytes(classifier))
        if network in (HADAMRNN, LARGER, RIDGE):
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
        seeds=seeds,
    )


class SampledRidge(ClassifierMixin, BaseEstimator):
    """The ridge classifier of MiniRocket's authors; with many rows, the penalty is selected on a sample.

    Leave-one-out errors on all of UCI HAR would need an eigendecomposition with 7352 rows.
    """

    def fit(self, X: NDArray[np.float64], y: NDArray[Any]) -> SampledRidge:
        every = -(-len(X) // PENALTY_ROWS)
        found = RidgeClassifierCV(alphas=np.logspace(-3, 3, 10)).fit(X[::every], y[::every])
        if every > 1:
            found = RidgeClassifier(alpha=every * found.alpha_).fit(X.astype(np.float32), y)
        self._found = found
        self.coef_, self.intercept_, self.classes_ = found.coef_, found.intercept_, found.classes_
        return self

    def predict(self, X: NDArray[np.float64]) -> NDArray[Any]:
        answers: NDArray[Any] = self._found.predict(X)
        return answers


class FeatureClassifier:
    """A linear classifier on standardised features of padded series: raw values, or a transform's output.

    Args:
        transform: an object with sktime's `fit_transform` and `transform` for arrays `(n, channels, time)`.
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
    return FeatureClassifier(length, SampledRidge(), rocket(random_state=seed, n_jobs=1))


class GRUClassifier(ClassifierMixin, BaseEstimator):
    """A float32 GRU, trained by the library's loop with the recipe of `HadamRNNClassifier`."""

    def __init__(self, units: int, seed: int) -> None:
        self.units = units
        self.seed = seed

    def fit(self, X: Series, y: NDArray[Any]) -> GRUClassifier:
        self.classes_, labels = np.unique(y, return_inverse=True)
        x, lengths = self._values(X)
        self._offset, self._scale, _ = standardise(x, lengths)
        part = Split((x - self._offset) / self._scale, torch.from_numpy(labels), lengths)
        none = Split(part.x[:0], torch.zeros(0, dtype=torch.int64), lengths[:0])
        splits = Splits("series", part, none, none, x.shape[1], x.shape[2], len(self.classes_))
        network = architecture("gru")(x.shape[2], self.units, len(self.classes_))
        config = TrainingConfig(
            task="series",
            steps=min(max(300, 30 * len(x) // 32), 10_000),
            evaluate_every=max(20, len(x) // 32),
            batch_size=32,
            learning_rate=1e-2,
            gradient_clip=1.0,
            sign_freeze_epoch=0,
            input_noise=0.2,
            seed=self.seed,
        )
        with RandomGenerator(self.seed):
            model = SequenceModel(network)
        self.network = fit(model, splits, config).model
        return self

    def predict(self, X: Series) -> NDArray[Any]:
        x, lengths = self._values(X)
        logits = predict_logits(self.network, Split((x - self._offset) / self._scale, None, lengths))
        answers: NDArray[Any] = self.classes_[logits.argmax(1).numpy()]
        return answers

    @staticmethod
    def _values(X: Series) -> tuple[Tensor, Tensor]:
        lengths = [len(each) for each in X]
        return torch.from_numpy(padded(X, max(lengths))).float(), torch.tensor(lengths)


# Each entry makes a classifier from a seed and the length of the longest series.
NETWORKS: dict[str, Callable[[int, int], Any]] = {
    HADAMRNN: lambda seed, length: HadamRNNClassifier(random_state=seed),
    LARGER: lambda seed, length: HadamRNNClassifier(max_bytes=1 << 14, random_state=seed),
    RIDGE: lambda seed, length: HadamRNNClassifier(solver="ridge", random_state=seed),
    "GRU 32": lambda seed, length: GRUClassifier(32, seed),
    "MiniRocket": _minirocket,
    "logistic regression": lambda seed, length: FeatureClassifier(
        length, LogisticRegression(max_iter=1000, random_state=seed)
    ),
}


def padded(series: Series, length: int) -> NDArray[np.float64]:
    """Pad the series with zeros at the end, `(n, length, channels)`.

    >>> padded([np.ones((1, 1)), np.ones((2, 1))], 2)[:, :, 0].tolist()
    [[1.0, 0.0], [1.0, 1.0]]
    """
    return np.stack([np.pad(each, ((0, length - len(each)), (0, 0))) for each in series])


def _bytes(classifier: Any) -> int:
    if isinstance(classifier, HadamRNNClassifier):
        return int(classifier.cost_.bytes)
    if isinstance(classifier, GRUClassifier):
        return 4 * sum(weights.numel() for weights in classifier.network.parameters())
    return 4 * int(np.size(classifier.linear.coef_) + np.size(classifier.linear.intercept_))


def load_part(dataset: str, split: str) -> Part:
    """Return the series, each `(time, channels)`, and labels of a set's training or test part."""
    if dataset == HAR:
        windows = read_har()[split == "test"]
        return list(windows.x.astype(np.float64)), windows.activity
    if importlib.util.find_spec("sktime") is None:
        raise InputError(
            "These sets come with the package sktime. Install it: pip install 'hadamrnn[sktime]'"
        )
    load = importlib.import_module("sktime.datasets").load_UCR_UEA_dataset
    frame, labels = load(dataset, split=split, return_type="nested_univ")
    series = [np.stack([np.asarray(channel, np.float64) for channel in row], axis=1) for row in frame.values]
    return series, np.asarray(labels)


def estimators_page(rows: list[EstimatorRow], seeds: int, left_out: list[str]) -> str:
    """Return the Markdown of the page."""
    header = ("set", "classifier", "accuracy", "worst to best", "integer", "majority", "bytes", "training")
    table = markdown_table(header, map(_texts, rows), numbers=6)
    findings = "\n".join([verdict(rows), *(f"\nLeft out: {line}." for line in left_out)])
    introduction = INTRODUCTION.format(title=TITLE, seeds=seeds, verdict=findings)
    return "\n".join([introduction, table, "", ORIGIN, ""])


def verdict(rows: list[EstimatorRow]) -> str:
    """Say on which sets HadamRNN leads, on which others do, and what more bytes gain."""
    found = {(row.dataset, row.network): row.accuracy for row in rows}
    sets = [row.dataset for row in rows if row.network == HADAMRNN]
    others = list(dict.fromkeys(row.network for row in rows if row.network not in (HADAMRNN, LARGER)))
    ahead = [
        name for name in sets if all(found[name, HADAMRNN] >= found.get((name, each), 0) for each in others)
    ]
    lines = [f"Of the classifiers listed HadamRNN is the most accurate on {', '.join(ahead) or 'no set'}."]
    for other in others:
        gaps = {name: found.get((name, other), 0) - found[name, HADAMRNN] for name in sets}
        behind = [f"{name} ({100 * gap:.1f} points)" for name, gap in gaps.items() if gap > 0]
        if behind:
            lines.append(f"{other} is ahead of it on {', '.join(behind)}.")
    more = {name: found[name, LARGER] - found[name, HADAMRNN] for name in sets if (name, LARGER) in found}
    if more:
        changes = ", ".join(f"{name} {100 * gain:+.1f}" for name, gain in more.items())
        lines.append(f"With 16 kB in place of the default the accuracy changes by, in points: {changes}.")
    absent = [name for name in (*SETS, *NETWORKS) if name not in sets and name not in (*others, HADAMRNN)]
    absent = [name for name in absent if name != LARGER or not more]
    if absent:
        lines.append(f"Not measured here: {', '.join(absent)}.")
    return "\n".join(lines)


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
