"""From data to C, step by step, with the result of every step.

Each step does what the command of the same name does: train, quantize, export, and the self-test of the
exported folder, which replays real digits and compares every bit. Start at `run_demo`.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.deployment import drawing_pad, real_golden, stored_sequences
from hadamrnn.errors import InputError
from hadamrnn.export.c import export_c
from hadamrnn.export.page import DrawingPad, Stored
from hadamrnn.export.targets import classify_on_host, has_compiler, target_named, try_measure
from hadamrnn.fixedpoint.cost import fast_step_cost
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.quantization.network import input_codes
from hadamrnn.run import RunOptions, train
from hadamrnn.training.config import resolve_config
from hadamrnn.training.progress import MetricsRow, Watcher

GOLDEN_DIGITS = 8
BOARD = "cortex-m4"


@dataclass(frozen=True)
class DemoResult:
    """The figures of the demo's table. None was not measured, and `missing` says why, by field."""

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


def headline(result: DemoResult) -> str:
    return (
        f"handwritten digits, one pixel a step: {result.hidden_size} hidden units, "
        f"{result.weight_bits}-bit weights, {result.activation_bits}-bit states"
    )


def table(result: DemoResult) -> list[tuple[str, str]]:
    """Return labels and values; a missing value says what to install."""
    return [
        ("test accuracy, float", _percent(result.float_accuracy)),
        ("test accuracy, integer", _percent(result.integer_accuracy)),
        ("test accuracy, C", _or_missing(result, "c_accuracy", _percent)),
        ("C beside Python", _or_missing(result, "c_test", _verdict)),
        ("weights", f"{result.payload_bytes:,} bytes"),
        ("additions for W h", f"{result.additions_per_step:,} a step, no multiplication"),
        (f"instructions, {BOARD}", _or_missing(result, "instructions_per_step", "{:,} a step".format)),
        ("training time", f"{result.training_seconds:.1f} s"),
    ]


def _or_missing(result: DemoResult, name: str, show: Callable[[Any], str]) -> str:
    value = getattr(result, name)
    return result.missing[name] if value is None else show(value)


def _verdict(same: bool) -> str:
    return "the same bits" if same else "DIFFERENT BITS"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


@dataclass(frozen=True, eq=False)
class PageContent:
    """The integer network, the test digits that the page plays, and the training curve."""

    model: IntegerModel
    stored: Stored
    pad: DrawingPad | None
    curve: tuple[MetricsRow, ...]  # one row a validation


def run_demo(
    out: Path,
    watcher: Watcher,
    *,
    epochs: int | None = None,
    seed: int = 0,
    say: Callable[[str], None] = lambda line: None,
) -> tuple[DemoResult, PageContent]:
    """Train, quantize, export and check; leave the run in `out`/run and the C in `out`/c."""
    if out.exists() and any(out.iterdir()):
        raise InputError(f"The demo needs a new or empty folder, got {out}. Choose another --out.")
    # One thread: the network is small, and two threads that wait for each other crawl on a busy machine.
    overrides = {"seed": seed, "threads": 1} | ({} if epochs is None else {"epochs": epochs})
    say("1/4  training on scikit-learn's digits, one pixel a step")
    config = resolve_config("digits", preset="best", overrides=overrides)
    run = train(config, out / "run", RunOptions(watcher=watcher))
    say("2/4  quantizing: integer weights, states and biases")
    quantized, splits = run.quantize(), run.splits
    integer, curve = quantized.model, tuple(run.rows())
    content = PageContent(integer, stored_sequences(integer, splits), drawing_pad(integer, splits), curve)
    say("3/4  exporting C, compiling it and reading the test digits with it")
    x, labels, _ = splits.test.batch(slice(None))
    assert labels is not None
    codes, _ = input_codes(integer, x)
    export_c(integer, out / "c", "digits", golden=real_golden(integer, splits, sequences=GOLDEN_DIGITS))
    c_accuracy, c_test, missing = check_c(integer, codes, labels.numpy(), out / "c")
    say(f"4/4  counting the instructions of a step on a {BOARD}")
    counted = try_measure(integer, target_named(BOARD))
    if isinstance(counted, str):
        missing["instructions_per_step"] = f"not counted, {counted}"
    cost = fast_step_cost(integer.network)
    result = DemoResult(
        hidden_size=integer.hidden_size,
        weight_bits=int(integer.weight_bits),
        activation_bits=integer.activation_bits,
        float_accuracy=quantized.float_value or 0.0,
        integer_accuracy=quantized.integer_value or 0.0,
        c_accuracy=c_accuracy,
        c_test=c_test,
        payload_bytes=quantized.size.payload,
        additions_per_step=cost.recurrent.additions,
        instructions_per_step=None if isinstance(counted, str) else counted.step,
        training_seconds=run.outcome.seconds if run.outcome else 0.0,
        c_folder=str(out / "c"),
        missing=missing,
    )
    return result, content


def check_c(
    integer: IntegerModel, codes: NDArray[np.int32], labels: NDArray[np.int64], folder: Path
) -> tuple[float | None, bool | None, dict[str, str]]:
    """Return the accuracy of the compiled C, whether the folder's self-test passed, and what is missing."""
    if not has_compiler():
        reason = "not run, no C compiler (Debian: gcc)"
        return None, None, {"c_accuracy": reason, "c_test": reason}
    accuracy = float((classify_on_host(integer, codes) == labels).mean())
    if shutil.which("make") is None:
        return accuracy, None, {"c_test": "not run, no make (Debian: make)"}
    passed = subprocess.run(["make", "-C", str(folder), "test"], capture_output=True).returncode == 0
    return accuracy, passed, {}
