"""Our networks beside the paper's, by size and performance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hadamrnn.pages.document import Cell, Grid, Part, Picture, Section
from hadamrnn.pages.drawing import Point
from hadamrnn.paper.compare import figure, lead, result_command, show
from hadamrnn.paper.main_tables import TABLES, TASKS
from hadamrnn.paper.results import Result
from hadamrnn.paper.rows import Row
from hadamrnn.paper.selection import setups

# The tasks for which the paper's data is available.
JUDGED = ("pmnist", "smnist", "copy", "imdb", "har2", "sst2")
INTEGER_BITS = 12
ROUNDING = 0.01  # printed sizes have two digits


def published_points(task: str) -> list[Point]:
    """Return the paper's networks on a task, where it prints both a size and a figure."""
    rows = [row for table in TABLES.values() if table.label for row in table.rows if row.task == task]
    return [_published(row) for row in rows if row.kilobytes and row.value is not None and not row.misprint]


def _published(row: Row) -> Point:
    assert row.value is not None
    value = row.value / 100 if TASKS[row.task].metric == "accuracy" else row.value
    bits = f", p={row.weight_bits}" if row.weight_bits not in ("", "FP") else ""
    return Point(float(row.kilobytes), value, f"{row.model} {row.hidden_size or ''}{bits}", row.model)


def measured_points(task: str, results: Iterable[Result]) -> list[tuple[Point, Result]]:
    """Return our networks on a task: one point with float activations, another in integers."""
    known = setups("all")
    points = []
    for result in results:
        if result.config["task"] != task or result.experiment not in known or result.note:
            continue
        setup = known[result.experiment][0]
        if not setup.network.is_hadamard:
            continue
        for bits in (None, INTEGER_BITS):
            value = figure(result, bits)
            if value is not None:
                size = setup.kilobytes(TASKS[task], bits, result.config)
                label = f"{result.experiment} {result.preset}, seed {result.seed}"
                label += ", ReLU recurrence" if setup.network.recurrence == "relu" else ""
                family = "integers" if bits else "float"
                points.append((Point(size, value, label, family, result.validation), result))
    return points


def standing_section(results: Sequence[Result], pictures: tuple[Picture, ...] = ()) -> Section:
    """Return the paper's best HadamRNN for each task, and the best of ours that is no larger."""
    header = (
        *("task", "paper's best", "at kB", "ours, no larger", "at kB", "difference", "network"),
        *("matches on validation from kB", "test there", "command"),
    )
    lines = tuple(_standing(name, results) for name in JUDGED)
    return Section(
        "standing",
        "Where this stands",
        (
            "For each task the paper's best HadamRNN or Block-HadamRNN, and of the networks measured here "
            "that take no more bytes the one that is best on validation data, whatever its preset and seed. "
            "Then the size of the smallest of ours whose validation figure reaches the paper's best, and its "
            "test figure. All other figures are of the test set, which chooses nothing. The command repeats "
            "the very run of the network that is named.",
        ),
        (Part(grid=Grid(header, lines)),),
        pictures,
    )


def _standing(name: str, results: Sequence[Result]) -> tuple[Cell, ...]:
    task = TASKS[name]
    sign = -1 if task.metric == "cross_entropy" else 1
    published = [point for point in published_points(name) if "Hadam" in point.family]
    paper = max(published, key=lambda point: sign * point.value)
    ours = measured_points(name, results)
    first = (Cell(task.title), Cell(show(task.metric, paper.value)), Cell(f"{paper.size:g}"))
    small = [pair for pair in ours if pair[0].size <= paper.size + _slack(paper)]
    if not small:
        return (*first, Cell("missing", "missing"), *[Cell()] * 6)
    # A network's float and integer forms share a validation figure; the smaller one is taken.
    best, result = max(small, key=lambda pair: (sign * pair[0].validation, -pair[0].size))
    matching = [point for point, _ in ours if sign * point.validation >= sign * paper.value]
    least = min(matching, key=lambda point: (point.size, -sign * point.validation), default=None)
    return (
        *first,
        Cell(show(task.metric, best.value)),
        Cell(f"{best.size:.2f}"),
        lead(task.metric, best.value, paper.value),
        Cell(f"{best.label}, {best.family}"),
        Cell("none yet" if least is None else f"{least.size:.2f}"),
        Cell("" if least is None else show(task.metric, least.value)),
        Cell(result_command(result), "code"),
    )


def _slack(point: Point) -> float:
    """Return by how much a printed size may be too low. For GLUE the paper prints whole kilobytes."""
    return 0.5 if point.size == int(point.size) else ROUNDING
