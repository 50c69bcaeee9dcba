"""What each class was taken for, as a picture and as a page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike

from hadamrnn.pages.document import BLUE, PAPER, Cell, Document, Grid, Part, Picture, Section
from hadamrnn.pages.drawing import Canvas, heat_map, styled, svg

STRONG = 0.5  # of the largest count; cells above it have white numbers
WIDTH, HEIGHT = 4.4, 3.8
LONG_NAME = 3  # letters; longer names stand upright below the picture


def confusion_picture(matrix: ArrayLike, names: Sequence[str]) -> Picture:
    """Return the confusion matrix; entry (i, j) counts samples of class i taken for class j."""
    counts = np.asarray(matrix, int)
    wrong = counts.sum() - counts.trace()
    side = max(1.0, len(names) / 12)
    with styled():
        canvas = Canvas(figsize=(side * WIDTH, side * HEIGHT))
        axes = canvas.subplots()
        heat_map(axes, np.sqrt(counts), BLUE)  # makes single errors visible beside large counts
        for (label, verdict), count in np.ndenumerate(counts):
            if count:
                color = PAPER if count > STRONG * counts.max() else "black"
                axes.text(verdict, label, str(count), ha="center", va="center", fontsize=8, color=color)
        axes.set_aspect("equal")
        upright = 90 if max(map(len, names)) > LONG_NAME else 0
        # Between two dollars matplotlib would read mathematics.
        plain = [name.replace("$", r"\$") for name in names]
        axes.set_xticks(range(len(names)), plain, rotation=upright)
        axes.set_yticks(range(len(names)), plain)
        axes.set_xlabel("what the network says")
        axes.set_ylabel("what it was")
        return Picture("confusion", svg(canvas, "confusion"), f"{wrong} samples are off the diagonal.")


def confusion_page(
    title: str, lead: str, recall: Mapping[str, float | None], matrix: Sequence[Sequence[int]]
) -> Document:
    """Return a page with the recall of every class, what it was taken for instead, and the matrix."""
    names, lines = list(recall), []
    for number, (name, share) in enumerate(recall.items()):
        row = matrix[number]
        others = [other for other in np.argsort(row)[::-1].tolist() if other != number and row[other]]
        errors = ", ".join(f"{names[other]} ({row[other]})" for other in others[:3])
        shown = "none" if share is None else f"{100 * share:.1f} %"
        lines.append((Cell(name), Cell(str(sum(row))), Cell(shown), Cell(errors)))
    header = ("class", "samples", "recall", "taken for")
    parts = (Part(grid=Grid(header, tuple(lines))),)
    pictures = (confusion_picture(matrix, names),)
    return Document(title, (f"{lead}.",), (Section("classes", "Classes", parts=parts, pictures=pictures),))
