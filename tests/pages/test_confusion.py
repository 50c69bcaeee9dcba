"""Confusion matrices show the user's class names unchanged."""

from __future__ import annotations

from html import unescape

import numpy as np
import pytest

from hadamrnn.pages.document import to_html
from hadamrnn.pages.drawing import confusion_page


@pytest.mark.parametrize("name", ["$a_b$", r"$\frac$", "5$", "\u65e5\u672c", "<b>"])
def test_names_of_classes_are_shown_as_they_are(name: str) -> None:
    page = to_html(confusion_page("Title", "Lead", {name: 1.0, "other": None}, [[3, 0], [0, 0]]))

    assert unescape(page).count(f">{name}</text>") == 2  # below the picture and beside it


def test_a_matrix_without_samples_is_drawn() -> None:
    page = to_html(confusion_page("Title", "Lead", {"a": None, "b": None}, [[0, 0], [0, 0]]))

    assert "0 samples are off the diagonal." in page


def test_a_page_counts_samples_and_errors_of_every_class_the_most_frequent_first() -> None:
    recall = {"a": 3 / 6, "b": 1.0, "c": None}
    found = confusion_page("Title", "Lead", recall, [[3, 1, 2], [0, 4, 0], [0, 0, 0]])

    grid = found.sections[0].parts[0].grid
    assert grid is not None
    rows = [[cell.text for cell in row] for row in grid.lines]
    assert rows == [["a", "6", "50.0 %", "c (2), b (1)"], ["b", "4", "100.0 %", ""], ["c", "0", "none", ""]]
    assert "3 samples are off the diagonal." in to_html(found)


def test_the_three_most_frequent_errors_of_a_class_are_named() -> None:
    matrix = np.zeros((5, 5), int)
    matrix[1] = [2, 9, 1, 5, 3]
    found = confusion_page("Title", "Lead", dict.fromkeys("abcde", 0.5), matrix.tolist())

    grid = found.sections[0].parts[0].grid
    assert grid is not None
    assert grid.lines[1][3].text == "d (5), e (3), a (2)"
