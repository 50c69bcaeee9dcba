"""Draw the report's figures as SVG; the same results give the same bytes.

They are narrow (4.4 inches), so that one fills a phone and two fit side by side on a wider page. Colours suit
colour-blind readers, and markers differ too, for printing in grey.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from hadamrnn.fixedpoint.cost import fast_step_cost
from hadamrnn.network import hadamard
from hadamrnn.pages.document import BLUE, GREEN, GREY, ORANGE, SOFT, Picture
from hadamrnn.pages.drawing import (
    Axes,
    Canvas,
    FuncFormatter,
    MaxNLocator,
    Point,
    draw_front,
    front,
    scatter,
    styled,
    svg,
)
from hadamrnn_paper.compare import measurements
from hadamrnn_paper.front import Standing, measured, published_points
from hadamrnn_paper.memorization import Memorization
from hadamrnn_paper.results import Result
from hadamrnn_paper.rows import Task
from hadamrnn_paper.runner import setups
from hadamrnn_paper.tables import TABLES, TASKS

WIDTH, HEIGHT = 4.4, 3.5
MARGIN = 0.02  # points more than this below the worst published accuracy are not drawn
PAPER, OURS, OTHERS, SECOND = BLUE, ORANGE, GREY, GREEN
CURVES = {"paper": (PAPER, "-"), "best": (OURS, "--"), "quick": (SECOND, ":")}


def standing_picture(found: Sequence[Standing]) -> tuple[Picture, ...]:
    """Plot the difference between our best and the paper's best, in points, if anything is measured."""
    judged = [each for each in found if each.best and each.task.metric == "accuracy"]
    if not judged:
        return ()
    with styled():
        canvas = Canvas(figsize=(WIDTH, 0.6 + 0.4 * len(judged)))
        axes = canvas.subplots()
        for place, each in enumerate(reversed(judged)):
            assert each.best is not None
            ours = each.best
            points = 100 * (ours.value - each.paper.value)
            error = 100 * statistics.stdev(ours.values) if len(ours.values) > 1 else None
            axes.barh(place, points, 0.55, color=OURS if points >= 0 else OTHERS, xerr=error, ecolor=SOFT)
            text = f"{ours.kilobytes:.3g} kB, paper {each.paper.size:.3g}"
            side, gap = ("right", -4) if points >= 0 else ("left", 4)
            _write(axes, text, (0, place), (gap, 0), va="center", ha=side, color=SOFT)
        axes.set_yticks(range(len(judged)), [each.task.title for each in reversed(judged)])
        axes.axvline(0, color=PAPER)
        axes.grid(False, axis="y")
        reach = max(map(abs, axes.get_xlim()))
        axes.set_xlim(-max(reach, 1.5), max(reach, 1.5))
        axes.set_xlabel("points of test accuracy ahead of the paper's best")
        caption = (
            "Ours against the paper's best, the blue line: a bar to the right is ahead, with both sizes. "
            "Thin lines are the standard deviation over the seeds."
        )
        return (Picture("standing", svg(canvas, "standing"), caption),)


def size_accuracy(task: str, results: Sequence[Result]) -> Picture:
    """Plot accuracy against size: the paper's networks, ours, and both Pareto fronts."""
    with styled():
        canvas = Canvas(figsize=(WIDTH, HEIGHT))
        axes = canvas.subplots()
        published = published_points(task)
        hadam = [point for point in published if "Hadam" in point.family]
        others = [point for point in published if "Hadam" not in point.family]
        floor = min(point.value for point in published) - MARGIN
        every = [
            Point(each.kilobytes, each.value, each.setup.title, each.activations)
            for each in measured(task, results)
        ]
        ours = [point for point in every if point.value >= floor]
        scatter(axes, others, OTHERS, "s", "other networks, published")
        scatter(axes, hadam, PAPER, "o", "HadamRNN, published")
        integers = [point for point in ours if point.family == "integers"]
        scatter(axes, [point for point in ours if point.family == "float"], OURS, "^", "measured here")
        scatter(axes, integers, OURS, "v", "measured here, integers", hollow=True)
        draw_front(axes, front(hadam), PAPER, "--")
        draw_front(axes, front(ours), OURS, "-")
        for point in others:
            largest = point.size == max(other.size for other in others)
            place = "above" if largest else "left" if _covers(point, ours) else "right"
            offset, side = NAME_PLACES[place]
            position = (point.size, 100 * point.value)
            _write(axes, point.label.strip(), position, offset, ha=side, color=SOFT, fontsize=7)
        axes.set_xscale("log")
        axes.set_xlabel("size in kB")
        axes.set_ylabel("test accuracy in %")
        axes.set_title(TASKS[task].title)
        axes.margins(x=0.12, y=0.1)
        canvas.legend(loc="outside lower center", ncols=2)
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        left_out = len(every) - len(ours)
        note = "" if every else " Nothing has been measured here yet."
        note += f" {left_out} measured points lie below and are left out." if left_out else ""
        caption = f"{TASKS[task].title}: the best networks are in the upper left corner.{note}"
        return Picture(f"size-accuracy-{task}", svg(canvas, f"size-accuracy-{task}"), caption)


