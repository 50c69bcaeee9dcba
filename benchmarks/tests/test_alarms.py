"""Decisions on other people's recordings: C raises the same events as Python, and the page reports them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hadamrnn.fixedpoint.alarms import with_decision
from hadamrnn.streams import choose, raise_events, read_streams, try_decisions
from hadamrnn_benchmarks.alarms import (
    ORIGIN,
    OTHERS,
    SOURCES,
    TITLE,
    TRAIN,
    AlarmRow,
    Recording,
    alarms_page,
    measure,
    train_network,
    write_recordings,
)
from tests.test_streams import events_in_c

ROW = AlarmRow(
    "made",
    people=2,
    asked=10.0,
    tuned=8.0,
    measured=12.0,
    worst=20.0,
    hours=1.0,
    incidents=9,
    detected=8,
    latency=1.5,
)
STEPS = 20_000  # steps of each stream to run in C


@pytest.mark.slow
@pytest.mark.skipif("HADAMRNN_DATA" not in os.environ, reason="no folder with the real data")
@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler installed")
@pytest.mark.parametrize("name", ["UCI HAR", "Google-12 and noise"])
def test_c_fed_real_recordings_raises_the_events_of_python_at_the_same_samples(
    name: str, tmp_path: Path
) -> None:
    def few(data_dir: str | Path | None) -> Iterator[tuple[str, Recording]]:
        wanted = {TRAIN: 4, OTHERS: 2}
        for part, recording in source.read(data_dir):
            if wanted[part] > 0:
                wanted[part] -= 1
                yield part, recording

    source = SOURCES[name]
    quick = replace(source, read=few, asked=(200.0,), settings={"steps": 150, "threads": 1})
    write_recordings(quick, tmp_path, None)
    run = train_network(quick, tmp_path)
    streams, window, hop = read_streams(run, tmp_path / OTHERS)
    names = run.facts.class_names
    background = source.background or ("silence", "unknown")
    decision, _ = choose(try_decisions(streams, names, background, source.rate, window, hop), 500.0)
    expected = []
    for number, stream in enumerate(streams):
        folder = tmp_path / f"c{number}"
        folder.mkdir()
        found = events_in_c(folder, with_decision(run.integer, decision), stream.raw[:STEPS])
        first = int(stream.ends[0]) - (window - 1) * stream.rows_per_step  # the row of the first step
        assert [(step * stream.rows_per_step + first, label) for step, label in found] == [
            event
            for event in raise_events(stream, decision)
            if event[0] < STEPS * stream.rows_per_step + first
        ]
        expected += found
    assert expected

    (row,) = measure(name, quick, run, streams, window, hop)
    assert row.people == 2 and row.incidents == sum(len(each.incidents(background)) for each in streams)


def test_the_page_has_the_largest_factor_and_names_its_command() -> None:
    page = alarms_page([ROW, replace(ROW, measured=5.0, latency=None)])

    assert page.startswith(TITLE) and page.endswith(f"{ORIGIN}\n")
    assert "at most 1.20 times those asked for" in page and "| 8 of 9 | 1.5 s |" in page
