"""The demo's page: its table, how the network learnt, digits as it reads them, the way to the C."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hadamrnn.demo.chain import DemoResult, Reading
from hadamrnn.demo.figures import confusion, reading_picture, training_curves
from hadamrnn.demo.table import headline, table
from hadamrnn.files import write_atomically
from hadamrnn.pages.document import Cell, Document, Grid, Link, Part, Section
from hadamrnn.pages.page import to_html

FILE_NAME = "demo.html"
RIGHT, WRONG = 4, 2  # digits shown


def write_page(result: DemoResult, reading: Reading, out: Path) -> Path:
    """Write the page into the demo's folder; return where it is."""
    path = out / FILE_NAME
    write_atomically(path, to_html(build_page(result, reading, out)).encode())
    return path


def build_page(result: DemoResult, reading: Reading, out: Path) -> Document:
    """Return the page; its links are relative to `out`."""
    lead = headline(result)
    folder = Path(result.c_folder).relative_to(out).as_posix()
    lines = tuple((Cell(label), Cell(value)) for label, value in table(result))
    pictures = tuple(reading_picture(reading, digit) for digit in shown_digits(reading))
    return Document(
        "HadamRNN reads digits",
        (f"{lead[0].upper()}{lead[1:]}.",),
        (
            Section("figures", "Figures", parts=(Part(grid=Grid(("what", "figure"), lines)),)),
            Section(
                "learning", "Learning and errors", pictures=(training_curves(reading), confusion(reading))
            ),
            Section(
                "reading",
                "Digits as they are read",
                (
                    "The integer network sees one pixel a step, from the upper left corner to the lower "
                    "right. Below the pixels stands what it would say if the digit ended there: the stronger "
                    "the colour, the surer. It was trained for its last answer alone.",
                ),
                pictures=pictures,
            ),
            Section(
                "c",
                "The C",
                ("C99, no heap, no floating point. Its self-test replays digits and compares every bit.",),
                links=(
                    Link(f"{folder}/README.md", "How to use it"),
                    Link(f"{folder}/digits.c", "The network, digits.c"),
                    Link(f"{folder}/", "The folder"),
                ),
            ),
        ),
    )


def shown_digits(reading: Reading) -> list[int]:
    """Return the first digits read rightly, of different classes, then the first ones read wrongly."""
    right = np.flatnonzero(reading.classes == reading.labels)
    wrong = np.flatnonzero(reading.classes != reading.labels)
    _, first = np.unique(reading.labels[right], return_index=True)
    return [*right[np.sort(first)][:RIGHT].tolist(), *wrong[:WRONG].tolist()]
