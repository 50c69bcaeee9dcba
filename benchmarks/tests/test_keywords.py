"""The integer front end recognises keywords almost as well as a float64 front end."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hadamrnn_benchmarks.keywords import MODELS, KeywordRow, keywords_page, run_keywords

LARGEST_LOSS = 0.3  # points
PAGE = Path(__file__).parents[2] / "docs/keywords.md"


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="HADAMRNN_DATA names the folder of real data")
def test_the_integer_front_end_loses_at_most_03_points_of_keywords_as_the_page_says() -> None:
    rows = run_keywords()
    assert [row.model for row in rows] == list(MODELS)
    assert all(row.loss <= LARGEST_LOSS and row.clips == 1560 for row in rows)
    assert PAGE.read_text() == keywords_page(rows)


def test_a_loss_is_the_difference_in_points() -> None:
    row = KeywordRow("some", 200, integers=0.925, float64=0.93, changed=3)
    assert row.loss == pytest.approx(0.5)
    assert "| some | 92.50 % | 93.00 % | +0.50 | 3 |" in keywords_page([row])
