"""Compare published and measured figures: find the results of a row, and how they differ from it."""

from __future__ import annotations

import json
import shlex
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hadamrnn.errors import InputError
from hadamrnn.pages.document import Cell
from hadamrnn.training.config import OPTIONS, PRESETS, config_values, resolve_config
from hadamrnn_paper.results import Result
from hadamrnn_paper.rows import Row, Setup, Task
from hadamrnn_paper.runner import Job
from hadamrnn_paper.tables import TABLES, TASKS

# A network whose cross-entropy exceeds this fraction of the cross-entropy of guessing has learnt nothing.
LEARNT = 0.95
# Settings that need no --set: they have their own options, or belong to the row.
SAID_ELSEWHERE = ("task", "task_options", "preset", "seed", "threads")
# Setting one of these resets the others.
SHAPE = {"hidden_size", "num_layers", "layer_sizes"}


@dataclass(frozen=True)
class Comparison:
    """The results of one row with one preset, one for each seed."""

    row: Row
    preset: str
    results: tuple[Result, ...]

    @property
    def task(self) -> Task:
        return TASKS[self.row.task]

    @property
    def setup(self) -> Setup:
        """The setup that all runs share."""
        assert self.row.setup is not None, "a row without a setup has no results"
        return self.row.setup

    @property
    def values(self) -> list[float]:
        """The test figures to compare with the published one; results with private labels have none."""
        found = (figure(result, self.row.activation_bits) for result in self.results)
        return [value for value in found if value is not None]

    @property
    def value(self) -> float:
        """The mean of `values`, if there are any."""
        return statistics.fmean(self.values)

    @property
    def validation(self) -> float:
        """The mean of the validation figures."""
        return statistics.fmean(result.validation for result in self.results)

    @property
    def kilobytes(self) -> float:
        """The size of the network."""
        return self.setup.kilobytes(self.task, self.row.activation_bits, self.results[0].config)

    @property
    def activations(self) -> str:
        """The format of the states: FP, or their number of bits."""
        return "float" if self.row.activation_bits is None else "integers"

    @property
    def compared(self) -> bool:
        """Whether the data was the paper's; otherwise a note of the data set says so."""
        return self.task.own_split or not any(result.note for result in self.results)

    @property
    def text(self) -> str:
        """The mean as the paper prints it, with its spread."""
        return show(self.task.metric, self.value) + spread(self.task.metric, self.values)

    def measured(self) -> Cell:
        """Return the mean with its spread, and with the number of seeds if there are several."""
        if not self.values:
            return Cell(f"labels private; validation {show(self.task.metric, self.validation)}")
        count, wanted = len(self.values), len(self.row.seeds)
        text = self.text
        if max(count, wanted) > 1:
            text += f" ({count} of {wanted} seeds)" if count < wanted else f" ({count} seeds)"
        return Cell(text)

    def difference(self) -> Cell:
        """Return the difference between the measured and the published figure, marked better or worse."""
        if not self.compared:
            return Cell("not compared")
        if not self.values or not self.row.published:
            return Cell()
        if self.task.metric == "accuracy":
            assert self.row.value is not None
            return lead(self.task.metric, self.value, self.row.value / 100)
        learnt = self.value < LEARNT * (self.task.baseline or 0)
        if self.row.value is None:
            return Cell("learns" if learnt else "BL too", "better")
        return lead(self.task.metric, self.value, self.row.value) if learnt else Cell("BL", "worse")

    def trained(self) -> str:
        """Return the length of the runs next to the paper's, and how they ended."""
        epochs = [result.epochs for result in self.results]
        paper = f" of {self.task.epochs}" if self.task.epochs not in (None, *epochs) else ""
        minutes = statistics.fmean(result.seconds for result in self.results) / 60
        diverged = [result.steps for result in self.results if result.ended == "diverged"]
        end = f"; diverged after step {diverged[0]}, best kept" if diverged else ""
        return f"{span(epochs)}{paper} epochs, {minutes:.1f} min{end}"

    def command(self) -> str:
        """Return the commands that repeat these runs; seeds with the same settings share one."""
        groups: dict[tuple[str, ...], list[int]] = {}
        for result in self.results:
            groups.setdefault(tuple(_settings(self.setup, result)), []).append(result.seed)
        base = ["hadamrnn", "reproduce", self.row.table, "--rows", self.setup.key, "--preset", self.preset]
        commands = []
        for settings, seeds in groups.items():
            chosen = [] if tuple(seeds) == self.row.seeds else [f"--seed {seed}" for seed in seeds]
            commands.append(" ".join([shlex.join(base), *chosen, *settings]))
        return "; ".join(commands)


def trains_on_validation(result: Result) -> bool:
    """Return whether training used the validation people, so that their figure must not select anything."""
    options = result.config.get("task_options", {})
    return "left_out" in options and options["left_out"] is None


def measurements(row: Row, results: Iterable[Result]) -> list[Comparison]:
    """Return the measurements for a row: a comparison for each preset, over all its seeds."""
    mine = [result for result in results if result.experiment == row.key]
    if row.activation_bits is not None:
        mine = [each for each in mine if each.integer and each.integer.activation_bits == row.activation_bits]
    mine.sort(key=lambda each: each.seed)
    runs = {preset: tuple(each for each in mine if each.preset == preset) for preset in PRESETS}
    return [Comparison(row, preset, found) for preset, found in runs.items() if found]


