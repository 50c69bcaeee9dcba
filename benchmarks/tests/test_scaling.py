"""The plot of time against length and hidden size."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from hadamrnn_benchmarks.scaling import run_scaling


def test_scaling_draws_every_point(tmp_path: Path) -> None:
    out = tmp_path / "plot.svg"
    points = run_scaling(out, threads=1, rounds=1, lengths=(10, 100), hidden_sizes=(4, 8, 16))
    assert [point.size for point in points] == [10, 100, 4, 8, 16]
    space = "{http://www.w3.org/2000/svg}"
    lines = [
        group
        for group in ElementTree.parse(out).getroot().iter(f"{space}g")
        if group.get("id") in ("scaling-length", "scaling-hidden-size")
    ]
    assert len(lines) == 2
    assert sum(len(list(line.iter(f"{space}use"))) for line in lines) == len(points)
