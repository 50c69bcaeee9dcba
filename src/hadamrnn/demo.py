"""The demo: handwritten digits from data to C.

Each step is what the command of the same name does: train, quantize, export, and the self-test of the
exported folder, which replays real digits and compares every bit. Start at `run_demo`.
"""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from hadamrnn import fixedpoint
from hadamrnn.data import Splits, load_task
from hadamrnn.errors import InputError
from hadamrnn.export.c import export_c
from hadamrnn.export.golden import fit_golden
from hadamrnn.fixedpoint.cost import fast_step_cost
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.quantization.chain import QuantizeConfig, quantize
from hadamrnn.quantization.network import IntegerNetwork, input_codes
from hadamrnn.training.config import resolve_config
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.progress import Watcher
from hadamrnn.training.run import Sitting, train

GOLDEN_DIGITS = 8


@dataclass(frozen=True)
class DemoResult:
    """What the demo's table shows; `c_test` is None where no compiler was found."""

    hidden_size: int
    weight_bits: int
    float_accuracy: float
    integer_accuracy: float
    c_test: bool | None
    payload_bytes: int
    additions_per_step: int
    training_seconds: float
    c_folder: str


def run_demo(out: Path, watcher: Watcher, *, epochs: int | None = None, seed: int = 0) -> DemoResult:
    """Train, quantize, export and check; leave the run in `out`/run and the C in `out`/c."""
    if out.exists() and any(out.iterdir()):
        raise InputError(f"The demo needs a new or empty folder, got {out}. Choose another --out.")
    overrides = {"seed": seed} if epochs is None else {"seed": seed, "epochs": epochs}
    config = resolve_config("digits", preset="best", overrides=overrides)
    outcome = train(config, out / "run", Sitting(watcher=watcher))
    splits = load_task("digits")
    integer, _ = quantize(outcome.model, splits, QuantizeConfig())
    size = fixedpoint.save(integer, out / "run" / fixedpoint.FILE_NAME)
    export_digits(integer, splits, out / "c")
    cost = fast_step_cost(integer.hidden_size, integer.input_size, integer.output_size)
    return DemoResult(
        hidden_size=integer.hidden_size,
        weight_bits=int(integer.weight_bits),
        float_accuracy=evaluate(outcome.model, splits.test, splits.metric),
        integer_accuracy=evaluate(IntegerNetwork(integer), splits.test, splits.metric),
        c_test=run_self_test(out / "c"),
        payload_bytes=size.payload,
        additions_per_step=cost.recurrent.additions,
        training_seconds=outcome.seconds,
        c_folder=str(out / "c"),
    )


def export_digits(integer: IntegerModel, splits: Splits, folder: Path) -> None:
    """Export C whose golden vectors are the first digits of the test set."""
    digits, _, _ = splits.test.batch(slice(GOLDEN_DIGITS))
    codes, _ = input_codes(integer, digits)
    golden = fit_golden(integer, codes, source="digits of the test set", sequences=GOLDEN_DIGITS)
    export_c(integer, folder, "digits", golden=golden)


def run_self_test(folder: Path) -> bool | None:
    """Build the exported folder and run its test; None without make and a compiler."""
    if shutil.which("make") is None or shutil.which("cc") is None:
        return None
    return subprocess.run(["make", "-C", str(folder), "test"], capture_output=True).returncode == 0
