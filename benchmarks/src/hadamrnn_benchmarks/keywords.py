"""Measure the accuracy that the integer front end costs, compared with bands computed in float64.

Both feed the bundled keyword networks, so only the bands differ. Start at `run_keywords`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hadamrnn.data.files import fetch
from hadamrnn.fixedpoint import Engine, encode_raw
from hadamrnn.front_end import CODES_PER_OCTAVE, FrontEnd
from hadamrnn.front_end.reference import compute_bands
from hadamrnn.models import find
from hadamrnn_benchmarks.markdown import markdown_table
from hadamrnn_paper.data.keywords import FILES, expand

TITLE = "# Keywords"
MODELS = ("keywords-5kb", "keywords-16kb")


@dataclass(frozen=True)
class KeywordRow:
    """A bundled model's accuracy on the test clips with either front end, and its cost."""

    model: str
    clips: int
    integers: float
    float64: float
    changed: int  # clips that get a different answer

    @property
    def loss(self) -> float:
        """The points of accuracy that the integer front end loses."""
        return 100 * (self.float64 - self.integers)


def run_keywords(data_dir: str | Path | None = None) -> list[KeywordRow]:
    """Return a row for each model, over all raw test clips."""
    with np.load(fetch(FILES["sound"], data_dir)) as arrays:
        clips, labels = expand(arrays["x_test"]), arrays["y_test"].astype(np.int64)
    return [compare(name, clips, labels) for name in MODELS]


def compare(name: str, clips: NDArray[np.int16], labels: NDArray[np.int64]) -> KeywordRow:
    """Return the row of one bundled model."""
    model = find(name).load()
    front_end = model.network.front_end
    assert front_end is not None

    def answers(bands: list[NDArray[np.integer]]) -> NDArray[np.int64]:
        inputs, _ = encode_raw(model, np.stack(bands).astype(np.int32))
        found: NDArray[np.int64] = Engine(model).run(inputs).logits.argmax(1)
        return found

    integers = answers([compute_bands(front_end, clip) for clip in clips])
    exact = answers(
        [np.rint(CODES_PER_OCTAVE * float_bands(front_end, clip)).astype(np.int32) for clip in clips]
    )
    return KeywordRow(
        name,
        len(clips),
        float(np.mean(integers == labels)),
        float(np.mean(exact == labels)),
        int((integers != exact).sum()),
    )


def float_bands(front_end: FrontEnd, samples: NDArray[np.int16]) -> NDArray[np.float64]:
    """Return log2 of the band energies in float64, as defined, and at least 0."""
    frames = np.lib.stride_tricks.sliding_window_view(samples.astype(float), front_end.frame)
    frames = frames[:: front_end.hop]
    if front_end.is_mel:
        before = np.concatenate((frames[:, :1], frames[:, :-1]), 1)
        windowed = (frames - before * 31 / 32) * np.hamming(front_end.frame)
    else:
        windowed = (frames - frames.mean(1, keepdims=True)) * np.hanning(front_end.frame)
    power = abs(np.fft.rfft(windowed, front_end.fft_size)) ** 2 / front_end.fft_size
    bins, edges = np.arange(front_end.fft_size // 2 + 1), front_end.edges
    if front_end.is_mel:
        shapes = [np.interp(bins, edges[j : j + 3], (0, 1, 0)) for j in range(front_end.bands)]
    else:
        shapes = [(bins >= edges[j]) & (bins < edges[j + 1]) for j in range(front_end.bands)]
    energies: NDArray[np.float64] = np.log2(np.maximum(power @ np.stack(shapes, 1), 1))
    return energies


def keywords_page(rows: Sequence[KeywordRow]) -> str:
    """Return the Markdown of the page."""
    table = markdown_table(
        ("model", "integer front end", "float64 front end", "loss, points", "other answers"),
        [
            (
                row.model,
                f"{100 * row.integers:.2f} %",
                f"{100 * row.float64:.2f} %",
                f"{row.loss:+.2f}",
                str(row.changed),
            )
            for row in rows
        ],
        numbers=4,
    )
    return PAGE.format(title=TITLE, table=table, clips=rows[0].clips)


PAGE = """\
{title}

What the integers of [the front end](how.md#the-front-end) cost: the bundled keyword networks, in integers,
over the {clips:,} raw test clips of Google-12. They read bands that the front end computed in integers, as
on a device, or bands computed in float64 by the definition and rounded once.

{table}

A negative loss means that the integers are ahead by chance; "other answers" counts the clips with another
class.
[Results](results.md#sound-and-vibration) has the accuracy of these networks over three seeds, and
[microcontrollers](edge.md#the-signal-front-end) what the front end costs.

Written by `hadamrnn bench keywords --out docs/keywords.md`; do not edit.
"""