def figure(result: Result, activation_bits: int | None) -> float | None:
    """Return a result's test figure; the integer network's if the row has activation bits."""
    if activation_bits is None:
        return result.test
    return None if result.integer is None else result.integer.test


def published(experiment: str, activation_bits: int | None) -> str:
    """Return the figure that the paper prints for an experiment; empty if there is none.

    >>> published("pmnist-512-4bit", None), published("pmnist-512-4bit", 12)
    ('94.88', '94.90')
    """
    for table in TABLES.values():
        for row in table.rows:
            if row.published and (row.key, row.activation_bits) == (experiment, activation_bits):
                return row.published
    return ""


def show(metric: str, value: float) -> str:
    """Format a figure as the paper prints it.

    >>> show("accuracy", 0.94881), show("cross_entropy", 1.64e-7)
    ('94.88', '1.6e-07')
    """
    return f"{100 * value:.2f}" if metric == "accuracy" else f"{value:.1e}"


def spread(metric: str, values: Sequence[float]) -> str:
    """Return the spread over seeds: a standard deviation of accuracies, a range of cross-entropies.

    >>> spread("accuracy", [0.95, 0.96]), spread("cross_entropy", [2e-8, 1e-9]), spread("accuracy", [0.95])
    (' ± 0.71', ', 1.0e-09 to 2.0e-08', '')
    """
    if len(values) < 2:
        return ""
    if metric == "accuracy":
        return f" ± {100 * statistics.stdev(values):.2f}"
    return f", {show(metric, min(values))} to {show(metric, max(values))}"


def span(values: Sequence[float]) -> str:
    """Return the least and the greatest value, or a single value if they are equal.

    >>> span([3.0, 1.5]), span([2.0, 2.0])
    ('1.5 to 3', '2')
    """
    return " to ".join(dict.fromkeys(f"{value:.3g}" for value in (min(values), max(values))))


def home(experiment: str) -> Row:
    """Return the row of an experiment, from the first table that contains it."""
    for table in TABLES.values():
        for row in table.rows:
            if row.key == experiment:
                return row
    raise InputError(f"No table has {experiment}, so no command repeats it.")


def result_command(result: Result) -> str:
    """Return the command that repeats a result, using the first table that contains its experiment."""
    return Comparison(home(result.experiment), result.preset, (result,)).command()


def train_command(result: Result) -> str:
    """Return the command that repeats a run that belongs to no table."""
    config = result.settings
    overrides = {"model": config["model"]}
    today = config_values(resolve_config(config["task"], preset=result.preset, overrides=overrides))
    words = ["hadamrnn", "train", config["task"], "--preset", result.preset, "--model", config["model"]]
    changed = {name for name, value in config.items() if value != today.get(name)}
    if changed & SHAPE:
        changed |= SHAPE
    for name, value in config.items():
        if name in ("task", "preset", "model") or name not in changed:
            continue
        if name not in (*OPTIONS, "task_options"):  # settings that only this kind of network has
            words += ["--model-option", f"{name}={_text(value)}"]
            continue
        flag = "--" + name.replace("_", "-")
        if isinstance(value, dict):
            switched_off = {key: False for key, default in today[name].items() if default is True}
            for key, each in {**switched_off, **value}.items():
                words += [flag.removesuffix("s"), f"{key}={each}"]
        elif isinstance(value, bool):
            words.append(flag if value else flag.replace("--", "--no-", 1))
        elif value is not None or name not in ("epochs", "steps"):
            words += [flag, _text(value)]
    return shlex.join([*words, "--out", "RUN"])


def lead(metric: str, ours: float, paper: float) -> Cell:
    """Return the lead of one figure over another: points of accuracy, or a ratio of cross-entropies.

    >>> lead("accuracy", 0.9501, 0.9488)
    Cell(text='+0.13', mark='better')
    """
    if metric == "accuracy":
        points = round(100 * ours, 2) - round(100 * paper, 2)
        return Cell(f"{points:+.2f}", "better" if points > -0.005 else "worse")
    ratio = ours / paper
    return Cell(f"{ratio:.2g} times", "better" if ratio < 1.05 else "worse")


def _text(value: object) -> str:
    """Return a setting as text for the command line."""
    if value is None or value == []:
        return "none"
    if isinstance(value, list):
        return ",".join(map(str, value))
    return json.dumps(value) if isinstance(value, dict) else str(value)


def _settings(setup: Setup, result: Result) -> Sequence[str]:
    """Return the options that turn today's preset into the configuration that was run."""
    today = config_values(Job(setup, result.preset, result.seed).config)
    changed = [
        f"--set {shlex.quote(f'{name}={_text(value)}')}"
        for name, value in result.settings.items()
        if name not in SAID_ELSEWHERE and value != today.get(name)
    ]
    # Setting epochs unsets steps, and vice versa.
    changed = [option for option in changed if option not in ("--set epochs=none", "--set steps=none")]
    threads = result.settings["threads"]
    return [*changed, *([] if threads is None else [f"--threads {threads}"])]
