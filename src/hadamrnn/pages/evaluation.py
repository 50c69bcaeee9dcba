"""Show the results of a network as a page.

For a classifier: confusion matrix, windows, errors, reliability and cost; start at `evaluation_page`. For a
regression: errors compared with simple predictors, predicted and true values, and cost; start at
`value_page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.pages.document import (
    BLUE,
    GREEN,
    GREY,
    LINE,
    ORANGE,
    Cell,
    Document,
    Grid,
    Part,
    Picture,
    Section,
)
from hadamrnn.pages.drawing import MOST_POINTS, Axes, Canvas, confusion_page, plain, styled, svg

MOST_ERRORS, COLUMNS, MOST_CHANNELS, MOST_WINDOWS, BINS = 12, 2, 3, 10, 10
COLORS = (GREY, BLUE, GREEN)


@dataclass(frozen=True, eq=False)
class Examples:
    """Samples `x` (n, time, channels) or (n, time), with their classes and the network's predictions.

    Args:
        probabilities: `(n, classes)`.
        right: whether each prediction is correct, `(n,)`.
    """

    x: NDArray[Any]
    labels: NDArray[np.int64]
    probabilities: NDArray[np.float64]
    right: NDArray[np.bool_]
    names: Sequence[str]

    @property
    def verdicts(self) -> NDArray[np.int64]:
        return np.asarray(self.probabilities.argmax(1))

    @property
    def confidence(self) -> NDArray[np.float64]:
        """The probability of the predicted class."""
        return np.asarray(self.probabilities.max(1))


Bar = tuple[str, float, str]  # label, fraction of the largest value or of the budget, figure as text


def evaluation_page(
    title: str,
    lead: str,
    recall: Mapping[str, float | None],
    matrix: Sequence[Sequence[int]],
    examples: Examples | None,
    bars: Sequence[tuple[str, Sequence[Bar]]],
) -> Document:
    """Return the page; without `examples` it has only the confusion matrix and bars."""
    page = confusion_page(title, lead, recall, matrix)
    sections = list(page.sections)
    if examples is not None:
        sections += [_windows(examples), _errors(examples), _reliability(examples)]
    return replace(page, sections=(*sections, *_cost(bars)))


@dataclass(frozen=True, eq=False)
class Answers:
    """Samples `x` (n, time, channels) or (n, time), with the true and the predicted values `(n, targets)`."""

    x: NDArray[Any]
    actual: NDArray[np.float64]
    predicted: NDArray[np.float64]


def value_page(
    title: str,
    lead: str,
    errors: Sequence[tuple[str, ...]],
    answers: Answers,
    bars: Sequence[tuple[str, Sequence[Bar]]],
) -> Document:
    """Return the page of a regression; a line of `errors` has a predictor, its RMSE, MAE and R2."""
    lines = tuple(tuple(map(Cell, line)) for line in errors)
    table = Part(grid=Grid(("predictor", "RMSE", "MAE", "R2"), lines))
    sections = (
        Section("errors", "Errors", parts=(table,)),
        _values(answers),
        _largest_errors(answers),
        *_cost(bars),
    )
    return Document(title, (f"{lead}.",), sections)


def calibration_error(examples: Examples) -> float:
    """Return the mean difference between confidence and accuracy over samples, using ten bins."""
    _, shares, confidences, counts = _binned(examples)
    return float((np.abs(shares - confidences) * counts).sum() / counts.sum())


def _windows(examples: Examples) -> Section:
    """Return windows side by side in their order, each with its class and the prediction."""
    count = len(examples.labels)
    index = np.unique(np.linspace(0, count - 1, min(MOST_WINDOWS, count)).astype(int))
    with styled():
        canvas = Canvas(figsize=(5.2, 3.6))
        signal, truth = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        steps = examples.x.shape[1]
        for place, sample in enumerate(index):
            _draw(signal, examples.x[sample], place + np.arange(steps) / steps)
            signal.axvline(place, color=LINE, linewidth=0.6)
            color = BLUE if examples.right[sample] else ORANGE
            truth.barh(examples.labels[sample], 1, left=place, color=BLUE, alpha=0.3)
            truth.plot(place + 0.5, examples.verdicts[sample], "o", color=color, markersize=4)
        truth.set_yticks(range(len(examples.names)), [plain(name) for name in examples.names])
        truth.set_xticks(np.arange(len(index)) + 0.5, [str(sample) for sample in index], fontsize=6)
        truth.grid(False)
        truth.set_xlabel("window")
        caption = f"{len(index)} of {count} windows, {int((~examples.right[index]).sum())} of them wrong."
        picture = Picture("windows", svg(canvas, "windows"), caption)
    channels = examples.x[0].size // steps
    text = "Shaded: the true class. Dots: the predicted class, orange if it is wrong."
    if channels > MOST_CHANNELS:
        text += f" Lines: the first {MOST_CHANNELS} of {channels} inputs."
    return Section("windows", "Windows", (text,), pictures=(picture,))


def _errors(examples: Examples) -> Section:
    """Return the most confident errors, with their signals."""
    wrong = np.flatnonzero(~examples.right)
    worst = wrong[np.argsort(-examples.confidence[wrong], kind="stable")][:MOST_ERRORS]
    if not len(worst):
        return Section("errors", "Errors", ("There are none.",))
    said, was = (examples.verdicts, examples.labels)
    titles = {
        sample: f"{sample}: {plain(examples.names[said[sample]])} {examples.confidence[sample]:.0%}\n"
        f"was {plain(examples.names[was[sample]])}"
        for sample in worst.tolist()
    }
    picture = _signals("errors", titles, examples.x, f"{len(worst)} of {len(wrong)} errors.")
    text = f"{len(wrong)} errors. Those with the highest confidence are shown, each with its sample number."
    return Section("errors", "Errors by confidence", (text,), pictures=(picture,))


def _reliability(examples: Examples) -> Section:
    """Return a plot of accuracy by confidence."""
    edges, shares, confidences, counts = _binned(examples)
    with styled():
        canvas = Canvas(figsize=(4.4, 3.4))
        axes = canvas.subplots()
        axes.plot([0, 1], [0, 1], color=GREY, linewidth=0.8)
        axes.bar(edges, counts / counts.sum(), 1 / BINS, align="edge", color=LINE)
        axes.plot(confidences, shares, "o-", color=BLUE, markersize=4)
        axes.set_xlabel("confidence of the prediction")
        axes.set_ylabel("accuracy")
        picture = Picture("reliability", svg(canvas, "reliability"), "Accuracy by confidence.")
    text = (
        "On the diagonal, confidence equals accuracy; above it, the network is underconfident. The mean "
        f"distance is {calibration_error(examples):.1%}. Grey bars: the fraction of samples."
    )
    return Section("reliability", "Reliability", (text,), pictures=(picture,))


def _binned(examples: Examples) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return the left edge, accuracy, mean confidence and count of every bin that has samples."""
    bins = np.minimum((examples.confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    kept = np.flatnonzero(counts)
    sums = (np.bincount(bins, values, BINS)[kept] for values in (examples.right, examples.confidence))
    right, sure = (each / counts[kept] for each in sums)
    return kept / BINS, right, sure, counts[kept]


def _values(answers: Answers) -> Section:
    """Return a plot of predicted and true values for each of the first targets."""
    pictures = []
    for target in range(min(answers.actual.shape[1], MOST_CHANNELS)):
        actual, predicted = answers.actual[:, target], answers.predicted[:, target]
        with styled():
            canvas = Canvas(figsize=(4.4, 3.8))
            axes = canvas.subplots()
            ends = [min(actual.min(), predicted.min()), max(actual.max(), predicted.max())]
            axes.plot(ends, ends, color=GREY, linewidth=0.8)
            axes.set_aspect("equal")
            stride = max(1, len(actual) // MOST_POINTS)
            axes.plot(actual[::stride], predicted[::stride], "o", color=BLUE, markersize=2)
            axes.set_xlabel("true value")
            axes.set_ylabel("predicted value")
            name = f"values-{target}"
            pictures.append(Picture(name, svg(canvas, name), f"Target {target}: predicted and true values."))
    return Section("values", "Values", ("On the line both are equal.",), pictures=tuple(pictures))


def _largest_errors(answers: Answers) -> Section:
    """Return the samples with the largest errors, with their signals."""
    distances = np.square(answers.predicted - answers.actual).mean(1)
    titles = {
        sample: f"{sample}: {answers.predicted[sample, 0]:.4g}\nwas {answers.actual[sample, 0]:.4g}"
        for sample in np.argsort(-distances, kind="stable")[:MOST_ERRORS].tolist()
    }
    picture = _signals("largest", titles, answers.x, f"{len(titles)} of {len(distances)} samples.")
    return Section("largest", "Largest errors", ("Each title has the sample's number.",), pictures=(picture,))


def _signals(name: str, titles: Mapping[int, str], x: NDArray[Any], caption: str) -> Picture:
    """Return a picture of samples side by side, each with its title."""
    with styled():
        canvas = Canvas(figsize=(5.2, 1.4 * -(-len(titles) // COLUMNS)))
        grid = canvas.subplots(-(-len(titles) // COLUMNS), COLUMNS, squeeze=False).ravel()
        for axes, (sample, title) in zip(grid, titles.items(), strict=False):
            _draw(axes, x[sample], np.arange(x.shape[1]))
            axes.set_title(title, fontsize=7)
            axes.tick_params(labelsize=6)
        for axes in grid[len(titles) :]:
            axes.set_visible(False)
        return Picture(name, svg(canvas, name), caption)


def _cost(bars: Sequence[tuple[str, Sequence[Bar]]]) -> tuple[Section, ...]:
    """Return the section on size and budget; empty without bars."""
    pictures = tuple(_bars(f"cost-{number}", *each) for number, each in enumerate(bars))
    text = "Estimates for a Cortex-M4, at one instruction per cycle; an embedding table is not counted."
    return (Section("cost", "Size and budget", (text,), pictures=pictures),) if pictures else ()


def _bars(name: str, title: str, bars: Sequence[Bar]) -> Picture:
    """Return shares as bars, each with its figure."""
    with styled():
        canvas = Canvas(figsize=(4.4, 0.6 + 0.35 * len(bars)))
        axes = canvas.subplots()
        for place, (what, share, text) in enumerate(bars):
            axes.barh(place, max(share, 0.0), color=ORANGE if share > 1 else BLUE)
            axes.annotate(
                f"{what}: {text}", (max(share, 0.0), place), (4, 0), textcoords="offset points", va="center",
                fontsize=8,
            )  # fmt: skip
        axes.set_xlim(0, 2 * max([1.0, *(share for _, share, _ in bars)]))
        axes.set_yticks([])
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.grid(False)
        axes.set_title(title)
        caption = f"{title}: {', '.join(f'{what} {text}' for what, _, text in bars)}."
        return Picture(name, svg(canvas, name), caption)


def _draw(axes: Axes, values: NDArray[Any], time: NDArray[Any]) -> None:
    """Draw the first channels of a series one below another, each between 0 and 1."""
    channels = values.reshape(len(values), -1).T[:MOST_CHANNELS]
    for number, (channel, color) in enumerate(zip(channels, COLORS, strict=False)):
        low, high = channel.min(), channel.max()
        axes.plot(time, (channel - low) / ((high - low) or 1.0) - 1.1 * number, color=color, linewidth=0.6)
    axes.set_yticks([])