def additions_cross_entropy(results: Sequence[Result]) -> Picture:
    """Plot cross-entropy against additions for the copy task, with q = 32, 8, 2, 1."""
    with styled():
        canvas = Canvas(figsize=(WIDTH, HEIGHT))
        axes = canvas.subplots()
        rows = [row for row in TABLES["blocks"].rows if row.task == "copy"]
        published = [(row.additions, row.value) for row in rows]
        axes.plot(*zip(*published, strict=True), "o--", color=PAPER, label="published")
        for row in rows:
            assert row.setup is not None and row.additions is not None and row.value is not None
            label = f"q = {hadamard(row.setup.network).num_blocks}"
            _write(axes, label, (row.additions, row.value), (5, 4))
        drawn = False
        for preset, marker in (("paper", "s"), ("best", "^")):
            counted, fast = [], []
            for row in rows:
                for found in measurements(row, results):
                    if found.preset == preset and any(found.values):  # a log axis has no 0
                        counted.append((row.additions, found.value))
                        cost = fast_step_cost(TASKS["copy"].network(hadamard(found.setup.network)))
                        fast.append((cost.recurrent.additions, found.value))
            if counted:
                drawn = True
                label = f"measured, {preset}"
                axes.plot(*zip(*counted, strict=True), f"{marker}-", color=OURS, label=label)
                label = f"{label}, fast transform"
                axes.plot(*zip(*fast, strict=True), f"{marker}:", color=SECOND, label=label)
        axes.axhline(TASKS["copy"].baseline or 0, color=OTHERS, linewidth=0.8)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("additions for W h in a step")
        axes.set_ylabel("test cross-entropy")
        axes.set_title("Copy task, 4 bits, d_h = 128")
        axes.margins(x=0.15)
        canvas.legend(loc="outside lower center", ncols=2)
        missing = "" if drawn else " Nothing has been measured here yet."
        caption = (
            "Copy task, W of q diagonal blocks: the best networks are in the lower left corner; the grey "
            f"line is guessing.{missing}"
        )
        return Picture("additions-cross-entropy", svg(canvas, "additions-cross-entropy"), caption)


def memorization_picture(found: Memorization) -> Picture:
    """Plot how far adding 1 to x_t moves the last state: linear above, ReLU below."""
    with styled():
        canvas = Canvas(figsize=(WIDTH, 4.2))
        top, bottom = canvas.subplots(2, 1, sharex=True)
        steps = range(1, found.seq_length + 1)
        for axes, title, e, f in (
            (top, "linear recurrence", found.e_linear, found.f_linear),
            (bottom, "ReLU recurrence", found.e_relu, found.f_relu),
        ):
            axes.plot(steps, e, "-", color=PAPER, label="first axis, e")
            axes.plot(steps, f, "--", color=OURS, label="second axis, f")
            axes.set_title(title)
            axes.set_ylim(bottom=0)
            axes.set_ylabel("change of h_T")
        top.legend(loc="lower right")
        bottom.set_xlabel("t, the step whose input is moved by 1")
        caption = (
            f"How far h_{found.seq_length} moves when 1 is added to x_t. Linear: the same for every t. "
            "ReLU: early inputs count for less."
        )
        return Picture("memorization", svg(canvas, "memorization"), caption)


def curve_pictures(results: Sequence[Result]) -> list[Picture]:
    """Plot validation and sign flips by epoch for each task's 4-bit network."""
    pictures = []
    for key, (setup, _) in setups("scales").items():
        runs = [run for run in results if run.experiment == key and run.seed == 0 and run.curve]
        if runs:
            pictures.append(_curves(TASKS[setup.task], key, runs))
    return pictures


def _curves(task: Task, key: str, runs: Sequence[Result]) -> Picture:
    accuracy = task.metric == "accuracy"
    most = max(max(run.curve["flips"]) for run in runs)
    with styled():
        canvas = Canvas(figsize=(WIDTH, 4.2 if most else HEIGHT))
        top, *below = canvas.subplots(
            2 if most else 1, 1, sharex=True, squeeze=False, height_ratios=(3, 2) if most else None
        )[:, 0]
        for run in runs:
            color, line = CURVES[run.preset]
            values = [100 * value if accuracy else value for value in run.curve["validation"]]
            top.plot(run.curve["epoch"], values, line, color=color, label=f"preset {run.preset}")
            for axes in below:
                axes.plot(run.curve["epoch"], run.curve["flips"], line, color=color)
        if not accuracy:
            top.set_yscale("log")
        for axes in below:
            axes.set_yscale("symlog", linthresh=1)
            axes.set_ylim(0, max(10, 2 * most))
            axes.set_ylabel("sign flips")
        top.set_ylabel("validation accuracy in %" if accuracy else "validation cross-entropy")
        (below or [top])[-1].set_xlabel("epoch")
        top.set_title(f"{task.title}, 4 bits")
        if max(max(run.curve["epoch"]) for run in runs) > 2:
            (below or [top])[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
        canvas.legend(loc="outside lower center", ncols=2)
        flips = ", and signs of u that flipped since the previous point" if most else "; no sign of u flipped"
        caption = f"{task.title}: validation by epoch{flips}."
        return Picture(f"curves-{key}", svg(canvas, f"curves-{key}"), caption)


NAME_PLACES = {"right": ((6, -2.5), "left"), "left": ((-6, -2.5), "right"), "above": ((0, 6), "center")}


def _covers(point: Point, others: Sequence[Point]) -> bool:
    """Return whether a label to the right of `point`, one decade wide, would cover one of `others`."""
    return any(
        1 <= other.size / point.size <= 10 and abs(other.value - point.value) < 0.003 for other in others
    )


def _write(
    axes: Axes, text: str, place: tuple[float, float], offset: tuple[float, float], **style: Any
) -> None:
    """Label a point; `offset` is in typographic points."""
    axes.annotate(text, place, offset, textcoords="offset points", **{"fontsize": 8, **style})
