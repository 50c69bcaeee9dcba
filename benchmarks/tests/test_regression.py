"""The regressor compared with simple features: their definition, and a page that says which is better."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hadamrnn_benchmarks.instructions import InstructionRow, draw_networks, summary
from hadamrnn_benchmarks.regression import (
    ORIGIN,
    TITLE,
    RegressionRow,
    draw_engines,
    read_diabetes,
    regression_page,
    simple_features,
)

PAGE = Path(__file__).parents[2] / "docs/regression.md"
ROW = RegressionRow("made", 9, 5, 2, ridge=0.5, r2=0.75, worst=0.7, best=0.8, integer=0.74, bytes=400)


def test_simple_features_are_mean_last_value_and_trend() -> None:
    x = np.stack([2.0 * np.arange(5) + 1, np.full(5, 7.0)], axis=1)[None]

    np.testing.assert_allclose(simple_features(x), [[5.0, 7.0, 9.0, 7.0, 2.0, 0.0]])


def test_parts_share_no_engine_and_no_patient() -> None:
    engines = draw_engines()
    assert engines.groups is not None and not (engines.groups % 4 == 0).any()
    assert len(engines.test_x) and engines.y.max() <= 125 and engines.y.min() >= 0
    patients = read_diabetes()
    assert len(patients.x) + len(patients.test_x) == 442


def test_the_page_says_who_is_ahead() -> None:
    page = regression_page([ROW, replace(ROW, data="other", r2=-1.0)], seeds=3)

    assert page.startswith(TITLE) and page.endswith(f"{ORIGIN}\n")
    assert "ahead of the ridge regression on 1 of 2 sets" in page and "other (-1.00 to 0.50)" in page
    assert PAGE.read_text().startswith(TITLE)


@pytest.mark.parametrize("seed", [0, 1])
def test_drawn_networks_have_all_kinds_of_bits_and_sizes(seed: int) -> None:
    found = draw_networks(60, seed)

    assert len(found) == 60 and {each.weight_bits for each in found} == {"ternary", 2, 3, 4, 5, 6, 8}
    assert any(each.num_layers == 2 for each in found) and any(each.leak for each in found)
    rows = [InstructionRow("a", 110, 100), InstructionRow("b", 80, 100)]
    assert summary(rows).startswith("1 of 2 networks within 15 %") and summary(rows).endswith("20.0% off")
