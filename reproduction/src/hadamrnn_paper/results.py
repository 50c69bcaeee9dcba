"""Store the figures of a trained run as a result: one line of JSON that is never written by hand.

The test set is read once, in `measure_run`, after every choice has been made. A folder has one JSON Lines
file for each task. A line holds the configuration, the figures and the processor, but no host name, path or
date, so results of several machines can share a folder under version control.
"""

from __future__ import annotations

import json
import math
import platform
from dataclasses import asdict, dataclass, field
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Annotated, Any

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.files import check_format, claim, parse_json, read_regular, write_atomically
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.calibration import NotFinite
from hadamrnn.quantization.chain import IntegerNetwork, quantize
from hadamrnn.quantization.lowering import can_lower
from hadamrnn.quantization.results import save_integer
from hadamrnn.run import Run
from hadamrnn.settings import Count, OneOf, Range, Seed, check, from_json
from hadamrnn.training.config import PRESETS, TrainingConfig, config_values, make_config
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.folder import RunFolder
from hadamrnn_paper.rows import Setup, Task
from hadamrnn_paper.tables import TASKS

FORMAT = "hadamrnn result"
FORMAT_VERSION = 1
MAX_FILE_BYTES = 1 << 26
LOCKS = ".locks"
ADVICE = "Remove it and run its row again."
CURVE_POINTS = 200
CURVE_DIGITS = 5
CURVE = ("epoch", "loss", "validation", "flips")


@dataclass(frozen=True)
class IntegerFigures:
    """The figures of a run's integer network.

    Args:
        test: the metric over the test set; None if its labels are private.
        hidden_shift: n_h, with alpha_W alpha_h = 2^n_h.
        saturations: clipped state entries over the test set.
    """

    activation_bits: int
    test: float | None
    kilobytes: float
    hidden_shift: Annotated[int, Range(0, 31)]
    saturations: int


@dataclass(frozen=True)
class Result:
    """One finished run.

    Args:
        experiment: the key of its setup.
        config: every field of `TrainingConfig`.
        test: the metric over the test set, of the best model by validation; None if labels are private.
        integer: the same network in integers; None if it has no integer form.
        kilobytes: size with float activations, by the rule of the paper's tables; None if there is no rule.
        ended: finished or diverged; a diverged run is measured at its best earlier model.
        curve: columns epoch, loss, validation and flips, one entry per validation.
        note: the data set's remark, shown beside the figures.
    """

    experiment: str
    preset: str
    seed: Seed
    config: dict[str, Any]
    metric: str
    test: float | None
    validation: float
    integer: IntegerFigures | None
    kilobytes: float | None
    steps: Count
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
        check("preset", self.preset, Annotated[str, OneOf(PRESETS)])
        if "task" not in self.config:
            raise InputError("config must name its task.")
        _ = self.settings  # raises if a setting is invalid
        columns = list(self.curve.values())
        lengths = {len(column) for column in columns}
        if self.curve and (self.curve.keys() != set(CURVE) or len(lengths) > 1 or 0 in lengths):
            raise InputError(f"curve must hold {', '.join(CURVE)}: lists of one length, not empty.")
        numbers = (self.test, self.validation, self.kilobytes, self.epochs, self.seconds)
        integer = self.integer.test if self.integer else None
        figures = chain(numbers, [integer], *columns)
        if not all(figure is None or math.isfinite(figure) for figure in figures):
            raise InputError("All figures must be finite.")

    @cached_property
    def settings(self) -> dict[str, Any]:
        """Every setting of the run; settings introduced since have their defaults."""
        return config_values(make_config(**self.config))

    @property
    def name(self) -> str:
        return result_name(self.experiment, self.preset, self.seed)


def result_name(experiment: str, preset: str, seed: int) -> str:
    """Return the name that a result, its lock and its run folder share.

    >>> result_name("pmnist-512-4bit", "best", 0)
    'pmnist-512-4bit.best.seed0'
    """
    return f"{experiment}.{preset}.seed{seed}"


def result_file(folder: Path, task: str) -> Path:
    """Return the path of a task's results file; the same run may be shown in several tables."""
    return folder / f"{task}.jsonl"


def write_result(folder: Path, result: Result) -> Path:
    """Add `result` to its task's file, replacing an earlier result of the same name; return the path.

    Processes take turns and replace the whole file atomically, so no line is lost and readers need no lock.
    """
    path = result_file(folder, result.config["task"])
    with claim(folder / LOCKS, path.name, patient=True) as held:
        if held is None:
            raise InputError(f"{path} must be free to write, but another process holds it. Try again.")
        results = {each.name: each for each in read_file(path)} | {result.name: result}
        lines = (json.dumps(_fields(FORMAT, asdict(results[name]))) for name in sorted(results))
        write_atomically(path, "".join(f"{line}\n" for line in lines).encode())
    return path


