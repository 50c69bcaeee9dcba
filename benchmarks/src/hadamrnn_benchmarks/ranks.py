"""Compare classifiers on many sets: mean ranks with a critical difference, and accuracy against bytes.

J. Demsar, "Statistical Comparisons of Classifiers over Multiple Data Sets", JMLR 7, 2006.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import rankdata, studentized_range

from hadamrnn.pages.document import BLUE, GREY
from hadamrnn.pages.drawing import Canvas, styled, svg


def mean_ranks(percent: ArrayLike) -> list[float]:
    """Return the mean rank of each classifier, 1 for the best, from accuracies `(sets, classifiers)`.

    >>> mean_ranks([[90.0, 80.0], [70.0, 70.0]])
    [1.25, 1.75]
    """
    shown = np.round(np.asarray(percent), 1)  # accuracies that look equal in a table are ties
    return [float(rank) for rank in rankdata(-shown, axis=1).mean(0)]


def critical_difference(classifiers: int, sets: int, error: float = 0.05) -> float:
    """Return the least significant difference of two mean ranks, by Nemenyi's test.

    >>> round(critical_difference(4, 14), 2)  # Demsar's example has 1.25
    1.25
    """
    quantile = float(studentized_range.ppf(1 - error, classifiers, np.inf)) / math.sqrt(2)
    return quantile * math.sqrt(classifiers * (classifiers + 1) / (6 * sets))


def rank_sentences(names: Sequence[str], percent: ArrayLike) -> str:
    """Describe the mean ranks, best first, and the critical difference in words."""
    table = np.asarray(percent)
    ranks = mean_ranks(table)
    listed = ", ".join(f"{name} {rank:.2f}" for rank, name in sorted(zip(ranks, names, strict=True)))
    apart = critical_difference(len(names), len(table))
    return (
        f"Mean ranks, 1 is the best: {listed}. By Nemenyi's test at 5 % two of them differ if they are "
        f"{apart:.2f} apart."
    )


def draw_sizes(sizes: Sequence[float], percent: Sequence[float], line: str, level: float) -> str:
    """Plot accuracies against bytes as SVG, with a horizontal line at another classifier's accuracy."""
    with styled():
        canvas = Canvas(figsize=(7, 3.2))
        axes = canvas.subplots()
        axes.plot(sizes, percent, marker="o", color=BLUE, label="HadamRNNClassifier, integers")
        axes.axhline(level, color=GREY, linestyle="--", label=line)
        axes.set_xscale("log", base=2)
        axes.set_xticks(sizes, [f"{size / 1024:.1f}".removesuffix(".0") for size in sizes])
        axes.set_xlabel("kB of weights")
        axes.set_ylabel("accuracy, %")
        axes.legend(loc="lower right")
        return svg(canvas, "archive")
