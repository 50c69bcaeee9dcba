"""Where we stand beside the paper, in the plane of size and performance."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from hadamrnn.pages.document import Cell, Grid, Part, Section
from hadamrnn.pages.drawing import Point
from hadamrnn.paper.compare import figure, show
from hadamrnn.paper.main_tables import TABLES, TASKS
from hadamrnn.paper.results import Result
from hadamrnn.paper.rows import Row
from hadamrnn.paper.selection import experiments

# Those of which the paper's data is at hand.
JUDGED = ("pmnist", "smnist", "copy", "imdb", "har2", "sst2")
INTEGER_BITS = 12
# The printed sizes are rounded to two digits.
ROUNDING = 0.01


def published_points(task: str) -> list[Point]:
    """Return the paper's networks on a task that have a size and a figure."""
    rows = [row for table in TABLES.values() if table.label for row in table.rows if row.task == task]
    return [_published(row) for row in rows if row.kilobytes and row.value is not None and not row.misprint]


def _published(row: Row) -> Point:
    assert row.value is not None
    value = row.value / 100 if TASKS[row.task].metric == "accuracy" else row.value
    bits = f", p={row.weight_bits}" if row.weight_bits not in ("", "FP") else ""
    return Point(float(row.kilobytes), value, f"{row.model} {row.hidden_size or ''}{bits}", row.model)


def measured_points(task: str, results: Iterable[Result]) -> list[Point]:
    """Return our networks on a task: with float activations and, another point, in integers."""
    known = experiments("all")
    points = []
    for result in results:
        if result.config["task"] != task or result.experiment not in known or result.note:
            continue
        experiment = known[result.experiment][0]
        if experiment.model != "hadamrnn":
            continue
        for bits in (None, INTEGER_BITS):
            value = figure(result, bits)
            if value is not None:
                size = experiment.kilobytes(TASKS[task], bits, result.config)
                name = f"{result.experiment} {result.preset}"
                family = "integers" if bits else "float"
                points.append(Point(size, value, name, family, result.validation))
    return points


def standing_section(results: Sequence[Result]) -> Section:
    """Return, task by task, the paper's best HadamRNN and the best of ours that is no larger."""
    header = (
        *("task", "paper's best", "at kB", "ours, no larger", "at kB", "difference"),
        *("network", "matched from kB"),
    )
    lines = tuple(_standing(name, results) for name in JUDGED)
    return Section(
        "standing",
        "Where this stands",
        (
            "For each task the paper's best HadamRNN or Block-HadamRNN, and of the networks measured here "
            "that take no more bytes the one that is best on validation data, whatever its preset and seed; "
            "then the smallest of ours that matches the paper's best. Figures are of the test set. "
            "Tables below have every row.",
        ),
        (Part(grid=Grid(header, lines)),),
    )


def _standing(name: str, results: Sequence[Result]) -> tuple[Cell, ...]:
    task = TASKS[name]
    lower = task.metric == "cross_entropy"

    def gain(point: Point) -> float:
        return -point.value if lower else point.value

    paper = max((point for point in published_points(name) if "Hadam" in point.family), key=gain)
    ours = measured_points(name, results)
    first = (Cell(task.title), Cell(show(task.metric, paper.value)), Cell(f"{paper.size:g}"))
    small = [point for point in ours if point.size <= paper.size + _slack(paper)]
    if not small:
        return (*first, Cell("missing", "missing"), *[Cell()] * 4)
    # Test figures choose nothing; of the float and the integer form of a network the smaller stands here.
    best = max(small, key=lambda point: (-point.validation if lower else point.validation, -point.size))
    if lower:
        ahead = best.value < 1.05 * paper.value
        text = f"{best.value / paper.value:.2g} times"
    else:
        points = round(100 * best.value, 2) - round(100 * paper.value, 2)
        ahead, text = points > -0.005, f"{points:+.2f}"
    matching = [point.size for point in ours if gain(point) >= gain(paper)]
    kind = f"{best.label}, {best.family}"
    return (
        *first,
        Cell(show(task.metric, best.value)),
        Cell(f"{best.size:.2f}"),
        Cell(text, "better" if ahead else "worse"),
        Cell(kind),
        Cell(f"{min(matching):.2f}" if matching else "none yet"),
    )


def _slack(point: Point) -> float:
    """Return how far a printed size may lie below the exact one: whole kilobytes are printed for GLUE."""
    return 0.5 if point.size == int(point.size) else ROUNDING