def write_fields(path: Path, kind: str, values: dict[str, Any]) -> Path:
    """Write JSON for `read_json` with one line per field, which is short and gives readable diffs."""
    fields = _fields(kind, values).items()
    lines = (f"{json.dumps(name)}: {json.dumps(value)}" for name, value in fields)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, ("{\n" + ",\n".join(lines) + "\n}\n").encode())
    return path


def _fields(kind: str, values: dict[str, Any]) -> dict[str, Any]:
    return {"format": kind, "version": FORMAT_VERSION, **values}


def read_file(path: Path) -> list[Result]:
    """Return the results in a file, one per line; an absent file has none."""
    if not path.exists():
        return []
    lines = read_regular(path, MAX_FILE_BYTES).splitlines()
    results = [_read_line(line, f"{path}, line {number},") for number, line in enumerate(lines, 1)]
    for result in results:
        if result.config["task"] != path.stem:
            raise InputError(f"{path} must hold results of {path.stem}, got {result.name}.")
    return results


def _read_line(line: bytes, source: str) -> Result:
    values = parse_json(line, source)
    if not isinstance(values, dict):
        raise InputError(f"{source} is damaged: it must hold names and values. {ADVICE}")
    check_format(values, source, FORMAT, FORMAT_VERSION, ADVICE)
    return from_json(
        Result, {name: values[name] for name in values if name not in ("format", "version")}, source
    )


def find_result(folder: Path, task: str, name: str) -> Result | None:
    """Return the result of this name, or None if the folder has none."""
    return next((each for each in read_file(result_file(folder, task)) if each.name == name), None)


def read_results(folder: Path) -> list[Result]:
    """Return all results in a folder, sorted by name; an absent folder has none."""
    found = (result for path in sorted(folder.glob("*.jsonl")) for result in read_file(path))
    return sorted(found, key=lambda result: result.name)


def curve_columns(rows: list[dict[str, Any]]) -> dict[str, list[float]]:
    """Return the rows of metrics.jsonl as columns, at most `CURVE_POINTS` long.

    A longer run keeps every n-th row, counting back from the last, and sums the flips in between.

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
    """Return the name of the processor, such as `Intel(R) Xeon(R) CPU`."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def measure_run(setup: Setup, path: Path, splits: Splits, ended: str = "finished") -> Result:
    """Return the figures of the run at `path`, and write its integer network into the folder."""
    run = Run.open(path)
    model, config = run.model, run.config
    rows = [asdict(row) for row in run.rows()]
    # A diverged run has no `Outcome`.
    choose = max if splits.metric == "accuracy" else min
    best = rows[-1] if config.keep == "last" else choose(rows, key=lambda row: row["validation_metric"])
    return Result(
        experiment=setup.key,
        preset=str(config.preset),
        seed=config.seed,
        config=config_values(config),
        metric=splits.metric,
        test=evaluate(model, splits.test, splits.metric) if splits.test.labelled else None,
        validation=best["validation_metric"],
        integer=integer_figures(setup, model, splits, run),
        kilobytes=float_kilobytes(setup, splits, config),
        steps=rows[-1]["step"],
        epochs=round(rows[-1]["epoch"], 4),
        best_step=best["step"],
        seconds=round(rows[-1]["seconds"], 1),
        ended=ended,
        threads=run.record.threads,
        cpu=cpu_model(),
        versions=run.record.versions,
        note=splits.note,
        curve=curve_columns(rows),
    )


def integer_figures(
    setup: Setup, model: SequenceModel, splits: Splits, folder: RunFolder
) -> IntegerFigures | None:
    """Quantize the network, save it in the folder, and return its figures; None if it has no integer form."""
    network = model.network
    if not isinstance(network, Network) or network.bidirectional or not can_lower(model):
        return None
    try:
        integer = quantize(model, splits, QuantizeConfig(activation_bits=setup.integer_bits))
    except NotFinite:  # the run diverged
        return None
    metadata = {"task": splits.task, "metric": splits.metric, "experiment": setup.key}
    save_integer(integer, folder.path, metadata)
    engine = IntegerNetwork(integer, folder.record.threads)
    return IntegerFigures(
        activation_bits=setup.integer_bits,
        test=evaluate(engine, splits.test, splits.metric) if splits.test.labelled else None,
        kilobytes=round(network_size(integer.network).kilobytes, 4),
        hidden_shift=integer.layers[0].hidden_shift,
        saturations=engine.saturations,
    )


def float_kilobytes(setup: Setup, splits: Splits, config: TrainingConfig) -> float:
    """Return the size with float activations, by the rule of the paper's tables."""
    task = TASKS.get(setup.task) or Task(
        splits.task, splits.task, splits.seq_length, splits.input_size, splits.output_size
    )
    return round(setup.kilobytes(task, config=config_values(config)), 4)
