"""Draw W(u) for two shapes into docs/recurrent_weight.svg: `python docs/scripts/draw_weight.py`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from hadamrnn.files import write_atomically
from hadamrnn.nn.weight import recurrent_weight
from hadamrnn.pages.document import BLUE, ORANGE
from hadamrnn.pages.drawing import Axes, Canvas, styled, svg

TARGET = Path(__file__).parents[1] / "recurrent_weight.svg"
HIDDEN_SIZE = 16
SEED = 0


def main() -> None:
    write_atomically(TARGET, picture().encode())


def picture() -> str:
    """Return the SVG: one block of 16 beside four blocks of 4, with the same signs."""
    draws = np.random.default_rng(SEED).choice([-1.0, 1.0], HIDDEN_SIZE)
    signs = torch.from_numpy(draws)
    with styled():
        canvas = Canvas(figsize=(7, 3.7))
        whole, blocks = canvas.subplots(1, 2)
        _draw(whole, recurrent_weight(signs, HIDDEN_SIZE).numpy(), "one block: entries ±1/4")
        _draw(blocks, recurrent_weight(signs, HIDDEN_SIZE // 4).numpy(), "four blocks: entries 0 and ±1/2")
        return svg(canvas, "recurrent-weight")


def _draw(axes: Axes, weight: np.ndarray[tuple[int, int], np.dtype[np.float64]], title: str) -> None:
    for entries, color in ((weight > 0, BLUE), (weight < 0, ORANGE)):
        rows, columns = np.nonzero(entries)
        axes.plot(columns, rows, "s", color=color, markersize=8)
    axes.set_xlim(-1, len(weight))
    axes.set_ylim(len(weight), -1)  # the first row on top
    axes.set_aspect("equal")
    axes.grid(False)
    axes.set_title(title)
    axes.set_xlabel("unit before the step")
    axes.set_ylabel("unit after the step")
    axes.set_xticks([0, 5, 10, 15])
    axes.set_yticks([0, 5, 10, 15])


if __name__ == "__main__":
    main()
