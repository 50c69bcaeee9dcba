"""The demo's page: its table, the training curve, digits as the network reads them, links to the C."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from hadamrnn.demo.chain import DemoResult, Reading, headline, table
from hadamrnn.files import write_atomically
from hadamrnn.pages.confusion import confusion_picture
from hadamrnn.pages.document import (
    BLUE,
    ORANGE,
    Cell,
    Document,
    Grid,
    Link,
    Part,
    Picture,
    Section,
    to_html,
)
from hadamrnn.pages.drawing import Axes, Canvas, heat_map, styled, svg

FILE_NAME = "demo.html"
RIGHT, WRONG = 4, 2  # digits shown
WIDTH = 4.4
CLASSES = 10
SIDE = 8  # of a digit, in pixels


def write_page(result: DemoResult, reading: Reading, out: Path) -> Path:
    """Write the page into the demo's folder and return its path."""
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
    """Return the first correct digits, of different classes, then the first wrong ones."""
    right = np.flatnonzero(reading.classes == reading.labels)
    wrong = np.flatnonzero(reading.classes != reading.labels)
    _, first = np.unique(reading.labels[right], return_index=True)
    return [*right[np.sort(first)][:RIGHT].tolist(), *wrong[:WRONG].tolist()]


def training_curves(reading: Reading) -> Picture:
    """Loss and validation accuracy by epoch."""
    with styled():
        canvas = Canvas(figsize=(WIDTH, 3.8))
        top, bottom = canvas.subplots(2, 1, sharex=True)
        epochs = [row.epoch for row in reading.curve]
        accuracies = [100 * (row.validation_metric or 0.0) for row in reading.curve]
        top.plot(epochs, accuracies, "o-", color=BLUE, markersize=2)
        bottom.plot(epochs, [row.loss for row in reading.curve], "o-", color=ORANGE, markersize=2)
        bottom.set_yscale("log")
        top.set_ylabel("validation\naccuracy in %")
        bottom.set_ylabel("training loss")
        bottom.set_xlabel("epoch")
        return Picture("curves", svg(canvas, "curves"), "Validation accuracy and training loss by epoch.")


def confusion(reading: Reading) -> Picture:
    """The confusion matrix of the integer network over the test set."""
    counts = np.zeros((CLASSES, CLASSES), int)
    np.add.at(counts, (reading.labels, reading.classes), 1)
    wrong = int(counts.sum() - counts.trace())
    caption = f"The integer network over {counts.sum()} test digits: {wrong} are off the diagonal."
    return confusion_picture(counts, [str(digit) for digit in range(CLASSES)], "what was written", caption)


def reading_picture(reading: Reading, digit: int) -> Picture:
    """One digit: its image, its pixels in order, and the probability of every class after each of them."""
    pixels, steps = reading.pixels[digit], reading.pixels.shape[1]
    written, said = int(reading.labels[digit]), int(reading.classes[digit])
    with styled():
        canvas = Canvas(figsize=(WIDTH, 3.2))
        grid = canvas.add_gridspec(2, 2, width_ratios=(1, 4), height_ratios=(2, 5))
        image = canvas.add_subplot(grid[0, 0])
        heat_map(image, pixels.reshape(SIDE, SIDE), BLUE)
        image.set_aspect("equal")
        image.set_axis_off()
        sequence = canvas.add_subplot(grid[0, 1])
        sequence.bar(range(1, steps + 1), pixels, width=1, color=BLUE)
        sequence.set_ylabel("pixel")
        sequence.set_ylim(0, 16)
        sequence.tick_params(labelbottom=False)
        likely = canvas.add_subplot(grid[1, 1], sharex=sequence)
        _probabilities(likely, reading.probabilities[digit], written)
        sure = 100 * reading.probabilities[digit, -1, said]
        caption = f"A {written}, read as a {said}: {sure:.0f} % sure at the end."
        return Picture(f"digit-{digit}", svg(canvas, f"digit-{digit}"), caption)


def _probabilities(
    axes: Axes, probabilities: np.ndarray[tuple[int, int], np.dtype[np.float64]], written: int
) -> None:
    """Draw classes by steps; the label of the written digit is bold."""
    heat_map(axes, np.pad(probabilities.T, ((0, 0), (1, 0))), ORANGE)
    axes.set_xlim(0.5, len(probabilities) + 0.5)
    axes.set_yticks(range(CLASSES))
    axes.get_yticklabels()[written].set_fontweight("bold")
    axes.set_xlabel("pixels read")
    axes.set_ylabel("class")
