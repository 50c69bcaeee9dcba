"""Write the table of `docs/regression.md`: the regressor and a ridge regression on simple features.

Training and test parts follow each other in time or have different machines; a published test part is used if
there is one. Only training parts are used for fitting. Start at `run_regression`.
"""

from __future__ import annotations

import importlib
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.metrics import r2_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hadamrnn.data.ett import read_ett
from hadamrnn.estimators import HadamRNNRegressor
from hadamrnn_benchmarks.markdown import markdown_table

TITLE = "# Regression, measured"
ORIGIN = "Written by `hadamrnn bench regression --out docs/regression.md`; do not edit."
INTRODUCTION = """\
{title}

R2 on test data of `HadamRNNRegressor()` with default parameters, and of a ridge regression on three
features per channel: the mean of the window, its last value and its trend. Figures are means over {seeds}
seeds, with the worst and the best; integers are those of the exported C. A fit sees its training
part alone.

- ETTh1, ETTh2: hourly loads of transformers. Four days predict the oil temperature a day later. The first
  year is for training and months 17 to 20 for testing: another season, at temperatures that are rare in
  training.
- Covid3Month, Tecator: from sktime's package, with their test parts. diabetes: from scikit-learn.
- engines: synthetic, modelled on NASA's turbofans. 30 cycles of 14 sensors predict the remaining cycles.
  A quarter of the engines are for testing, and `groups` names the engine.

{verdict}

A fit compares random networks with linear ones by cross-validation: integrators of each channel, and leaking
blocks whose last state is read. It takes a linear one unless the error of another is smaller by a twentieth:
targets that follow level and trend of the sensors ask for answers beyond the range of training, where
thresholds say nothing. Which integrators there are was decided with these figures in view.
"""
PENALTIES = tuple(10.0 ** (k / 2) for k in range(-6, 9))
LOOKBACK, AHEAD = 96, 24  # length of a window and forecast horizon for ETT, in hours
Floats = NDArray[np.float64]


class RegressionSet(NamedTuple):
    """Series `(n, time, channels)` and targets of a training and a test part; `groups` is for training."""

    x: Floats
    y: Floats
    test_x: Floats
    test_y: Floats
    groups: NDArray[Any] | None = None


@dataclass(frozen=True)
class RegressionRow:
    """R2 on one set's test part (mean, worst and best over seeds) and bytes of the integer network."""

    data: str
    series: int
    steps: int
    channels: int
    ridge: float
    r2: float
    worst: float
    best: float
    integer: float
    bytes: int


def read_hours(task: str, data_dir: str | Path | None) -> RegressionSet:
    """Return four-day windows and the oil temperature a day later, from ETT's training and test months."""
    values = read_ett(task, data_dir).astype(np.float64)
    month = 30 * 24

    def part(first: int, last: int, hop: int) -> tuple[Floats, Floats]:
        ends = np.arange(first + LOOKBACK, last - AHEAD, hop)
        return np.stack([values[end - LOOKBACK : end] for end in ends]), values[ends + AHEAD - 1, -1]

    return RegressionSet(*part(0, 12 * month, 6), *part(16 * month, 20 * month, 6))


def read_bundled(name: str) -> RegressionSet:
    """Return a set bundled with sktime, with its published test part."""
    load = getattr(importlib.import_module("sktime.datasets"), f"load_{name}")
    arrays = []
    for split in ("train", "test"):
        X, y = load(split=split, return_X_y=True)
        arrays += [np.stack([np.asarray(row) for row in X.iloc[:, 0]])[..., None], np.asarray(y, np.float64)]
    return RegressionSet(*arrays)


