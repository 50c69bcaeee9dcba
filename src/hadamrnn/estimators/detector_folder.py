"""Store a detector in a folder with one file: the integer network, whose metadata name the channels.

    train_detector("normal.csv", "runs/pump")
    DetectorFolder.open("runs/pump").score("new.csv")

Recordings are tables of `data.tables`; each file is a separate stream. Start at `train_detector`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.data.columns import LABELS, why_not
from hadamrnn.data.tables import Recording, listed, read_tables
from hadamrnn.errors import InputError
from hadamrnn.estimators.detector import HadamRNNDetector
from hadamrnn.files import INTEGER_FILE, RECORD_FILE
from hadamrnn.fixedpoint.alarms import DISTANCE_BITS, Detection, detection_of
from hadamrnn.fixedpoint.encoding import encode_values
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.training.folder import check_free

TRUTH = ("anomaly", *LABELS)  # possible names of the column that marks anomalous rows


@dataclass(frozen=True, eq=False)
class Judged:
    """The results for all rows of some recordings: file, row number, score, and whether there is an alarm."""

    files: list[str]
    rows: list[int]
    scores: NDArray[np.float64]
    alarms: NDArray[np.bool_]


@dataclass(frozen=True)
class Detected:
    """The agreement of alarms with labelled rows; a rate is None if it has no rows to count."""

    samples: int
    anomalies: int
    f1: float | None
    false_alarm_rate: float | None
    missed_rate: float | None

    @classmethod
    def of(cls, truth: NDArray[np.bool_], alarms: NDArray[np.bool_]) -> Detected:
        """Compare alarms with the truth row by row, both `(rows,)`."""
        hit, false = int((truth & alarms).sum()), int((~truth & alarms).sum())
        anomalies, normal = int(truth.sum()), int((~truth).sum())
        found = anomalies + hit + false
        return cls(
            len(truth),
            anomalies,
            2 * hit / found if found else None,
            false / normal if normal else None,
            1 - hit / anomalies if anomalies else None,
        )


def is_detector(path: Path) -> bool:
    """Return whether `path` is the folder of a detector, not of a run."""
    return not (path / RECORD_FILE).exists() and (path / INTEGER_FILE).is_file()


def refuse_detector(path: Path, advice: str) -> None:
    """Refuse a detector's folder in a command that only accepts runs."""
    if is_detector(path):
        raise InputError(f"{path} holds an anomaly detector, {advice}")


def train_detector(source: str | Path, out: str | Path, columns: Sequence[str], **parameters: Any) -> Judged:
    """Fit a `HadamRNNDetector` to normal recordings and write it to the new folder `out`.

    Args:
        source: a file of recordings, or a folder of them.
        columns: the channels; by default all numeric columns except clocks and labels.
        parameters: parameters of the detector.

    Returns:
        The written detector's results for the rows that it was fitted to.
    """
    check_free(out)
    tables = read_tables(source, labels=())
    channels = tuple(columns) or _channels(tables)
    for table in tables:
        truth = _truth(table)
        if truth is not None and truth.any():
            raise InputError(
                f"A detector learns from normal rows alone, {int(truth.sum())} rows of {table.path} are "
                "labelled as anomalies. Leave them out."
            )
    detector = HadamRNNDetector(**parameters).fit([_values(table, channels) for table in tables])
    integer = detector.quantize()
    names = {"columns": json.dumps(channels)}
    folder = Path(out)
    folder.mkdir(parents=True, exist_ok=True)
    replace(integer, metadata={**integer.metadata, **names}).save(folder / INTEGER_FILE)
    return DetectorFolder.open(folder).judge(source)


@dataclass(frozen=True, eq=False)
class DetectorFolder:
    """A detector from `train_detector`, computing with the integers of the exported C."""

    model: IntegerModel
    detection: Detection
    columns: tuple[str, ...]

    @classmethod
    def open(cls, path: str | Path) -> DetectorFolder:
        """Return the detector in the folder `path`."""
        model = IntegerModel.load(Path(path) / INTEGER_FILE)
        detection = detection_of(model)
        try:
            columns = tuple(map(str, json.loads(str(model.metadata["columns"]))))
        except (KeyError, ValueError, TypeError, RecursionError):
            columns = ()
        if detection is None or len(columns) != model.input_size:
            raise InputError(
                f"{path} must be a run folder or a detector, but its integer network has no detector stage. "
                "Make a detector with: hadamrnn train FILE --goal anomaly"
            )
        return cls(model, detection, columns)

    def judge(self, source: str | Path) -> Judged:
        """Return scores and alarms of all rows of recordings; each file is a separate stream."""
        return self._judge(read_tables(source, labels=()))

    def evaluate(self, source: str | Path) -> Detected:
        """Compare alarms with the labels in recordings: a column anomaly or label, with values 0 and 1."""
        tables = read_tables(source, labels=())
        truths = []
        for table in tables:
            truth = _truth(table)
            if truth is None:
                raise InputError(
                    f"A detector is measured by a column of 0 and 1 named {listed(TRUTH)}, {table.path} has "
                    f"{listed(table.names)}. Without one see: hadamrnn predict"
                )
            truths.append(truth)
        return Detected.of(np.concatenate(truths), self._judge(tables).alarms)

    def _judge(self, tables: list[Recording]) -> Judged:
        levels = [
            self.detection.run(self.model, encode_values(self.model, _values(table, self.columns))[0])
            for table in tables
        ]
        files = [str(table.path) for table in tables for _ in range(len(table))]
        rows = [row for table in tables for row in range(len(table))]
        found = np.concatenate(levels)
        scores = 0.0 - np.ldexp(found.astype(np.float64), -2 * DISTANCE_BITS)  # 0.0, not -0.0
        return Judged(files, rows, scores, found > self.detection.threshold)


def _channels(tables: list[Recording]) -> tuple[str, ...]:
    """Return the columns that can be channels."""
    first, unlabelled = tables[0], np.zeros(sum(map(len, tables)), object)
    found = tuple(name for name in first.names if not why_not(tables, name, unlabelled))
    if not found:
        raise InputError(
            f"A recording needs a numeric column to read, and {first.path} has only {listed(first.names)}. "
            "Name columns with --columns."
        )
    return found


def _values(table: Recording, columns: Sequence[str]) -> NDArray[np.float64]:
    return np.asarray(table.channels(columns), np.float64)


def _truth(table: Recording) -> NDArray[np.bool_] | None:
    """Return which rows are labelled as anomalies; None if there is no such column."""
    name = next((name for name in table.names if name.lower() in TRUTH), None)
    if name is None:
        return None
    values = table.numbers(name) if table.is_numeric(name) else np.full(1, np.nan)
    if not np.isin(values, (0, 1)).all():
        raise InputError(f"{name!r} of {table.path} must be 1 for anomalies and 0 for normal rows.")
    return np.asarray(values == 1)
