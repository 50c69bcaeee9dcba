"""Classify bearing faults at loads absent from training, from raw samples, by the default recipe and others.

The data are MFPT's inner and outer race faults, `mfpt/mfpt.npz` in the data folder. Settings are compared on
loads 1 to 5 only: each network is trained at one or two of them and tested at the others. The selected
setting is then trained at all five and tested at loads 6 and 7. Start at `run_vibration`.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.io import wavfile
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from hadamrnn.data.files import search_folders
from hadamrnn.data.recordings import read_recordings
from hadamrnn.errors import InputError
from hadamrnn.run import train
from hadamrnn.training.config import resolve_config
from hadamrnn.training.loop import LEVELS
from hadamrnn_benchmarks.markdown import markdown_table

TITLE = "# Vibration"
RATE, WINDOW, RAW_WINDOW = 48_828, 12_207, 2_048  # Hz; samples in a window (0.25 s); in a window read raw
FAULTS = {"InnerRaceFault": "inner", "OuterRaceFault": "outer"}
TRAIN, TEST = (1, 2, 3, 4, 5), (6, 7)
SELECTION = ((1, 2), (4, 5), (2, 3), (3, 4), (1,), (3,), (5,))  # training loads; the others are for testing
SELECTION_SEEDS = 1
BANDS: dict[str, Any] = {"features": "bands", "window": WINDOW}
DEFAULT, LINEAR, RAW = "bands, the default", "bands, logistic regression", "raw samples, windows of 2,048"
EACH, ALIKE, NO_OFFSETS = LEVELS.values()
SETTINGS: dict[str, dict[str, Any]] = {
    DEFAULT: {**EACH},
    "without mixed windows": {"class_mixing": 0.0},
    "without masked bands": {"channel_mask": 0},
    "offsets of all bands alike, none masked": {**ALIKE},
    "no offsets, no masked bands": {**NO_OFFSETS},
}


@dataclass(frozen=True)
class VibrationRow:
    """The accuracies of `method`, one for each network; `kilobytes` is the size of its weights."""

    method: str
    test: str  # "selection" or "loads 6 and 7"
    accuracies: tuple[float, ...]
    kilobytes: float | None = None


def run_vibration(
    data_dir: str | Path | None = None, *, seeds: int = 5, raw_seeds: int = 1, select: bool = True
) -> list[VibrationRow]:
    """Return the rows of the selection and of the test."""
    with np.load(find_bearings(data_dir)) as arrays, tempfile.TemporaryDirectory() as scratch:
        signals = {name: arrays[name] for name in arrays.files if "_vload_" in name}
        bench = Bench(signals, Path(scratch))
        rows = [bench.selection(name, given) for name, given in SETTINGS.items()] if select else []
        rows.append(bench.test(DEFAULT, BANDS, seeds))
        rows.append(VibrationRow(LINEAR, "test", (bench.linear(),)))
        if raw_seeds:
            rows.append(bench.test(RAW, {"features": "none", "window": RAW_WINDOW}, raw_seeds))
        return rows


class Bench:
    """Train in new folders, on recordings written as a user would have them."""

    def __init__(self, signals: dict[str, Any], folder: Path) -> None:
        self.signals, self.folder, self.runs = signals, folder, 0

    def selection(self, method: str, given: dict[str, Any]) -> VibrationRow:
        found = []
        for loads in SELECTION:
            others = [load for load in TRAIN if load not in loads]
            chosen = {**EACH, **given}
            found += [self.measure(loads, others, BANDS, seed, chosen)[0] for seed in range(SELECTION_SEEDS)]
        return VibrationRow(method, "selection", tuple(found))

    def test(self, method: str, reading: dict[str, Any], seeds: int) -> VibrationRow:
        found = [self.measure(TRAIN, TEST, reading, seed) for seed in range(seeds)]
        accuracies, sizes = zip(*found, strict=True)
        return VibrationRow(method, "test", accuracies, max(sizes))

    def measure(
        self,
        train_at: Iterable[int],
        test_at: Iterable[int],
        reading: dict[str, Any],
        seed: int,
        given: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[float, float]:
        """Return the accuracy and kilobytes of the integer network that the page's commands produce."""
        folders = {"path": str(self.write(train_at)), "test": str(self.write(test_at))}
        chosen = {**given, "seed": seed, "threads": 1, "task_options": {**folders, **reading}}
        config = resolve_config("recordings", overrides=chosen)
        self.runs += 1
        found = train(config, self.folder / f"run{self.runs}").quantize(threads=1)
        assert found.integer_value is not None
        return found.integer_value, found.size.payload / 1024

    def linear(self) -> float:
        """Return the accuracy of a logistic regression on the mean bands of a window."""
        parts = [read_recordings(self.write(loads), **BANDS) for loads in (TRAIN, TEST)]
        (x, y), (x_test, y_test) = ((each.x.mean(1), each.y) for each in parts)
        model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)).fit(x, y)
        return float(np.mean(model.predict(x_test) == y_test))

    def write(self, loads: Iterable[int]) -> Path:
        """Write a folder of WAV files at these loads, with a subfolder for each fault."""
        chosen = tuple(loads)
        folder = self.folder / "-".join(map(str, chosen))
        for key, fault in FAULTS.items():
            for load in chosen:
                path = folder / fault / f"load{load}.wav"
                path.parent.mkdir(parents=True, exist_ok=True)
                wavfile.write(path, RATE, self.signals[f"{key}_vload_{load}"])
        return folder


