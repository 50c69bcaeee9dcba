"""A measured row on disk: one small JSON file per run, written by the runner and never by hand.

It holds the configuration, the figures and the kind of machine, but no host name, path or date, so results
of several machines can share a folder under version control.
"""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict, dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from hadamrnn.errors import InputError, check_choice
from hadamrnn.files import read_json, write_atomically
from hadamrnn.records import from_json

FORMAT = "hadamrnn result"
FORMAT_VERSION = 1
ADVICE = "Remove it and run its row again."
CURVE_POINTS = 200
CURVE_DIGITS = 5
CURVE = ("epoch", "loss", "validation", "flips")
PRESETS = ("paper", "best", "quick")


@dataclass(frozen=True)
class IntegerFigures:
    """The figures of the integer network.

    Args:
        test: the metric over the test set; None if its labels are private.
        hidden_shift: n_h, with alpha_W alpha_h = 2^n_h.
        saturations: clipped state entries over the test set.
    """

    activation_bits: int
    test: float | None
    kilobytes: float
    hidden_shift: int
    saturations: int


@dataclass(frozen=True)
class Result:
    """One finished run.

    Args:
        experiment: its key.
        config: every field of `TrainingConfig`.
        test: the metric over the test set, of the best model by validation; None if labels are private.
        integer: the same network in integers; None where it has no integer form.
        kilobytes: with float activations, by the rule of the paper's tables; None if there is no rule.
        ended: finished or diverged; a diverged run is measured at its best model before that.
        curve: columns epoch, loss, validation, flips of the run's validations.
        note: the data set's remark, shown beside the figures.
    """

    experiment: str
    preset: str
    seed: int
    config: dict[str, Any]
    metric: str
    test: float | None
    validation: float
    integer: IntegerFigures | None
    kilobytes: float | None
    steps: int
    epochs: float
    best_step: int
    seconds: float
    ended: str
    threads: int
    cpu: str
    versions: dict[str, str | None]
    note: str = ""
    curve: dict[str, list[float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_choice("preset", self.preset, PRESETS)
        if not all(isinstance(self.config.get(name), str) for name in ("task", "model")):
            raise InputError("config must name its task and model.")
        columns = [self.curve.get(name, []) for name in CURVE]
        if self.curve.keys() - set(CURVE) or len({len(column) for column in columns}) > 1:
            raise InputError(f"curve must hold {', '.join(CURVE)}, lists of one length.")
        numbers = (self.test, self.validation, self.kilobytes, self.epochs, self.seconds)
        figures = chain(numbers, *columns)
        if not all(figure is None or math.isfinite(figure) for figure in figures):
            raise InputError("All figures must be finite.")

    @property
    def name(self) -> str:
        return result_name(self.experiment, self.preset, self.seed)


def result_name(experiment: str, preset: str, seed: int) -> str:
    """Return the name of a result, its lock and its run folder.

    >>> result_name("pmnist-512-4bit", "best", 0)
    'pmnist-512-4bit.best.seed0'
    """
    return f"{experiment}.{preset}.seed{seed}"


def write_result(folder: Path, result: Result) -> Path:
    """Write `result` into `folder`, whole or not at all, and return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{result.name}.json"
    write_atomically(path, dump({"format": FORMAT, "version": FORMAT_VERSION, **asdict(result)}))
    return path


def dump(values: dict[str, Any]) -> bytes:
    """Return JSON with one line per field: short, and readable in a diff."""
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in values.items())
    return ("{\n" + ",\n".join(lines) + "\n}\n").encode()


def read_result(path: Path) -> Result:
    """Return the result that `write_result` wrote."""
    result = from_json(Result, read_json(path, FORMAT, FORMAT_VERSION, ADVICE), path)
    if path.name != f"{result.name}.json":
        raise InputError(f"{path} holds the result {result.name}: a result's file has its name.")
    return result


def read_results(folder: Path) -> list[Result]:
    """Return all results of a folder, ordered by name; an absent folder has none."""
    return [read_result(path) for path in sorted(folder.glob("*.seed*.json"))]


def curve_columns(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the rows of metrics.jsonl as columns, at most `CURVE_POINTS` long.

    A longer run keeps every n-th row, counted from the last; flips in between are summed.

    >>> row = {"epoch": 1.0, "loss": 0.123456789, "validation_metric": 0.5, "flips": 3}
    >>> curve_columns([row])
    {'epoch': [1.0], 'loss': [0.12346], 'validation': [0.5], 'flips': [3]}
    """
    stride = max(1, -(-len(rows) // CURVE_POINTS))
    parts = [rows[max(0, end - stride) : end] for end in range(len(rows), 0, -stride)][::-1]

    def column(name: str) -> list[float]:
        return [float(f"{part[-1][name]:.{CURVE_DIGITS}g}") for part in parts]

    return {
        "epoch": column("epoch"),
        "loss": column("loss"),
        "validation": column("validation_metric"),
        "flips": [sum(row["flips"] for row in part) for part in parts],
    }


def cpu_model() -> str:
    """Return the kind of processor, such as `Intel(R) Xeon(R) CPU`."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()
