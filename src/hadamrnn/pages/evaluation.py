"""Show the results of a classifier as a page: confusions, windows, errors, reliability and cost.

Start at `evaluation_page`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.pages.document import BLUE, GREEN, GREY, LINE, ORANGE, Document, Picture, Section
from hadamrnn.pages.drawing import Axes, Canvas, confusion_page, plain, styled, svg

MOST_ERRORS, COLUMNS, MOST_CHANNELS, MOST_WINDOWS, BINS = 12, 2, 3, 10, 10
COLORS = (GREY, BLUE, GREEN)


@dataclass(frozen=True, eq=False)
class Examples:
    """Samples `x` (n, time, channels) or (n, time), with their classes and the network's answers.

    Args:
        probabilities: `(n, classes)`.
        right: whether each verdict is right, `(n,)`.
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
        """The probability of the verdict."""
        return np.asarray(self.probabilities.max(1))


Bar = tuple[str, float, str]  # label, share of the largest value or of the budget, and the figure as text


def evaluation_page(
    title: str,
    lead: str,
    recall: Mapping[str, float | None],
    matrix: Sequence[Sequence[int]],
    examples: Examples | None,
    bars: Sequence[tuple[str, Sequence[Bar]]],
) -> Document:
    """Return the page; without `examples` it only has confusions and bars."""
    page = confusion_page(title, lead, recall, matrix)
    sections = list(page.sections)
    if examples is not None:
        sections += [_windows(examples), _errors(examples), _reliability(examples)]
    pictures = tuple(_bars(f"cost-{number}", *each) for number, each in enumerate(bars))
    if pictures:
        text = "An embedding table is not among the bytes. Instructions are estimated, one a cycle."
        sections.append(Section("cost", "Size and budget", (text,), pictures=pictures))
    return replace(page, sections=tuple(sections))


def calibration_error(examples: Examples) -> float:
    """Return the mean difference between confidence and accuracy over samples, in ten bins."""
    _, shares, confidences, counts = _binned(examples)
    return float((np.abs(shares - confidences) * counts).sum() / counts.sum())


def _windows(examples: Examples) -> Section:
    """Return windows in their order, side by side, each with its class and the verdict."""
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
        truth.set_xticks(range(len(index)), [str(sample) for sample in index], fontsize=6)
        truth.set_xlabel("window")
        caption = f"{len(index)} of {count} windows, {int((~examples.right[index]).sum())} of them wrong."
        picture = Picture("windows", svg(canvas, "windows"), caption)
    text = "Shaded: the class. Dots: what the network says, orange where it is wrong."
    return Section("windows", "Windows", (text,), pictures=(picture,))


def _errors(examples: Examples) -> Section:
    """Return the most confident errors, with their signals."""
    wrong = np.flatnonzero(~examples.right)
    worst = wrong[np.argsort(-examples.confidence[wrong], kind="stable")][:MOST_ERRORS]
    if not len(worst):
        return Section("errors", "Errors", ("There are none.",))
    rows = -(-len(worst) // COLUMNS)
    with styled():
        canvas = Canvas(figsize=(5.2, 1.4 * rows))
        grid = canvas.subplots(rows, COLUMNS, squeeze=False).ravel()
        for axes, sample in zip(grid, worst, strict=False):
            _draw(axes, examples.x[sample], np.arange(examples.x.shape[1]))
            said, was = (plain(examples.names[k[sample]]) for k in (examples.verdicts, examples.labels))
            axes.set_title(f"{sample}: {said} {examples.confidence[sample]:.0%}\nwas {was}", fontsize=7)
            axes.tick_params(labelsize=6)
        for axes in grid[len(worst) :]:
            axes.set_visible(False)
        picture = Picture("errors", svg(canvas, "errors"), f"{len(worst)} of {len(wrong)} errors.")
    text = f"{len(wrong)} errors; here those of which the network was surest, with the number of the sample."
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
        axes.set_xlabel("confidence of the verdict")
        axes.set_ylabel("share that is right")
        picture = Picture("reliability", svg(canvas, "reliability"), "Share that is right by confidence.")
    text = (
        f"On the diagonal the network is as sure as it is right; above it, too unsure. The mean distance is "
        f"{calibration_error(examples):.1%}. Grey bars: the share of samples."
    )
    return Section("reliability", "Reliability", (text,), pictures=(picture,))


def _binned(examples: Examples) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """Return left edge, accuracy, mean confidence and count of every bin with samples."""
    bins = np.minimum((examples.confidence * BINS).astype(int), BINS - 1)
    counts = np.bincount(bins, minlength=BINS)
    kept = np.flatnonzero(counts)
    sums = (np.bincount(bins, values, BINS)[kept] for values in (examples.right, examples.confidence))
    right, sure = (each / counts[kept] for each in sums)
    return kept / BINS, right, sure, counts[kept]


def _bars(name: str, title: str, bars: Sequence[Bar]) -> Picture:
    """Return shares as bars, each with its figure."""
    with styled():
        canvas = Canvas(figsize=(4.4, 0.6 + 0.35 * len(bars)))
        axes = canvas.subplots()
        for place, (what, share, text) in enumerate(bars):
            axes.barh(place, max(share, 0.0), color=ORANGE if share > 1 else BLUE)
            axes.text(max(share, 0.0), place, f" {what}: {text}", va="center", fontsize=8)
        axes.set_xlim(0, 2 * max([1.0, *(share for _, share, _ in bars)]))
        axes.set_yticks([])
        axes.set_xticks([])
        axes.invert_yaxis()
        axes.grid(False)
        axes.set_title(title)
        caption = f"{title}: {', '.join(f'{what} {text}' for what, _, text in bars)}."
        return Picture(name, svg(canvas, name), caption)


def _draw(axes: Axes, values: NDArray[Any], time: NDArray[Any]) -> None:
    """Draw the first channels of a series one below the other, each between 0 and 1."""
    channels = values.reshape(len(values), -1).T[:MOST_CHANNELS]
    for number, (channel, color) in enumerate(zip(channels, COLORS, strict=False)):
        low, high = channel.min(), channel.max()
        axes.plot(time, (channel - low) / ((high - low) or 1.0) - 1.1 * number, color=color, linewidth=0.6)
    axes.set_yticks([])
