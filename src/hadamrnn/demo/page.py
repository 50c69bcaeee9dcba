"""The demo's page: the network at work on digits that the reader draws, its table, its learning, the C."""

from __future__ import annotations

from pathlib import Path

from hadamrnn.demo.chain import BOARD, DemoResult, PageContent, headline, table
from hadamrnn.export.page import live_network, live_part
from hadamrnn.files import write_atomically
from hadamrnn.pages.document import BLUE, ORANGE, Cell, Document, Grid, Link, Part, Picture, Section, to_html
from hadamrnn.pages.drawing import Canvas, styled, svg

FILE_NAME = "demo.html"
WIDTH = 4.4

ABOUT = (
    "Draw a digit with mouse, pen or finger, or take one of the test set. The network in this page is the "
    "one that was trained, in the integers of its C. It reads one pixel a step, from the upper left corner "
    "to the lower right; it was trained for its last answer alone.",
    "Click a sign to flip it, or round the weights to fewer bits, and see what is left of the accuracy.",
)


def write_page(result: DemoResult, content: PageContent, out: Path) -> Path:
    """Write the page into the demo's folder and return its path."""
    path = out / FILE_NAME
    write_atomically(path, to_html(build_page(result, content, out)).encode())
    return path


def build_page(result: DemoResult, content: PageContent, out: Path) -> Document:
    """Return the page; its links are relative to `out`."""
    lead = headline(result)
    folder = Path(result.c_folder).relative_to(out).as_posix()
    counted = result.instructions_per_step
    board = () if counted is None else ((f"on a {BOARD.title()}", f"{counted:,} instructions a step"),)
    lines = tuple((Cell(label), Cell(value)) for label, value in table(result))
    return Document(
        "HadamRNN reads digits",
        (f"{lead[0].upper()}{lead[1:]}.",),
        (
            Section("figures", "Figures", parts=(Part(grid=Grid(("what", "figure"), lines)),)),
            Section("learning", "Learning", pictures=(training_curves(content),)),
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
        live_part(
            live_network(
                content.model,
                "digits",
                "Draw a digit",
                content.stored,
                paragraphs=ABOUT,
                pad=content.pad,
                figures=board,
            )
        ),
    )


def training_curves(content: PageContent) -> Picture:
    """Loss and validation accuracy by epoch."""
    with styled():
        canvas = Canvas(figsize=(WIDTH, 3.8))
        top, bottom = canvas.subplots(2, 1, sharex=True)
        epochs = [row.epoch for row in content.curve]
        accuracies = [100 * (row.validation_metric or 0.0) for row in content.curve]
        top.plot(epochs, accuracies, "o-", color=BLUE, markersize=2)
        bottom.plot(epochs, [row.loss for row in content.curve], "o-", color=ORANGE, markersize=2)
        bottom.set_yscale("log")
        top.set_ylabel("validation\naccuracy in %")
        bottom.set_ylabel("training loss")
        bottom.set_xlabel("epoch")
        return Picture("curves", svg(canvas, "curves"), "Validation accuracy and training loss by epoch.")
