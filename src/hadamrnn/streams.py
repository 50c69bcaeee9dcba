"""Process long recordings as a device does: classify windows, raise events and compare them with labels.

An incident is a run of rows with the same label, if this is not a background label. It is detected by an
event of its class between its first row and one window after its last row; any other event is a false alarm.
Start at `read_streams`; `try_decisions` and `choose` find a `Decision`, and `raise_events` and `compare`
apply it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.options import RecordingOptions
from hadamrnn.data.recordings import read_segments
from hadamrnn.data.samples import cut_windows
from hadamrnn.data.scaling import scaled_alike
from hadamrnn.data.segments import Segment
from hadamrnn.data.signals import segment_codes
from hadamrnn.errors import InputError, check_name, short
from hadamrnn.fixedpoint.alarms import NEVER, Decider, Decision, margin
from hadamrnn.fixedpoint.encoding import encode_raw, raw_from_inputs
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.quantization.results import Saturation
from hadamrnn.run import Run

BACKGROUND = ("background", "idle", "none", "normal", "nothing", "ok", "other", "rest", "silence", "unknown")
VOTES = ((1, 1), (2, 3), (3, 5), (4, 6))  # k-of-n votes that `tune` tries
WINDOWS_AT_ONCE = 1024
SHARES = np.geomspace(1, 1e-5, 61)  # fractions of wrong votes that a threshold lets pass


@dataclass(frozen=True, eq=False)
class Stream:
    """One recording, in the form in which a device reads it.

    Args:
        name: name of the file.
        start: first row in the file.
        values, labels: the signal, `(rows, channels)`, and the class of each row.
        raw: the device's input, raw codes `(steps, channels)`; one step covers `rows_per_step` rows.
        ends, classes, margins: last row of each window, and the class and margin of its logits.
        saturation: number of clipped inputs, and of clipped states in all windows.
    """

    name: str
    start: int
    values: NDArray[Any]
    labels: NDArray[np.object_]
    raw: NDArray[np.int64]
    rows_per_step: int
    ends: NDArray[np.int64]
    classes: NDArray[np.int64]
    margins: NDArray[np.int64]
    saturation: Saturation

    @property
    def title(self) -> str:
        return self.name if self.start == 0 else f"{self.name} from row {self.start}"

    def incidents(self, background: Collection[str]) -> list[tuple[str, int, int]]:
        """Return the label, first row and end row of each run of rows that are not background."""
        return [each for each in self.runs if each[0] not in background]

    @cached_property
    def runs(self) -> list[tuple[str, int, int]]:
        """Return the label, first row and end row of each run of rows with the same label."""
        edges = [0, *(np.flatnonzero(self.labels[1:] != self.labels[:-1]) + 1).tolist(), len(self.labels)]
        return [(str(self.labels[start]), start, end) for start, end in pairwise(edges)]


@dataclass(frozen=True)
class Report:
    """The quality of the events: incidents, detections, latencies, and false alarms per hour."""

    hours: float
    incidents: int
    detected: int
    false_alarms: int
    latencies: tuple[float, ...]  # seconds from the first row of each detected incident

    @property
    def per_hour(self) -> float:
        return self.false_alarms / self.hours

    @property
    def latency(self) -> float | None:
        """The median latency in seconds; None if nothing was detected."""
        return float(np.median(self.latencies)) if self.latencies else None

    def figures(self) -> dict[str, Any]:
        return {
            "hours": round(self.hours, 4),
            "incidents": self.incidents,
            "detected": self.detected,
            "missed": self.incidents - self.detected,
            "false_alarms": self.false_alarms,
            "false_alarms_per_hour": round(self.per_hour, 4),
            "median_latency": self.latency,
        }

    def lines(self) -> list[str]:
        after = "" if self.latency is None else f", half of them within {self.latency:.2f} s"
        return [
            f"detected      {self.detected} of {self.incidents} incidents{after}",
            f"false alarms  {self.false_alarms} in {self.hours:.2f} hours, {self.per_hour:.2f} per hour",
        ]


Event = tuple[int, int]  # row and class


def read_streams(run: Run, path: Path) -> tuple[list[Stream], int, int]:
    """Read recordings as streams for the run's integer network; also return its window and hop in steps.

    Consecutive rows of one group in a file form one stream, because a device does not alternate between
    people.
    """
    if run.config.task != "recordings" or not run.facts.class_names:
        raise InputError(f"Streams need a run trained on recordings with labels, got {run.config.task}.")
    recorded = read_segments(path, RecordingOptions.of(run.config.task_options), group_is_optional=True)
    for label in {segment.label for segment in recorded.segments}:
        check_name("A label", label, run.facts.class_names)
    front_end = recorded.options.front_end
    window, hop, _ = window_steps(recorded.options)
    streams = [
        _stream(run, recorded.paths[file].name, list(pieces), front_end, window, hop)
        for (file, _), pieces in groupby(recorded.segments, lambda each: (each.file, each.group))
    ]
    return [stream for stream in streams if len(stream.ends)], window, hop


def window_steps(options: RecordingOptions) -> tuple[int, int, int]:
    """Return the network's steps per window (a multiple of the hop) and per hop, and the rows per step."""
    front_end, (window, hop) = options.front_end, options.window_and_hop
    rows = 1 if front_end is None else front_end.hop
    steps = window if front_end is None else front_end.num_frames(window)
    hop = max(hop // rows, 1)
    return max(steps // hop, 1) * hop, hop, rows


def _stream(run: Run, name: str, pieces: Sequence[Segment], front_end: Any, window: int, hop: int) -> Stream:
    values = np.concatenate([piece.values for piece in pieces])
    labels = np.repeat(
        np.array([piece.label for piece in pieces], object), [len(each.values) for each in pieces]
    )
    rows_per_step, first = (1, 0) if front_end is None else (front_end.hop, front_end.frame - 1)
    inputs = values if front_end is None else segment_codes(front_end, values)
    raw = device_codes(run, inputs)
    steps, logits, saturation = window_logits(run.integer, raw, window, hop)
    pairs = [margin(each) for each in logits]
    return Stream(
        name=name,
        start=pieces[0].start,
        values=values,
        labels=labels,
        raw=raw,
        rows_per_step=rows_per_step,
        ends=steps * rows_per_step + first,
        classes=np.array([label for label, _ in pairs], np.int64),
        margins=np.array([lead for _, lead in pairs], np.int64),
        saturation=saturation,
    )


def rows_per_second(run: Run, given: float | None, tuned: float | None = None) -> float:
    """Return the sample rate of the training or tuning recordings if it is known, else the given one."""
    trained = run.config.task_options.get("rate")
    known, when = (trained, "training") if trained is not None else (tuned, "tuning")
    if given is not None and known is not None and given != known:
        raise InputError(
            f"--rate must be the {known:g} rows per second of the {when}, got {given:g}. Resample the "
            "recordings, or leave it out."
        )
    rate = known or given
    if rate is None:
        raise InputError("False alarms per hour need the rows per second of the recordings: give --rate.")
    return float(rate)


def device_codes(run: Run, values: NDArray[Any]) -> NDArray[np.int64]:
    """Return the raw codes that a device reads for values `(time, channels)` of the recordings."""
    x = torch.from_numpy(np.asarray(values, np.float64))[None]
    x = scaled_alike(x, run.facts)
    return np.asarray(raw_from_inputs(run.integer, x[0].numpy()), np.int64)


def window_logits(
    model: IntegerModel, raw: NDArray[np.int64], window: int, hop: int
) -> tuple[NDArray[np.int64], NDArray[np.int32], Saturation]:
    """Return every window's last step, its logits as `SlidingWindow` computes them, and the saturation."""
    codes, inputs = encode_raw(model, raw)
    if len(codes) < window:
        nothing = np.empty((0, model.output_size), np.int32)
        return np.empty(0, np.int64), nothing, Saturation(states=0, inputs=inputs)
    windows, engine = cut_windows(codes, window, hop), Engine(model)
    parts = range(0, len(windows), WINDOWS_AT_ONCE)
    results = [engine.run(windows[first : first + WINDOWS_AT_ONCE]) for first in parts]
    ends = window - 1 + hop * np.arange(len(windows))
    saturation = Saturation(states=sum(each.saturations for each in results), inputs=inputs)
    return ends, np.concatenate([result.logits for result in results]), saturation


def joint_saturation(streams: Sequence[Stream]) -> Saturation:
    """Return the clipped states and inputs of all streams."""
    each = [stream.saturation for stream in streams]
    return Saturation(states=sum(one.states for one in each), inputs=sum(one.inputs for one in each))


def is_own_data(run: Run, path: Path) -> bool:
    """Return whether any of the recordings were used to train the run."""
    own = Path(run.config.task_options["path"]).resolve()
    return own in (path.resolve(), *path.resolve().parents)


def raise_events(stream: Stream, decision: Decision) -> list[Event]:
    """Return the events that a decision raises on a stream."""
    decider, events = Decider(decision), []
    rows = zip(stream.ends.tolist(), stream.classes.tolist(), stream.margins.tolist(), strict=True)
    for row, label, lead in rows:
        event = decider.vote(label, lead)
        if event is not None:
            events.append((row, event))
    return events


def compare(
    streams: Sequence[Stream],
    events: Sequence[Sequence[Event]],
    names: Sequence[str],
    background: Collection[str],
    tolerance: int,
    rate: float,
) -> Report:
    """Compare events with incidents; an event up to `tolerance` rows after an incident still detects it."""
    incidents = false_alarms = 0
    latencies: list[float] = []
    for stream, raised in zip(streams, events, strict=True):
        found = stream.incidents(background)
        incidents += len(found)
        first: dict[int, int] = {}
        for row, label in raised:
            hits = [
                number
                for number, (name, start, end) in enumerate(found)
                if name == names[label] and start <= row < end + tolerance
            ]
            false_alarms += not hits
            for number in hits[:1]:
                first.setdefault(number, row - found[number][1])
        latencies += [rows / rate for rows in first.values()]
    rows = sum(len(stream.labels) for stream in streams)
    return Report(rows / rate / 3600, incidents, len(latencies), false_alarms, tuple(latencies))


def choose_background(streams: Sequence[Stream], names: Sequence[str], given: Collection[str]) -> list[str]:
    """Return the background classes: the given ones, else those with a usual name, else the most frequent."""
    for name in given:
        check_name("A class", name, names)
    usual = [name for name in names if name.strip("_").lower() in BACKGROUND]
    if given or usual:
        return list(given) or usual
    rows = {name: sum(int((stream.labels == name).sum()) for stream in streams) for name in names}
    return [max(rows, key=rows.__getitem__)]


def check_tunable(streams: Sequence[Stream], background: Collection[str]) -> None:
    """Refuse recordings that lack incidents or background, because all decisions would look alike on them."""
    found = {label for stream in streams for label, _, _ in stream.runs}
    if found <= set(background) or not found & set(background):
        raise InputError(
            f"Tuning needs rows of background ({', '.join(background)}) and of other classes, got "
            f"{', '.join(sorted(found))} alone. Add others, or name the background with --background."
        )


Tried = tuple[Decision, Report]  # a decision and its results


def try_decisions(
    streams: Sequence[Stream],
    names: Sequence[str],
    background: Collection[str],
    rate: float,
    window: int,
    hop: int,
) -> list[Tried]:
    """Return decisions of increasing strictness, each with its report.

    The thresholds of one decision let the same fraction of each class's wrong windows pass.
    """
    wrong = _wrong_margins(streams, names, background)
    tolerance = window * streams[0].rows_per_step
    tried: list[Tried] = []
    for (needed, votes), share in product(VOTES, SHARES):
        thresholds = tuple(
            NEVER if name in background else _threshold(wrong[label], float(share))
            for label, name in enumerate(names)
        )
        sizes = {"window": window, "hop": hop, "refractory": max(window // hop, 1)}
        decision = Decision(thresholds=thresholds, needed=needed, votes=votes, **sizes)
        if tried and tried[-1][0] == decision:
            continue
        raised = [raise_events(stream, decision) for stream in streams]
        tried.append((decision, compare(streams, raised, names, background, tolerance, rate)))
    return tried


def choose(tried: Sequence[Tried], most: float) -> Tried:
    """Return the decision that detects most among those within the limit of false alarms per hour."""

    def rank(pair: Tried) -> tuple[float, ...]:
        report = pair[1]
        return report.detected, -(report.latency or 0.0), -report.per_hour

    allowed = [pair for pair in tried if pair[1].per_hour <= most]
    if not allowed:
        raise InputError(
            f"No decision keeps {short(most)} false alarms per hour on these recordings. Allow more, or "
            "train a better network."
        )
    return max(allowed, key=rank)


def _wrong_margins(
    streams: Sequence[Stream], names: Sequence[str], background: Collection[str]
) -> list[NDArray[np.int64]]:
    """Return the sorted margins of windows wrongly assigned to a class; a window has its last row's label."""
    found: list[list[NDArray[np.int64]]] = [[] for _ in names]
    for stream in streams:
        truth = stream.labels[stream.ends]
        for label, name in enumerate(names):
            found[label].append(stream.margins[(stream.classes == label) & (truth != name)])
    return [np.sort(np.concatenate(each)) for each in found]


def _threshold(wrong: NDArray[np.int64], share: float) -> int:
    """Return the least margin that at most this fraction of the wrong windows reaches."""
    passing = int(share * len(wrong))
    return 0 if passing >= len(wrong) else int(min(wrong[len(wrong) - 1 - passing] + 1, NEVER - 1))
