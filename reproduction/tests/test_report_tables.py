"""The report's tables."""

from __future__ import annotations

from dataclasses import replace

from hadamrnn_paper.report_tables import recipe_section
from hadamrnn_paper.results import Result


def test_the_recipe_of_the_paper_says_when_it_was_best_and_how_long_the_signs_rested(result: Result) -> None:
    curve: dict[str, list[float]] = {**result.curve, "epoch": [6.0, 12.0], "flips": [3, 0]}
    paper = replace(result, preset="paper", test=0.9412, best_step=4686, curve=curve)
    (part,) = recipe_section([result, paper]).parts
    assert part.grid is not None
    texts = [[cell.text for cell in line] for line in part.grid.lines]

    assert texts[0][3:] == ["94.88", "94.12", "-0.76", "6 of 12", "6", "95.01"]
    assert [line[2] for line in texts] == ["FP", "12"]  # once each, although four tables have the row
    assert recipe_section([result]).parts == ()
