"""Bearings at loads absent from training: the default recipe reaches its figures, starting from WAV files."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from hadamrnn.training.config import resolve_config
from hadamrnn_benchmarks.vibration import (
    ALIKE,
    BANDS,
    DEFAULT,
    EACH,
    SETTINGS,
    Bench,
    VibrationRow,
    find_bearings,
    vibration_page,
)

PAGE = Path(__file__).parents[2] / "docs/vibration.md"


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="no folder with the real data")
def test_the_default_recipe_meets_its_figures_at_unseen_loads(tmp_path: Path) -> None:
    with np.load(find_bearings(None)) as arrays:
        signals = {name: arrays[name] for name in arrays.files if "_vload_" in name}
    row = Bench(signals, tmp_path).test(DEFAULT, BANDS, seeds=5)

    assert np.mean(row.accuracies) >= 0.99
    assert row.kilobytes is not None and row.kilobytes <= 4


def test_the_default_is_the_recipe_that_the_page_names_and_no_other_setting() -> None:
    config = resolve_config("recordings", overrides={"task_options": {"path": "a", "features": "bands"}})
    page = " ".join(PAGE.read_text().split())

    assert config.channel_offset is None
    config = replace(config, **EACH)
    for name, value in (
        *EACH.items(),
        ("channel-mask", config.channel_mask),
        ("class-mixing", config.class_mixing),
        ("level-offset", ALIKE["level_offset"]),
    ):
        assert f"`--{name.replace('_', '-')} {value:g}`" in page
    for name, given in SETTINGS.items():
        assert (name == DEFAULT) == all(getattr(config, key) == value for key, value in given.items())


def test_the_page_has_the_mean_the_spread_and_the_worst_seed() -> None:
    rows = [VibrationRow("some", "test", (0.5, 1.0), 3.5), VibrationRow("other", "selection", (0.25, 0.75))]
    page = vibration_page(rows)

    assert "| some | 75.0 ± 35.4 % | 50.0 % | 2 | 3.50 |" in page
    assert "| other | 50.0 % | 25.0 % |" in page
