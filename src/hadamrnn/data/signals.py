"""Choose a front end for recordings of sound and vibration, and compute its codes.

Unset options follow from the sample rate and the values; `decide_features` completes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hadamrnn.data.audio import choose_front_end, sample_unit, to_samples
from hadamrnn.data.options import RecordingOptions
from hadamrnn.data.tables import SOUND, Recording, listed
from hadamrnn.errors import InputError
from hadamrnn.front_end import KINDS, FrontEnd
from hadamrnn.front_end.reference import compute_bands

# Levels of bands change with load, distance and microphone, so training shifts the bands of each window by
# random offsets. For vibration, validation chooses between one offset per band, with a random block of bands
# masked so that the network does not rely on a few, and one offset for all (`decide_levels`). Windows of a
# class are mixed, which fills the gaps between recorded speeds and levels. `hadamrnn bench vibration` shows
# the selection. The last model is kept, because a few validation files are all classified correctly long
# before training ends.
SOUND_OFFSET = 0.5
HIDDEN_SHARE = 0.5  # largest fraction of the bands to mask
LONGEST_CLIP = 2  # in seconds; if no file is longer, each file is a clip of one window


def adapt_recipe(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the recipe settings to change for recordings with a front end.

    >>> adapt_recipe({"path": "log.csv"}), adapt_recipe({"path": "log.csv", "features": "bands"})
    ({}, {'channel_offset': None, 'channel_mask': 16, 'class_mixing': 1.0, 'keep': 'last'})
    """
    features, path = options.get("features"), Path(str(options.get("path", "")))
    is_sound = path.suffix.lower() == SOUND or any(each.suffix.lower() == SOUND for each in path.rglob("*"))
    if features not in KINDS and (features is not None or not is_sound):
        return {}
    if features != "bands":
        return {"channel_offset": SOUND_OFFSET, "keep": "last"}
    hidden = int(HIDDEN_SHARE * int(options.get("bands") or FrontEnd.bands))
    mixing = 0.0 if options.get("target") else 1.0
    return {"channel_offset": None, "channel_mask": hidden, "class_mixing": mixing, "keep": "last"}


def decide_features(given: RecordingOptions, tables: list[Recording]) -> RecordingOptions:
    """Complete the options of a front end: sample rate, frames, unit of a sample, and windows in samples."""
    rate = common_rate(given, tables)
    front_end = choose_front_end(
        str(given.features), rate, frame=given.frame, hop=given.frame_hop, bands=given.bands
    )
    if len(given.columns) != 1:
        raise InputError(
            f"A front end reads one channel, got {listed(given.columns)}. Name one with --columns."
        )
    unit = given.unit or _unit(tables, given.columns[0])
    window = given.window or _default_window(front_end, tables)
    hop = given.hop or max(window // 2 // front_end.hop, 1) * front_end.hop
    if window < front_end.frame:
        raise InputError(
            f"A window must hold a frame of {front_end.frame} samples, got --window {window}. Choose a "
            "longer window or a shorter --frame."
        )
    if hop % front_end.hop:
        raise InputError(
            f"Windows begin with a frame: --hop must be a multiple of the {front_end.hop} samples from frame "
            f"to frame, got {hop}. Nearest: {max(round(hop / front_end.hop), 1) * front_end.hop}."
        )
    return replace(
        given,
        rate=rate,
        frame=front_end.frame,
        frame_hop=front_end.hop,
        bands=front_end.bands,
        unit=unit,
        window=window,
        hop=hop,
    )


def pad_clip(table: Recording, window: int) -> Recording:
    """Pad a sound shorter than a window with leading silence; leave other recordings unchanged."""
    missing = window - len(table)
    if not table.rate or missing <= 0:
        return table
    return replace(
        table, frame=pd.DataFrame(np.pad(table.frame.to_numpy(), ((missing, 0), (0, 0))), columns=table.names)
    )


def segment_codes(front_end: FrontEnd, values: NDArray[Any]) -> NDArray[np.int16]:
    """Return the codes `(frames, bands)` of the samples `(time, 1)` of one segment."""
    return compute_bands(front_end, to_samples(values[:, 0], front_end.unit))


def common_rate(given: RecordingOptions, tables: list[Recording]) -> int:
    """Return the common sample rate of all recordings, from their files if known, else the given one."""
    found = {table.rate: table.path for table in tables if table.rate}
    if len(found) > 1:
        shown = ", ".join(f"{rate} Hz ({path.name})" for rate, path in sorted(found.items()))
        raise InputError(f"All sound files must have one rate, got {shown}. Resample them: --resample HZ.")
    if given.rate and found and given.rate not in found:
        raise InputError(
            f"Sound files must have {given.rate:g} Hz, as in training or --rate; "
            f"{next(iter(found.values())).name} has {next(iter(found))} Hz. Resample it, or train with "
            f"--resample {given.rate:g}."
        )
    rate = given.rate or next(iter(found), None)
    if rate is None:
        raise InputError("A front end needs the rate of the samples: give --rate, in samples per second.")
    if rate != int(rate):
        raise InputError(f"A front end needs a whole number of samples per second, got --rate {rate:g}.")
    return int(rate)


def _unit(tables: list[Recording], column: str) -> float:
    """Return the value of one sample code of a column."""
    values = [table.numbers(column) for table in tables]
    largest = max(float(np.abs(each).max()) for each in values)
    return sample_unit(largest, all(bool((each == np.floor(each)).all()) for each in values))


def _default_window(front_end: FrontEnd, tables: list[Recording]) -> int:
    """Return the number of samples in a window: the longest file if all files are clips, else one second."""
    longest = max(map(len, tables))
    is_clip = all(table.rate for table in tables) and longest <= LONGEST_CLIP * front_end.rate
    samples = max(longest if is_clip else front_end.rate, front_end.frame)
    return (front_end.num_frames(samples) - 1) * front_end.hop + front_end.frame
