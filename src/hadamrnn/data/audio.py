"""Read sound files, and convert signals to samples for a front end.

The first channel of a WAV file of 8, 16, 24 or 32 bits becomes int16 samples at the file's sample rate. Start
at `read_wav`; `choose_front_end` derives a front end from a sample rate.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd, log2
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from hadamrnn.data.wav import parse_wav
from hadamrnn.errors import InputError
from hadamrnn.front_end.description import MAX_FRAME, MAX_RATE, MIN_FRAME, MIN_HOP, MIN_RATE, FrontEnd
from hadamrnn.settings import check_int

SAMPLE_BITS = 16
FULL_SCALE = (1 << (SAMPLE_BITS - 1)) - 1
CLIPPED_SHARE = 1e-3  # files in which more samples than this are at full scale are reported
FRAME_SECONDS, HOP_SECONDS = 0.025, 0.010  # the usual choice for speech
FRAMES_PER_SECOND = 32  # for vibration: a frame is the largest power of two below 1/32 s, at most 512 samples
LARGEST_BANDS_FRAME = 512

Samples = NDArray[np.int16]


@dataclass(frozen=True, eq=False)
class Sound:
    """The samples `(time,)` of one file, `rate` per second, with `remarks` for the user."""

    samples: Samples
    rate: int
    remarks: tuple[str, ...] = ()


def read_wav(path: Path) -> Sound:
    """Return the first channel of a WAV file as int16; 24 and 32 bits are rounded."""
    try:
        wav = parse_wav(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path} {error}") from None
    check_int(f"{path}: the rate in Hz", wav.rate, MIN_RATE, MAX_RATE)
    if not len(wav.values):
        raise InputError(f"{path} must hold samples, got none.")
    samples = _as_int16(wav.values[:, 0], path)
    channels = wav.values.shape[1]
    remarks = [f"the first of {channels} channels"] if channels > 1 else []
    if wav.is_cut:
        remarks.append("cut short: its header promises more samples")
    if (samples == samples[0]).all():
        remarks.append(f"silent: every sample is {samples[0]}")
    elif (clipped := float(np.mean(abs(samples.astype(np.int32)) >= FULL_SCALE))) > CLIPPED_SHARE:
        remarks.append(f"clipped: {clipped:.1%} of the samples are at full scale")
    return Sound(samples, wav.rate, tuple(remarks))


def _as_int16(values: NDArray[Any], path: Path) -> Samples:
    kind = values.dtype
    if kind == np.uint8:
        return (values.astype(np.int16) - 128) << 8
    if kind == np.int32:
        return _rounded(values / (1 << 16))
    if kind.kind == "f":
        if not np.isfinite(values).all():
            raise InputError(f"{path} must hold finite samples, got NaN or infinity. Write it again.")
        return _rounded(values.astype(np.float64) * (FULL_SCALE + 1))
    return values.astype(np.int16)


def _rounded(values: NDArray[np.float64]) -> Samples:
    """Return values as int16, rounding ties towards +infinity and clipping to full scale."""
    samples: Samples = np.clip(np.floor(values + 0.5), -FULL_SCALE - 1, FULL_SCALE).astype(np.int16)
    return samples


def resampled(sound: Sound, rate: int) -> Sound:
    """Resample a sound, low-pass filtered below half of the lower rate and clipped to int16.

    >>> resampled(Sound(np.zeros(441, np.int16), 44_100), 16_000).samples.shape
    (160,)
    """
    if sound.rate == rate:
        return sound
    common = gcd(sound.rate, rate)
    values = resample_poly(sound.samples.astype(np.float64), rate // common, sound.rate // common)
    remark = f"resampled from {sound.rate} to {rate} Hz"
    return Sound(_rounded(values), rate, (*sound.remarks, remark))


def choose_front_end(kind: str, rate: int, **given: Any) -> FrontEnd:
    """Return a front end for a sample rate, which determines all settings that are not `given`.

    Speech has frames of 25 ms every 10 ms; vibration has adjacent frames of at most 1/32 s.

    >>> str(choose_front_end("mel", 16000))
    '32 mel bands of 400 samples, every 160, at 16000 Hz'
    >>> str(choose_front_end("bands", 12000))
    '32 bands of 256 samples, every 256, at 12000 Hz'
    """
    if kind == "mel":
        frame = min(max(round(FRAME_SECONDS * rate), MIN_FRAME), MAX_FRAME)
        hop = max(round(HOP_SECONDS * rate), MIN_HOP)
    else:
        frame = min(max(1 << int(log2(rate / FRAMES_PER_SECOND)), MIN_FRAME), LARGEST_BANDS_FRAME)
        hop = frame
    chosen = {"frame": frame, **{name: value for name, value in given.items() if value is not None}}
    return FrontEnd(kind=kind, rate=rate, **{"hop": min(hop, chosen["frame"]), **chosen})


def to_samples(values: NDArray[Any], unit: float) -> Samples:
    """Convert a recording's values to int16 samples round(value / unit), with ties towards +infinity."""
    rounded = np.floor(values.astype(np.float64) / unit + 0.5)
    if len(rounded) and (rounded.max() > FULL_SCALE or rounded.min() < -FULL_SCALE - 1):
        raise InputError(
            f"Samples must fit 16 bits at a unit of {unit:g}, the largest is {np.abs(values).max():g}. Scale "
            "the recording as the training data was, or train with a larger --unit."
        )
    samples: Samples = rounded.astype(np.int16)
    return samples


def sample_unit(largest: float, whole: bool) -> float:
    """Return the value of one sample code: 1 for 16-bit integers, else a power of two.

    The largest value uses at most half of the code range.

    >>> sample_unit(20000.0, whole=True), sample_unit(7.5, whole=False)
    (1.0, 0.00048828125)
    """
    if whole and largest <= FULL_SCALE + 1:
        return 1.0
    return float(2.0 ** (np.frexp(largest or 1.0)[1] - (SAMPLE_BITS - 2)))
