"""Alarms in long recordings, as a page: the signal, what happened, and what was raised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.pages.document import BLUE, GREEN, GREY, ORANGE, Document, Picture, Section
from hadamrnn.pages.drawing import Canvas, styled, svg

MOST_PICTURES, MOST_CHANNELS, MOST_POINTS = 8, 3, 2000

# Name, values (rows, channels), incidents (label, first row, row after the last), events (row, label).
Drawn = tuple[str, NDArray[Any], Sequence[tuple[str, int, int]], Sequence[tuple[int, str]]]


def stream_page(title: str, lead: str, streams: Sequence[Drawn], rate: float, tolerance: int) -> Document:
    """Return a page with a picture of each of the first recordings; see `hadamrnn.streams.compare`."""
    pictures = tuple(
        stream_picture(number, *each, rate, tolerance) for number, each in enumerate(streams[:MOST_PICTURES])
    )
    text = "Shaded: what happened. Lines: alarms of that class, or false ones in orange."
    return Document(title, (f"{lead}.",), (Section("streams", "Recordings", (text,), pictures=pictures),))


def stream_picture(
    number: int,
    name: str,
    values: NDArray[Any],
    incidents: Sequence[tuple[str, int, int]],
    events: Sequence[tuple[int, str]],
    rate: float,
    tolerance: int,
) -> Picture:
    """Return a recording's signal with its incidents and events over time in seconds."""
    stride = max(1, len(values) // MOST_POINTS)
    seconds = np.arange(0, len(values), stride) / rate
    with styled():
        canvas = Canvas(figsize=(9, 2.6))
        signal, truth = canvas.subplots(2, 1, sharex=True, height_ratios=(3, 1))
        for channel, color in zip(
            range(min(values.shape[1], MOST_CHANNELS)), (GREY, BLUE, GREEN), strict=False
        ):
            signal.plot(seconds, values[::stride, channel], color=color, linewidth=0.5)
        signal.set_title(name.replace("$", r"\$"))
        labels = sorted({label for label, _, _ in incidents} | {label for _, label in events})
        for label, start, end in incidents:
            truth.barh(labels.index(label), (end - start) / rate, left=start / rate, color=BLUE, alpha=0.3)
        for row, label in events:
            right = any(each == label and start <= row < end + tolerance for each, start, end in incidents)
            truth.plot(row / rate, labels.index(label), "|", color="black" if right else ORANGE, markersize=9)
        truth.set_yticks(range(len(labels)), [label.replace("$", r"\$") for label in labels])
        truth.set_xlabel("seconds")
        caption = f"{name}: {len(incidents)} incidents, {len(events)} alarms."
        return Picture(f"stream-{number}", svg(canvas, f"stream-{number}"), caption)
