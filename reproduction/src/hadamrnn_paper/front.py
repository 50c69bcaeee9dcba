"""Compare our networks with the paper's, by size and performance.

A network is a setup with a preset; its figures are means over its seeds. Start at `standings`.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from hadamrnn.network import Network, hadamard
from hadamrnn.pages.document import Cell, Grid, Picture, Section, grid_section
from hadamrnn.pages.drawing import Point
from hadamrnn_paper.compare import Comparison, home, lead, measurements, show, trains_on_validation
from hadamrnn_paper.results import Result
from hadamrnn_paper.rows import Row, Task
from hadamrnn_paper.runner import setups
from hadamrnn_paper.tables import TABLES, TASKS

# The tasks for which the paper's data is available; of QQP there is only a subset.
JUDGED = ("pmnist", "smnist", "copy", "imdb", "har2", "dsa19", "sst2")
SEEDS = 5  # a network needs at least this many seeds to represent a task
TIED = "\u00a0"  # a non-breaking space
ROUNDING = 0.01  # printed sizes have two decimals


def published_points(task: str) -> list[Point]:
    """Return the paper's networks for a task that have both a printed size and a figure."""
    rows = [row for table in TABLES.values() if table.label for row in table.rows if row.task == task]
    return [_published(row) for row in rows if row.kilobytes and row.value is not None and not row.misprint]


def _published(row: Row) -> Point:
    assert row.value is not None
    value = row.value / 100 if TASKS[row.task].metric == "accuracy" else row.value
    bits = f", p={row.weight_bits}" if row.weight_bits not in ("", "FP") else ""
    return Point(float(row.kilobytes), value, f"{row.model} {row.hidden_size or ''}{bits}", row.model)


def measured(task: str, results: Sequence[Result]) -> list[Comparison]:
    """Return our networks on a task, with float activations and in integers, if they are comparable."""
    found = []
    for key, (setup, _) in setups("all").items():
        if setup.task != task or not isinstance(setup.network, Network) or setup.task_options:
            continue  # task options change its split
        for bits in (None, setup.integer_bits):
            found += measurements(replace(home(key), activation_bits=bits), results)
    return [each for each in found if each.values and each.compared]


def selection_figure(found: Comparison, results: Sequence[Result]) -> float | None:
    """Return the figure that selects a network, measured on held-out data; None if there is none.

    It is the mean validation figure over the seeds. For a network that was also trained on the validation
    people, it is the mean of the cross-validation, if all folds have run.
    """
    if not any(trains_on_validation(result) for result in found.results):
        return found.validation
    key = found.setup.key
    folds = [fold for fold, _ in setups("selection").values() if replace(fold, task_options={}).key == key]
    runs = [
        result.validation
        for fold in folds
        for result in results
        if result.experiment == fold.key and result.preset == found.preset
    ]
    return statistics.fmean(runs) if folds and len(runs) >= len(folds) else None


@dataclass(frozen=True)
class Standing:
    """The paper's best network for a task, and two of ours, selected by `selection_figure`.

    Args:
        best: our best network no larger than the paper's; None if nothing is measured.
        least: our smallest network whose selection figure reaches the paper's best; None if there is none.
    """

    task: Task
    paper: Point
    best: Comparison | None
    least: Comparison | None

    @property
    def lead(self) -> Cell:
        """The lead of `best` over the paper's best on the test set; empty if nothing is measured."""
        if self.best is None:
            return Cell()
        found = lead(self.task.metric, self.best.value, self.paper.value)
        return replace(found, text=f"{found.text}, level") if self.is_level else found

    @property
    def is_level(self) -> bool:
        """Whether the difference lies within one standard deviation over the seeds."""
        values = [] if self.best is None or self.task.metric != "accuracy" else self.best.values
        if len(values) < 2:
            return False
        return abs(statistics.fmean(values) - self.paper.value) <= statistics.stdev(values)

    @property
    def is_leaky_stack(self) -> bool:
        """Whether `best` has several leaking layers, unlike all networks of the paper."""
        network = None if self.best is None else hadamard(self.best.setup.network)
        return network is not None and bool(network.leak) and network.num_layers > 1


def standings(results: Sequence[Result]) -> list[Standing]:
    """Return the standing of each task, preferring networks that have at least `SEEDS` seeds."""
    return [_standing(TASKS[name], results) for name in JUDGED]


