"""Our networks beside the paper's, by size and performance.

A network is a setup under a preset; its figures are means over its seeds. Start at `standings`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from hadamrnn.pages.document import Cell, Grid, Part, Picture, Section
from hadamrnn.pages.drawing import Point
from hadamrnn.paper.compare import Comparison, home, lead, measurements, show, spread
from hadamrnn.paper.results import Result
from hadamrnn.paper.rows import Row, Task
from hadamrnn.paper.runner import setups
from hadamrnn.paper.tables import TABLES, TASKS

# The paper's tasks whose data is at hand: of QQP only a subset is.
JUDGED = ("pmnist", "smnist", "copy", "imdb", "har2", "dsa19", "sst2")
SEEDS = 5  # a network that stands for a task has been trained so often
TIED = "\u00a0"  # a space at which no line breaks
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


def measured_points(task: str, results: Sequence[Result]) -> list[tuple[Point, Comparison]]:
    """Return our networks on a task: one point with float activations, another in integers."""
    points = []
    for setup, _ in setups("all").values():
        if setup.task != task or not setup.network.is_hadamard or setup.task_options:
            continue  # task options make another split of it
        _, row = home(setup.key)
        for bits in (None, setup.integer_bits):
            for found in measurements(replace(row, activation_bits=bits), results):
                if found.value is not None and found.compared:
                    size = setup.kilobytes(TASKS[task], bits, found.results[0].config)
                    family = "integers" if bits else "float"
                    points.append((Point(size, found.value, setup.title, family, found.validation), found))
    return points


@dataclass(frozen=True)
class Standing:
    """The paper's best on a task, and two of our networks, chosen by their mean on validation data.

    Args:
        best: the best that is no larger than the paper's; None if nothing is measured.
        least: the smallest whose validation figure reaches the paper's best; None if there is none.
    """

    task: Task
    paper: Point
    best: tuple[Point, Comparison] | None
    least: tuple[Point, Comparison] | None

    @property
    def ours(self) -> str:
        """The test figure of `best` with its spread."""
        return "" if self.best is None else _figure(self.task, *self.best)


def standings(results: Sequence[Result]) -> tuple[Standing, ...]:
    """Return where each task stands. Networks of fewer seeds count only where none has `SEEDS` of them."""
    return tuple(_standing(TASKS[name], results) for name in JUDGED)


def _standing(task: Task, results: Sequence[Result]) -> Standing:
    sign = -1 if task.metric == "cross_entropy" else 1
    published = [point for point in published_points(task.name) if "Hadam" in point.family]
    paper = max(published, key=lambda point: sign * point.value)
    every = measured_points(task.name, results)
    ours = [pair for pair in every if len(pair[1].results) >= SEEDS] or every
    small = [pair for pair in ours if pair[0].size <= paper.size + _slack(paper)]
    matching = [pair for pair in ours if sign * pair[0].validation >= sign * paper.value]
    return Standing(
        task,
        paper,
        # A network's float and integer forms share a validation figure; the smaller one is taken.
        max(small, key=lambda pair: (sign * pair[0].validation, -pair[0].size), default=None),
        min(matching, key=lambda pair: (pair[0].size, -sign * pair[0].validation), default=None),
    )


def _slack(point: Point) -> float:
    """Return by how much a printed size may be too low. For GLUE the paper prints whole kilobytes."""
    return 0.5 if point.size == int(point.size) else ROUNDING


def standing_section(results: Sequence[Result], pictures: tuple[Picture, ...] = ()) -> Section:
    """Return the paper's best HadamRNN for each task, and the best of ours that is no larger."""
    header = ("task", "paper's best", "ours, no larger", "difference")
    lines = []
    for each in standings(results):
        paper = f"{show(each.task.metric, each.paper.value)} in {each.paper.size:g}{TIED}kB"
        first = (Cell(each.task.title), Cell(paper))
        if each.best is None:
            lines.append((*first, Cell("missing", "missing"), Cell()))
            continue
        point, found = each.best
        named = f"{len(found.results)} seed{'s' if len(found.results) > 1 else ''}"
        named += ", ReLU recurrence" if "ReLU" in point.label else ""
        figure = each.ours.replace(" ", TIED)
        ours = Cell(f"{figure} in {point.size:.2f}{TIED}kB, {named.replace(' ', TIED, 1)}")
        lines.append((*first, ours, lead(each.task.metric, point.value, each.paper.value)))
    text = (
        "The paper's best HadamRNN or Block-HadamRNN and our best that takes no more memory: test accuracy "
        "in percent, and the difference in points. For the copy task it is cross-entropy, where less is "
        "better, and ours as a multiple of the paper's. ▲ is ahead of the paper, ▼ behind it."
    )
    grid = Grid(header, tuple(lines))
    return Section("standing", "Where this stands", (text,), (Part(grid=grid),), pictures)


def networks_section(results: Sequence[Result], pictures: tuple[Picture, ...] = ()) -> Section:
    """Return the networks behind `standing_section`, and the smallest that match the paper."""
    header = ("task", "network", "runs", "matches on validation from kB", "test there", "command")
    lines = []
    for each in standings(results):
        if each.best is None:
            lines.append((Cell(each.task.title), *[Cell()] * 5))
            continue
        point, found = each.best
        lines.append(
            (
                Cell(each.task.title),
                Cell(f"{point.label}, {point.family}"),
                Cell(_runs(found)),
                *_matching(each),
                Cell(found.command(home(found.results[0].experiment)[0]), "code"),
            )
        )
    text = (
        "For each task the network of the table above, which is the best on validation data of those that "
        "take no more bytes than the paper's best; then the size of the smallest whose validation figure "
        "reaches the paper's best, and its test figure. Figures are means over the seeds, with the standard "
        f"deviation, and for the copy task the range. Networks with fewer than {SEEDS} seeds count only "
        "where none has more; the test set chooses nothing. The command repeats the runs."
    )
    return Section(
        "networks", "The networks behind it", (text,), (Part(grid=Grid(header, tuple(lines))),), pictures
    )


def _runs(found: Comparison) -> str:
    """Return the preset and the seeds.

    >>> from types import SimpleNamespace as Runs
    >>> _runs(Runs(preset="best", results=[Runs(seed=2)]))
    'best, seed 2'
    """
    seeds = [str(result.seed) for result in found.results]
    return f"{found.preset}, seed{'s' if len(seeds) > 1 else ''} {', '.join(seeds)}"


def _matching(standing: Standing) -> tuple[Cell, Cell]:
    if standing.least is None:
        return Cell("none yet"), Cell()
    return Cell(f"{standing.least[0].size:.2f}"), Cell(_figure(standing.task, *standing.least))


def _figure(task: Task, point: Point, found: Comparison) -> str:
    """Return a test figure with its spread."""
    return show(task.metric, point.value) + spread(task.metric, found.values)
