"""The benchmarks of reading and fitting measure every form of file."""

from __future__ import annotations

from pathlib import Path

import pytest

from hadamrnn_benchmarks.reading import FORMS, run_fitting, run_reading

pytestmark = pytest.mark.skipif(
    not Path("/proc/self/clear_refs").exists(), reason="the kernel gives no peak memory"
)


def test_every_form_is_measured_at_every_size() -> None:
    rows = run_reading((4,), FORMS)
    assert [row.shape for row in rows] == list(FORMS)
    assert all(4 <= row.megabytes < 6 and row.seconds > 0 for row in rows)
    assert all(row.ratio * row.megabytes == pytest.approx(row.peak_megabytes) for row in rows)


@pytest.mark.parametrize("form", ["npz", "npz-long"])
def test_reading_series_and_fitting_the_default_takes_at_most_ten_times_their_size(form: str) -> None:
    (row,) = run_fitting((25,), (form,))
    assert row.seconds > 0
    assert row.ratio < 10