def find_bearings(data_dir: str | Path | None) -> Path:
    """Return the path of the recordings file."""
    paths = [folder / "mfpt" / "mfpt.npz" for folder in search_folders(data_dir)]
    for path in paths:
        if path.is_file():
            return path
    raise InputError(f"MFPT's bearings must lie in {paths[0]}, which does not exist. Name --data-dir.")


def vibration_page(rows: Sequence[VibrationRow]) -> str:
    """Return the Markdown of the page."""
    tests = [row for row in rows if row.test == "test"]
    test = markdown_table(
        ("", "accuracy", "least", "seeds", "kB"),
        [
            (
                row.method,
                spread(row),
                _percent(min(row.accuracies)),
                str(len(row.accuracies)),
                "-" if row.kilobytes is None else f"{row.kilobytes:.2f}",
            )
            for row in tests
        ],
        numbers=4,
    )
    selection = markdown_table(
        ("training", "accuracy", "least"),
        [
            (row.method, _percent(fmean(row.accuracies)), _percent(min(row.accuracies)))
            for row in rows
            if row.test == "selection"
        ],
        numbers=2,
    )
    return PAGE.format(title=TITLE, test=test, selection=selection, count=len(SELECTION) * SELECTION_SEEDS)


def spread(row: VibrationRow) -> str:
    """Format the mean, and the standard deviation if there are several values.

    >>> spread(VibrationRow("bands", "test", (0.5, 1.0))), spread(VibrationRow("bands", "test", (0.5,)))
    ('75.0 ± 35.4 %', '50.0 %')
    """
    more = f" ± {100 * stdev(row.accuracies):.1f}" if len(row.accuracies) > 1 else ""
    return f"{100 * fmean(row.accuracies):.1f}{more} %"


def _percent(value: float) -> str:
    return f"{100 * value:.1f} %"


PAGE = """\
{title}

Distinguish inner from outer race faults of MFPT's bearings (48.8 kHz, int16) at unseen loads: train at
loads 1 to 5, test at 6 and 7, on 96 windows of a quarter of a second. The default is the result of
`hadamrnn train mfpt/train --test mfpt/test --features bands --window 12207` and `hadamrnn quantize`.
Accuracies are those of the integers, with means and standard deviations over seeds.

{test}

Logistic regression reads the mean bands of a window; raw samples means `--features none`.

The recipe was selected at loads 1 to 5 alone: {count} networks per line, trained at one or two of these
loads and tested at the others. Every training window is mixed with another of its class
(`--class-mixing 1`), its bands get random offsets of one standard deviation (`--channel-offset 1`), and a
random block of up to half of them is masked (`--channel-mask 16`). If a network trained like this makes
errors in validation, the default masks none and tries one offset of all bands (`--level-offset 1`), then no
offset, and takes what validates best: levels or single bands may distinguish the classes.

{selection}

Written by `hadamrnn bench vibration --out docs/vibration.md`; do not edit.
"""