def _standing(task: Task, results: Sequence[Result]) -> Standing:
    sign = -1 if task.metric == "cross_entropy" else 1
    published = [point for point in published_points(task.name) if "Hadam" in point.family]
    paper = max(published, key=lambda point: sign * point.value)
    figures = [(selection_figure(each, results), each) for each in measured(task.name, results)]
    every = [(sign * figure, each) for figure, each in figures if figure is not None]
    ours = [(figure, each) for figure, each in every if len(each.results) >= SEEDS] or every
    small = [(figure, each) for figure, each in ours if each.kilobytes <= paper.size + _slack(paper)]
    matching = [(figure, each) for figure, each in ours if figure >= sign * paper.value]
    # A network's float and integer forms share a selection figure; choose the smaller form.
    best = max(small, key=lambda each: (each[0], -each[1].kilobytes), default=(None, None))
    least = min(matching, key=lambda each: (each[1].kilobytes, -each[0]), default=(None, None))
    return Standing(task, paper, best[1], least[1])


def _slack(point: Point) -> float:
    """Return the rounding error of a printed size; for GLUE the paper prints whole kilobytes."""
    return 0.5 if point.size == int(point.size) else ROUNDING


def standing_section(found: Sequence[Standing], pictures: tuple[Picture, ...] = ()) -> Section:
    """Return the section with the paper's best HadamRNN for each task, and our best that is no larger."""
    header = ("task", "paper's best", "ours, no larger", "difference")
    lines = []
    for each in found:
        paper = f"{show(each.task.metric, each.paper.value)} in {each.paper.size:g}{TIED}kB"
        ours = Cell("missing", "missing") if each.best is None else Cell(_ours(each.best))
        lines.append((Cell(each.task.title), Cell(paper), ours, each.lead))
    text = (
        "The paper's best HadamRNN or Block-HadamRNN, and our best that needs no more memory: test accuracy "
        "in percent, and the difference in points. For the copy task it is cross-entropy, where less is "
        "better, and ours as a multiple of the paper's. ▲ is level with the paper or ahead, ▼ behind; level: "
        "within one standard deviation over the seeds. For SST-2 the paper "
        "prints whole kilobytes; ours is a network of the size that it describes."
    )
    return grid_section("standing", "Where this stands", text, Grid(header, tuple(lines)), pictures)


def _ours(best: Comparison) -> str:
    """Return figure, size, number of seeds and, if it is not linear, recurrence, with non-breaking spaces."""
    count = len(best.results)
    seeds = f"{count}{TIED}seed{'s' if count > 1 else ''}"
    relu = ", ReLU recurrence" if hadamard(best.setup.network).recurrence == "relu" else ""
    return f"{best.text.replace(' ', TIED)} in {best.kilobytes:.2f}{TIED}kB, {seeds}{relu}"


def networks_section(found: Sequence[Standing], pictures: tuple[Picture, ...] = ()) -> Section:
    """Return the section on the networks behind `standing_section` and the smallest that match the paper."""
    header = ("task", "network", "runs", "matches on validation from kB", "test there", "command")
    lines = []
    for each in found:
        best, least = each.best, each.least
        if best is None:
            lines.append((Cell(each.task.title), *[Cell()] * 5))
            continue
        matching = ("none yet", "") if least is None else (f"{least.kilobytes:.2f}", least.text)
        texts = (each.task.title, f"{best.setup.title}, {best.activations}", _runs(best), *matching)
        lines.append((*map(Cell, texts), Cell(best.command(), "code")))
    text = (
        "The network behind each line above: the best on validation data among those no larger than the "
        "paper's best. Then the size of the smallest network whose validation figure reaches the paper's "
        "best, and its test figure. Figures are means over the seeds with the standard deviation, or for the "
        f"copy task with the range. A network with fewer than {SEEDS} seeds counts only where none has more; "
        "the test set selects nothing. The networks of DSA-19 train on all four people of their half; they "
        "are selected by cross-validation over these people (Selection with held-out people). The command "
        "repeats the runs."
    )
    return grid_section("networks", "The networks behind it", text, Grid(header, tuple(lines)), pictures)


def _runs(found: Comparison) -> str:
    """Return the preset and the seeds.

    >>> from types import SimpleNamespace as Runs
    >>> _runs(Runs(preset="best", results=[Runs(seed=2)]))
    'best, seed 2'
    """
    seeds = [str(result.seed) for result in found.results]
    return f"{found.preset}, seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"
