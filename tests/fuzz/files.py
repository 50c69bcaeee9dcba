"""Damaged files of every kind: read as before or refused in one line, within 5 s of CPU time and 1 GB."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import torch

from hadamrnn.errors import InputError
from tests.fuzz.damage import Damaged
from tests.fuzz.subjects import Subject, make_subjects
from tests.fuzz.worker import run_limited


def fuzz_files(folder: Path, count: int, seed: int = 0) -> tuple[dict[str, dict[str, int]], list[str]]:
    """Read `count` damaged files; return the outcomes of each kind, and what went wrong."""
    torch.set_num_threads(1)
    subjects = make_subjects(folder)
    tally: dict[str, dict[str, int]] = {}
    wrong: list[str] = []
    for subject in subjects:
        original = subject.path.read_bytes()
        expected = subject.read(subject.path)
        damages = subject.damages(math.ceil(count / len(subjects)), seed)
        outcomes = run_limited([_case(subject, damaged, expected) for damaged in damages])
        subject.path.write_bytes(original)
        counts = tally[subject.path.name] = {"taken": 0, "refused": 0, "wrong": 0}
        for damaged, outcome in zip(damages, outcomes, strict=True):
            counts[outcome if outcome in counts else "wrong"] += 1
            if outcome not in counts:
                wrong.append(f"{subject.path.name}, {damaged.how}: {outcome}")
    return tally, wrong


def _case(subject: Subject, damaged: Damaged, expected: str) -> Callable[[], str]:
    def case() -> str:
        subject.path.write_bytes(damaged.content)
        try:
            found = subject.read(subject.path)
        except InputError as error:
            return "refused" if "\n" not in str(error) and str(error) else f"not one line: {error}"
        if subject.checked and damaged.must_differ_loudly and found != expected:
            return "loads something else without a word"
        return "taken"

    return case
