"""How figures are drawn: one style, and SVG that is the same to the byte for the same numbers.

Needs matplotlib, which the extra `report` brings: take its names from here, where its absence is explained.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from hadamrnn.errors import InputError
from hadamrnn.pages.palette import GRID

try:
    import matplotlib
    from matplotlib.axes import Axes
    from matplotlib.colors import LinearSegmentedColormap, to_rgba
    from matplotlib.figure import Figure as Canvas
    from matplotlib.ticker import FuncFormatter
except ModuleNotFoundError as error:
    raise InputError(f"Plots need {error.name}: pip install 'hadamrnn[report]'.") from error

__all__ = ["STYLE", "Axes", "Canvas", "FuncFormatter", "heat_map", "styled", "svg"]

FAINTEST = 0.02  # of a heat map's strongest cell: fainter ones are left out

STYLE: Any = {
    "svg.hashsalt": "hadamrnn",
    "svg.fonttype": "none",  # text stays text: smaller, and can be searched
    "font.family": ["DejaVu Sans", "sans-serif"],
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "figure.constrained_layout.use": True,
}


@contextmanager
def styled() -> Iterator[None]:
    """Draw in this style, whatever the user's own settings are."""
    with matplotlib.rc_context():
        matplotlib.rcdefaults()
        matplotlib.rcParams.update(STYLE)
        yield


def heat_map(axes: Axes, values: ArrayLike, color: str) -> None:
    """Draw a matrix in one colour, as opaque as the entry is large: it suits any ground.

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
    """Return the figure without date or prolog, its ids led by its name: several fit into one page."""
    buffer = io.StringIO()
    canvas.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{name}-", text)
    return "\n".join(line.rstrip() for line in text.splitlines()) + "\n"
