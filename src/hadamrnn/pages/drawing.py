"""Draw figures in one style, as SVG with the same bytes for the same numbers.

This needs matplotlib, from the extra `plots`. Import matplotlib's names from here, so that a missing package
gives the right error.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import missing_package
from hadamrnn.pages.document import (
    BLUE,
    GREEN,
    GREY,
    LINE,
    ORANGE,
    PAPER,
    Cell,
    Document,
    Grid,
    Part,
    Picture,
    Section,
)

MOST_PICTURES, MOST_CHANNELS, MOST_POINTS = 8, 3, 2000

# Name, values (rows, channels), incidents (label, first row, row after the last), events (row, label).
Drawn = tuple[str, NDArray[Any], Sequence[tuple[str, int, int]], Sequence[tuple[int, str]]]


try:
    import matplotlib
    from matplotlib.axes import Axes as Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.figure import Figure
    from matplotlib.ticker import FuncFormatter as FuncFormatter
    from matplotlib.ticker import MaxNLocator as MaxNLocator
except ModuleNotFoundError as error:
    raise missing_package("Plots", error.name, "plots") from error

Canvas = Figure
FAINTEST = 0.02  # relative to a heat map's strongest cell; weaker cells are not drawn
STRONG = 0.5  # relative to the largest count; above this, a confusion matrix has white numbers
WIDTH, HEIGHT = 4.4, 3.8
LONG_NAME = 3  # in letters; longer names are rotated

STYLE: Any = {
    "svg.hashsalt": "hadamrnn",
    "svg.fonttype": "none",  # keep text as text, which is smaller and can be searched
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": LINE,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style, whatever the user's matplotlib settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


@dataclass(frozen=True)
class Point:
    """A network as a point in a plot of performance against size.

    Args:
        size: size in bytes or kilobytes, as in the plot.
        value: an accuracy or a cross-entropy.
        family: kind of the network.
    """

    size: float
    value: float
    label: str
    family: str = ""


def front(points: Iterable[Point], lower_is_better: bool = False) -> list[Point]:
    """Return the points that no other point beats in both size and performance, sorted by size.

    >>> points = [Point(1, 0.9, "a"), Point(2, 0.8, "b"), Point(3, 0.95, "c")]
    >>> [point.label for point in front(points)]
    ['a', 'c']
    """
    kept: list[Point] = []
    sign = -1 if lower_is_better else 1
    for point in sorted(points, key=lambda each: (each.size, -sign * each.value, each.label)):
        if not kept or sign * point.value > sign * kept[-1].value:
            kept.append(point)
    return kept


def scatter(
    axes: Axes,
    points: Sequence[Point],
    color: str,
    marker: str,
    label: str,
    *,
    unit: float = 100,
    hollow: bool = False,
) -> None:
    """Draw points with their values times `unit`, which is 100 for percentages."""
    if points:
        axes.scatter(
            [point.size for point in points],
            [unit * point.value for point in points],
            s=26,
            marker=marker,
            facecolors="white" if hollow else color,
            edgecolors=color,
            label=label,
            zorder=3,
        )


def draw_front(axes: Axes, best: Sequence[Point], color: str, line: str, *, unit: float = 100) -> None:
    """Draw a front as steps, if it has several points."""
    if len(best) > 1:
        axes.plot(
            [point.size for point in best],
            [unit * point.value for point in best],
            line,
            color=color,
            linewidth=1,
            drawstyle="steps-post",
        )


def heat_map(axes: Axes, values: ArrayLike, color: str) -> None:
    """Draw a matrix in one colour, more opaque for larger entries, so it suits any background.

    Entry (i, j) is the unit square around x = j, y = i, with the first row on top.
    """
    matrix = np.asarray(values, float)
    shown = np.ma.masked_less(matrix, FAINTEST * matrix.max())
    shades = LinearSegmentedColormap.from_list("shades", [to_rgba(color, 0.0), to_rgba(color, 1.0)])
    rows, columns = (np.arange(size + 1) - 0.5 for size in matrix.shape)
    axes.pcolormesh(columns, rows, shown, cmap=shades, vmin=0)
    axes.invert_yaxis()
    axes.grid(False)


def svg(canvas: Canvas, name: str) -> str:
    """Return the figure as SVG without date or prolog; `name` prefixes its ids, which must be unique."""
    buffer = io.StringIO()
    with warnings.catch_warnings():
        # Text stays text, so the reader's fonts are used and not the ones that matplotlib found here.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{name}-", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"


def plain(name: str) -> str:
    """Escape the dollar signs in a name, between which matplotlib would parse mathematics."""
    return name.replace("$", r"\$")


def confusion_picture(matrix: ArrayLike, names: Sequence[str]) -> Picture:
    """Return the confusion matrix as a picture: rows true, columns predicted."""
    counts = np.asarray(matrix, int)
    wrong = counts.sum() - counts.trace()
    side = max(1.0, len(names) / 12)
    with styled():
        canvas = Canvas(figsize=(side * WIDTH, side * HEIGHT))
        axes = canvas.subplots()
        heat_map(axes, np.sqrt(counts), BLUE)  # the root keeps single errors visible next to large counts
        for (label, verdict), count in np.ndenumerate(counts):
            if count:
                color = PAPER if count > STRONG * counts.max() else "black"
                axes.text(verdict, label, str(count), ha="center", va="center", fontsize=8, color=color)
        axes.set_aspect("equal")
        upright = 90 if max(map(len, names)) > LONG_NAME else 0
        axes.set_xticks(range(len(names)), [*map(plain, names)], rotation=upright)
        axes.set_yticks(range(len(names)), [*map(plain, names)])
        axes.set_xlabel("predicted class")
        axes.set_ylabel("true class")
        return Picture("confusion", svg(canvas, "confusion"), f"{wrong} samples are off the diagonal.")


def confusion_page(
    title: str, lead: str, recall: Mapping[str, float | None], matrix: Sequence[Sequence[int]]
) -> Document:
    """Return a page with the recall of every class, its most frequent errors, and the confusion matrix."""
    names, lines = list(recall), []
    for number, (name, share) in enumerate(recall.items()):
        row = matrix[number]
        others = [other for other in np.argsort(row)[::-1].tolist() if other != number and row[other]]
        errors = ", ".join(f"{names[other]} ({row[other]})" for other in others[:3])
        shown = "none" if share is None else f"{100 * share:.1f} %"
        lines.append((Cell(name), Cell(str(sum(row))), Cell(shown), Cell(errors)))
    header = ("class", "samples", "recall", "predicted instead")
    parts = (Part(grid=Grid(header, tuple(lines))),)
    pictures = (confusion_picture(matrix, names),)
    return Document(title, (f"{lead}.",), (Section("classes", "Classes", parts=parts, pictures=pictures),))


def stream_page(title: str, lead: str, streams: Sequence[Drawn], rate: float, tolerance: int) -> Document:
    """Return a page with a picture of each of the first recordings; see `hadamrnn.streams.compare`."""
    pictures = tuple(
        stream_picture(number, *each, rate, tolerance) for number, each in enumerate(streams[:MOST_PICTURES])
    )
    text = "Shaded: incidents. Lines: alarms of that class; false alarms are orange."
    return Document(title, (f"{lead}.",), (Section("streams", "Recordings", (text,), pictures=pictures),))


def stream_picture(
    number: int,
    name: str,
    values: NDArray[Any],
    incidents: Sequence[tuple[str, int, int]],
    events: Sequence[tuple[int, str]],
    rate: float,
    tolerance: int,
) -> Picture:
    """Return a recording's signal with its incidents and events over time in seconds."""
    stride = max(1, len(values) // MOST_POINTS)
    seconds = np.arange(0, len(values), stride) / rate
    with styled():
        canvas = Canvas(figsize=(9, 2.6))
        signal, truth = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for channel, color in zip(
            range(min(values.shape[1], MOST_CHANNELS)), (GREY, BLUE, GREEN), strict=False
        ):
            signal.plot(seconds, values[::stride, channel], color=color, linewidth=0.5)
        signal.set_title(plain(name))
        labels = sorted({label for label, _, _ in incidents} | {label for _, label in events})
        for label, start, end in incidents:
            truth.barh(labels.index(label), (end - start) / rate, left=start / rate, color=BLUE, alpha=0.3)
        for row, label in events:
            right = any(each == label and start <= row < end + tolerance for each, start, end in incidents)
            truth.plot(row / rate, labels.index(label), "|", color="black" if right else ORANGE, markersize=9)
        truth.set_yticks(range(len(labels)), [*map(plain, labels)])
        truth.set_xlabel("seconds")
        caption = f"{name}: {len(incidents)} incidents, {len(events)} alarms."
        return Picture(f"stream-{number}", svg(canvas, f"stream-{number}"), caption)
