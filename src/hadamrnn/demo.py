"""Run the demo: handwritten digits from data to C, with a table and a page.

The steps are those of the commands train, quantize and export. Then the exported folder runs its own test,
which replays real digits and compares every bit. Start at `run_demo`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.deployment import real_golden, stored_sequences, task_pad
from hadamrnn.errors import InputError
from hadamrnn.export.c import export_c
from hadamrnn.export.page import live_network, live_part
from hadamrnn.export.targets import classify_on_host, has_compiler, target_named, try_measure
from hadamrnn.files import check_new_folder, write_atomically
from hadamrnn.fixedpoint.cost import fast_step_cost
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.pages.document import (
    BLUE,
    ORANGE,
    Cell,
    Document,
    Grid,
    Link,
    LivePart,
    Part,
    Picture,
    Section,
    to_html,
)
from hadamrnn.quantization.chain import input_codes
from hadamrnn.run import RunOptions, train
from hadamrnn.training.config import resolve_config
from hadamrnn.training.evaluate import MetricsRow
from hadamrnn.training.loop import Watcher

GOLDEN_DIGITS = 8
BOARD = "cortex-m4"
ABOUT = (
    "Draw a digit with a mouse, pen or finger, or choose an example from the test set. The network that was "
    "just trained reads it, with the same integers as its C: one pixel per step, from the upper left corner "
    "to the lower right. It was trained to answer correctly after the last pixel.",
    "Click a sign to flip it, or round the weights to fewer bits, and see how many answers stay correct.",
)


@dataclass(frozen=True)
class DemoResult:
    """The figures in the demo's table. A figure that was not measured is None; `missing` has the reason.

    `page` is the path of the page, or the reason why there is none.
    """

    hidden_size: int
    weight_bits: int
    activation_bits: int
    float_accuracy: float
    integer_accuracy: float
    c_accuracy: float | None
    c_test: bool | None
    payload_bytes: int
    additions_per_step: int
    instructions_per_step: int | None
    training_seconds: float
    c_folder: str
    missing: dict[str, str]
    page: str = ""


def headline(result: DemoResult) -> str:
    return (
        f"handwritten digits, one pixel per step: {result.hidden_size} hidden units, "
        f"{result.weight_bits}-bit weights, {result.activation_bits}-bit states"
    )


def table(result: DemoResult) -> list[tuple[str, str]]:
    """Return labels and values; a missing value is replaced by what to install."""

    def shown(name: str, show: Callable[[Any], str]) -> str:
        value = getattr(result, name)
        return result.missing[name] if value is None else show(value)

    def percent(share: float) -> str:
        return f"{100 * share:.2f} %"

    return [
        ("test accuracy, float", percent(result.float_accuracy)),
        ("test accuracy, integer", percent(result.integer_accuracy)),
        ("test accuracy, C", shown("c_accuracy", percent)),
        ("C and Python", shown("c_test", lambda same: "the same bits" if same else "DIFFERENT BITS")),
        ("weights", f"{result.payload_bytes:,} bytes"),
        ("additions for W h", f"{result.additions_per_step:,} per step, no multiplication"),
        (f"instructions, {BOARD}", shown("instructions_per_step", "{:,} per step".format)),
        ("training time", f"{result.training_seconds:.1f} s"),
    ]


def run_demo(out: Path, watcher: Watcher, *, epochs: int | None = None, seed: int = 0) -> DemoResult:
    """Train, quantize, export and check; write the folders run and c and the page demo.html into `out`."""
    check_new_folder(out, "Choose another --out.")
    # The network is small, and on a busy machine threads that wait for each other are slow, so use one.
    overrides = {"seed": seed, "threads": 1} | ({} if epochs is None else {"epochs": epochs})
    watcher.remark("1/4  training on scikit-learn's digits, one pixel per step")
    config = resolve_config("digits", preset="best", overrides=overrides)
    run = train(config, out / "run", RunOptions(watcher=watcher))
    watcher.remark("2/4  quantizing: integer weights, states and biases")
    quantized, splits = run.quantize(), run.splits
    integer = quantized.model
    watcher.remark("3/4  exporting C, compiling it and reading the test digits with it")
    x, labels, _ = splits.test.batch(slice(None))
    assert labels is not None
    codes, _ = input_codes(integer, x)
    export_c(integer, out / "c", "digits", golden=real_golden(integer, splits, sequences=GOLDEN_DIGITS))
    c_accuracy, c_test, missing = check_c(integer, codes, labels.numpy(), out / "c")
    watcher.remark(f"4/4  counting the instructions of a step on a {BOARD}")
    counted = try_measure(integer, target_named(BOARD))
    if isinstance(counted, str):
        missing["instructions_per_step"] = f"not counted, {counted}"
    result = DemoResult(
        hidden_size=integer.hidden_size,
        weight_bits=int(integer.weight_bits),
        activation_bits=integer.activation_bits,
        float_accuracy=quantized.float_value or 0.0,
        integer_accuracy=quantized.integer_value or 0.0,
        c_accuracy=c_accuracy,
        c_test=c_test,
        payload_bytes=quantized.size.payload,
        additions_per_step=fast_step_cost(integer.network).recurrent.additions,
        instructions_per_step=None if isinstance(counted, str) else counted.step,
        training_seconds=run.outcome.seconds if run.outcome else 0.0,
        c_folder=str(out / "c"),
        missing=missing,
    )
    stored, pad = stored_sequences(integer, splits), task_pad(integer, splits)
    board = (
        ()
        if isinstance(counted, str)
        else ((f"on a {BOARD.title()}", f"{counted.step:,} instructions per step"),)
    )
    live = live_network(integer, "digits", "Draw a digit", stored, paragraphs=ABOUT, pad=pad, figures=board)
    try:
        page = out / "demo.html"
        write_atomically(page, to_html(build_page(result, run.rows(), live_part(live))).encode())
    except InputError as error:  # matplotlib is missing
        return replace(result, page=f"not written. {error}")
    return replace(result, page=str(page))


def check_c(
    integer: IntegerModel, codes: NDArray[np.int32], labels: NDArray[np.int64], folder: Path
) -> tuple[float | None, bool | None, dict[str, str]]:
    """Return the accuracy of the compiled C, the result of its self-test, and reasons for missing figures."""
    if not has_compiler():
        reason = "not run, no C compiler (Debian: gcc)"
        return None, None, {"c_accuracy": reason, "c_test": reason}
    accuracy = float((classify_on_host(integer, codes) == labels).mean())
    if shutil.which("make") is None:
        return accuracy, None, {"c_test": "not run, no make (Debian: make)"}
    passed = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True).returncode == 0
    return accuracy, passed, {}


def build_page(result: DemoResult, curve: Sequence[MetricsRow], live: LivePart) -> Document:
    """Build the page: the network running on digits, the table, the training curves and the C."""
    lead, folder = headline(result), Path(result.c_folder).name
    lines = tuple((Cell(label), Cell(value)) for label, value in table(result))
    links = (
        Link(f"{folder}/README.md", "How to use the C"),
        Link(f"{folder}/digits.c", "The network, digits.c"),
        Link(f"{folder}/", "The whole folder"),
    )
    c99 = "C99, no heap, no floating point. Its self-test replays digits and compares every bit."
    sections = (
        Section("figures", "Figures", parts=(Part(grid=Grid(("what", "figure"), lines)),)),
        Section("learning", "Training", pictures=(training_curves(curve),)),
        Section("c", "The C", (c99,), links=links),
    )
    return Document("HadamRNN reads digits", (f"{lead[0].upper()}{lead[1:]}.",), sections, live)


def training_curves(curve: Sequence[MetricsRow]) -> Picture:
    """Plot loss and validation accuracy by epoch."""
    from hadamrnn.pages.drawing import Canvas, styled, svg

    with styled():
        canvas = Canvas(figsize=(4.4, 3.8))
        top, bottom = canvas.subplots(2, 1, sharex=True)
        epochs = [row.epoch for row in curve]
        accuracies = [100 * (row.validation_metric or 0.0) for row in curve]
        top.plot(epochs, accuracies, "o-", color=BLUE, markersize=2)
        bottom.plot(epochs, [row.loss for row in curve], "o-", color=ORANGE, markersize=2)
        bottom.set_yscale("log")
        top.set_ylabel("validation\naccuracy in %")
        bottom.set_ylabel("training loss")
        bottom.set_xlabel("epoch")
        return Picture("curves", svg(canvas, "curves"), "Validation accuracy and training loss by epoch.")
