"""Does the paper's own recipe give the paper's figures? The runs of preset `paper`, with their sign flips."""

from __future__ import annotations

from collections.abc import Sequence

from hadamrnn.pages.document import Cell, Grid, Part, Section
from hadamrnn.paper.compare import Comparison, measurements
from hadamrnn.paper.main_tables import TABLES, TASKS
from hadamrnn.paper.results import Result

TEXT = (
    "Preset paper is the recipe of the paper's appendix to the letter: all signs learn, all the time. A flip "
    "of one sign changes every power of W, so where position matters a network learns only while the signs "
    "rest: on permuted MNIST (Figures, training curves) it stays near chance until they stop, climbs within "
    "epochs, and falls back to chance when they start again. When that happens depends on the seed. What "
    "counts is the best validation epoch, as in the authors' code. Preset best holds the signs."
)


def recipe_section(results: Sequence[Result]) -> Section:
    """Return every published row that the paper's recipe was run for, beside preset best."""
    header = (
        *("task", "network", "activations", "published", "the paper's recipe", "difference"),
        *("best epoch", "epochs without a flip", "preset best"),
    )
    lines, seen = [], set()
    for table in (table for table in TABLES.values() if table.label):
        for row in table.rows:
            found = {each.preset: each for each in measurements(row, TASKS[row.task], results)}
            name = (row.setup.key if row.setup else "", row.activation_bits, row.deviation)
            if "paper" not in found or row.setup is None or name in seen:
                continue
            seen.add(name)
            cells = map(Cell, (TASKS[row.task].title, row.setup.title, row.activations, row.published))
            best = found["best"].measured() if "best" in found else Cell("missing", "missing")
            ours = found["paper"]
            lines.append((*cells, ours.measured(), ours.difference(), *_epochs(ours), best))
    missing = () if lines else ("No run of preset paper is here yet.",)
    parts = (Part(grid=Grid(header, tuple(lines))),) if lines else ()
    return Section("recipe", "The paper's own recipe", (TEXT, *missing), parts)


def _epochs(found: Comparison) -> tuple[Cell, Cell]:
    """Return the best epochs and the epochs without a flip, of all, seed by seed."""
    best, rest = [], []
    for result in found.results:
        best.append(f"{result.best_step * result.epochs / result.steps:.3g} of {result.epochs:.3g}")
        flips = result.curve.get("flips", [])
        quiet = sum(not count for count in flips) * result.epochs / max(1, len(flips))
        rest.append(f"{quiet:.3g}")
    return Cell(", ".join(best)), Cell(", ".join(rest))