def read_diabetes() -> RegressionSet:
    """Return scikit-learn's diabetes set: each patient's ten numbers as a series, a third for testing."""
    X, y = load_diabetes(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    x, values, third = X[order][..., None], y[order], len(y) // 3
    return RegressionSet(x[third:], values[third:], x[:third], values[:third])


def draw_engines(seed: int = 0) -> RegressionSet:
    """Simulate engine wear: windows of 30 cycles from 14 sensors, and the remaining cycles, at most 125."""
    rng = np.random.default_rng(seed)
    gain, noise = rng.normal(size=14), rng.uniform(0.3, 1.5, 14)
    parts: tuple[list[Any], list[Any]] = ([], [])
    for engine in range(100):
        life, start, speed = rng.integers(130, 330), rng.uniform(0, 0.3), rng.uniform(2, 6)
        age = np.arange(life) / life
        wear = start + (np.exp(speed * age) - 1) / (np.exp(speed) - 1)
        values = wear[:, None] * gain * 3 + rng.normal(0, noise, (life, 14)) + rng.normal(0, 0.5, 14)
        ends = np.arange(30, life + 1, 10)
        left = np.minimum(life - ends, 125.0)
        parts[engine % 4 == 0].append((np.stack([values[end - 30 : end] for end in ends]), left, engine))
    (x, y), (test_x, test_y) = (
        [np.concatenate(each) for each in list(zip(*part, strict=True))[:2]] for part in parts
    )
    groups = np.concatenate([np.full(len(left), engine) for _, left, engine in parts[0]])
    return RegressionSet(x, y, test_x, test_y, groups)


SETS: dict[str, Callable[[str | Path | None], RegressionSet]] = {
    "ETTh1, a day ahead": lambda place: read_hours("etth1", place),
    "ETTh2, a day ahead": lambda place: read_hours("etth2", place),
    "Covid3Month": lambda _: read_bundled("covid_3month"),
    "Tecator": lambda _: read_bundled("tecator"),
    "diabetes": lambda _: read_diabetes(),
    "engines (drawn)": lambda _: draw_engines(),
}


def simple_features(x: Floats) -> Floats:
    """Return mean, last value and trend (the slope over time) of every channel."""
    time = np.arange(x.shape[1]) - (x.shape[1] - 1) / 2
    trend = np.einsum("t,ntc->nc", time, x) / (time @ time or 1.0)
    return np.concatenate([x.mean(1), x[:, -1], trend], 1)


def run_regression(data_dir: str | Path | None = None, *, seeds: int = 2) -> list[RegressionRow]:
    """Measure each set."""
    return [measure(name, read(data_dir), seeds) for name, read in SETS.items()]


def measure(name: str, data: RegressionSet, seeds: int) -> RegressionRow:
    """Return the figures of one set."""
    ridge = make_pipeline(StandardScaler(), RidgeCV(PENALTIES))
    ridge.fit(simple_features(data.x), data.y)
    floats, integers, sizes = [], [], []
    for seed in range(seeds):
        regressor = HadamRNNRegressor(random_state=seed).fit(data.x, data.y, groups=data.groups)
        floats.append(r2_score(data.test_y, regressor.predict(data.test_x)))
        integers.append(r2_score(data.test_y, regressor.predict_integer(data.test_x)))
        sizes.append(regressor.cost_.bytes)
    series, steps, channels = data.x.shape
    return RegressionRow(
        name,
        series=series,
        steps=steps,
        channels=channels,
        ridge=float(r2_score(data.test_y, ridge.predict(simple_features(data.test_x)))),
        r2=fmean(floats),
        worst=min(floats),
        best=max(floats),
        integer=fmean(integers),
        bytes=max(sizes),
    )


def regression_page(rows: list[RegressionRow], seeds: int) -> str:
    """Return the Markdown of the page."""
    behind = [f"{row.data} ({row.r2:.2f} to {row.ridge:.2f})" for row in rows if row.r2 < row.ridge]
    ahead = len(rows) - len(behind)
    verdict = f"It is ahead of the ridge regression on {ahead} of {len(rows)} sets"
    verdict += f", and behind it on {', '.join(behind)}." if behind else "."
    header = ("set", "series", "ridge", "HadamRNNRegressor", "worst to best", "integers", "bytes")
    lines = [
        (
            row.data,
            f"{row.series:,} x {row.steps} x {row.channels}",
            f"{row.ridge:.3f}",
            f"{row.r2:.3f}",
            f"{row.worst:.3f} to {row.best:.3f}",
            f"{row.integer:.3f}",
            f"{row.bytes:,}",
        )
        for row in rows
    ]
    head = INTRODUCTION.format(title=TITLE, seeds=seeds, verdict=textwrap.fill(verdict, 108))
    return f"{head}\n{markdown_table(header, lines, numbers=5)}\n\n{ORIGIN}\n"
