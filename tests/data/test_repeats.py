"""Shared runs of rows are found wherever they begin, and nothing else is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn import load_task
from hadamrnn.data.repeats import occurring, overlapping_samples, repeated_windows, run_hashes


@pytest.mark.parametrize("seed", range(5))
def test_runs_have_equal_hashes_if_and_only_if_they_are_equal(seed: int) -> None:
    rng = np.random.default_rng(seed)
    values, length = rng.integers(0, 2, (80, 2)).astype(float), int(rng.integers(2, 6))
    runs = [values[start : start + length] for start in range(len(values) - length + 1)]
    hashes = run_hashes(values, length)

    assert len(hashes) == len(runs)
    for one, left in zip(runs, hashes, strict=True):
        is_constant = bool((one == one[0]).all())
        assert (left == 0) == is_constant
        for other, right in zip(runs, hashes, strict=True):
            assert is_constant or (left == right) == np.array_equal(one, other)
    np.testing.assert_array_equal(run_hashes(np.stack([values, -values]), length)[0], hashes)


def test_constant_runs_occur_nowhere() -> None:
    flat = run_hashes(np.ones((5, 1)), 3)
    assert not occurring(flat, [flat]).any()


@pytest.mark.parametrize("shift", [0, 1, 7])
def test_windows_are_found_at_any_row_of_training(shift: int) -> None:
    series = np.random.default_rng(shift).normal(size=(200, 3))
    training = [series[:100], series[:4]]

    assert repeated_windows([series[80 + shift : 140]], training, 10, 2) == (20 - shift - 10) // 2 + 1
    assert repeated_windows([series[100:]], training, 10, 2) == 0
    assert repeated_windows([series[:9]], training, 10, 2) == 0


def test_samples_overlap_if_a_quarter_is_shared() -> None:
    series = np.random.default_rng(0).normal(size=(64, 1)).astype(np.float32)

    def samples(*starts: int) -> NDArray[np.float32]:
        return np.stack([series[start : start + 16] for start in starts])

    assert overlapping_samples(samples(12, 33), samples(0)) == 1
    assert overlapping_samples(samples(13, 33), samples(0)) == 0
    assert overlapping_samples(samples(0)[:0], samples(0)) == 0


def test_recordings_that_overlap_are_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for label in "ab":
        for file in range(3):
            np.savetxt(tmp_path / f"{label}_{file}.csv", rng.normal(size=(300, 1)), header="v", comments="")
    options = {"path": tmp_path, "label": "file", "window": 10}
    assert "overlap" not in "\n".join(load_task("recordings", **options).assumptions)
    rows = (tmp_path / "a_0.csv").read_text().splitlines()
    (tmp_path / "held").mkdir()
    for label in "ab":  # other rows of b, and a_0 from row 108 on
        text = rows[:1] + (rows[109:] if label == "a" else list(map(str, rng.normal(size=300))))
        (tmp_path / "held" / f"{label}.csv").write_text("\n".join(text))
    for number in (1, 2):
        (tmp_path / f"a_{number}.csv").unlink()
    own = {**options, "group": "time", "test": tmp_path / "held"}

    # 85 % of a_0 train, up to row 255; the windows at rows 108 and 113 and so on to 243 lie before it.
    assert "note: training has 28 windows of test too" in "\n".join(
        load_task("recordings", **own).assumptions
    )


@pytest.mark.parametrize("grouped", [False, True])
def test_arrays_of_overlapping_windows_get_a_note(grouped: bool, tmp_path: Path) -> None:
    series = np.random.default_rng(0).normal(size=(2000, 2))
    starts = np.arange(0, 1960, 20)
    arrays: dict[str, Any] = {
        "x": np.stack([series[start : start + 40] for start in starts]),
        "y": starts // 500 % 2,
    }
    groups: dict[str, Any] = {"groups": starts // 200} if grouped else {}
    np.savez(tmp_path / "a.npz", **arrays, **groups)
    said = "\n".join(load_task("npz", path=tmp_path / "a.npz").assumptions)

    assert ("test samples share steps with training" in said) == (not grouped)
    np.savez(tmp_path / "a.npz", x=np.random.default_rng(0).normal(size=(98, 40, 2)), y=arrays["y"])
    assert "share steps" not in "\n".join(load_task("npz", path=tmp_path / "a.npz").assumptions)
