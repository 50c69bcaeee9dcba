"""Plot accuracy against bytes for the estimators of `fit_path`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hadamrnn.errors import InputError, missing_package
from hadamrnn.estimators.base import SeriesEstimator


def plot_path(path: Sequence[SeriesEstimator], X: Any, y: Any, axes: Any = None) -> Any:
    """Draw the accuracy on X and y against the bytes of each estimator, and return matplotlib's axes.

    Args:
        path: from `fit_path`.
        X, y: series and labels that the estimators were not fitted to.
        axes: to draw into; those of a new figure by default.
    """
    try:
        from matplotlib.figure import Figure
    except ModuleNotFoundError as error:
        raise missing_package("Plots", error.name, "plots") from error
    if not path:
        raise InputError("path must hold the estimators that fit_path returns, got none.")
    axes = Figure().subplots() if axes is None else axes
    sizes = [each.cost_.bytes for each in path]
    axes.plot(sizes, [100 * each.score(X, y) for each in path], marker="o")
    axes.set_xscale("log", base=2)
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xlabel("bytes of weights")
    axes.set_ylabel("accuracy, %")
    return axes
