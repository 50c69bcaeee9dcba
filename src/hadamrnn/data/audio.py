"""Read sound files, and convert signals to samples for a front end.

The first channel of a WAV file of 8, 16, 24 or 32 bits becomes int16 samples at the file's sample rate. A
recorder that writes to a pipe, or is stopped, leaves 0 or the largest number as the size of the samples: they
are then read to the end of the file. Start at `read_wav`; `choose_front_end` derives a front end from a
sample rate.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from math import gcd, log2
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.signal import resample_poly

from hadamrnn.errors import InputError
from hadamrnn.front_end import MAX_FRAME, MAX_RATE, MIN_FRAME, MIN_HOP, MIN_RATE, FrontEnd
from hadamrnn.settings import check_int

SAMPLE_BITS = 16
FULL_SCALE = (1 << (SAMPLE_BITS - 1)) - 1
CLIPPED_SHARE = 1e-3  # files in which more samples than this are at full scale are reported
FRAME_SECONDS, HOP_SECONDS = 0.025, 0.010  # the usual choice for speech
FRAMES_PER_SECOND = 32  # for vibration: a frame is the largest power of two below 1/32 s, at most 512 samples
LARGEST_BANDS_FRAME = 512

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
CODINGS = {PCM: "integers", 2: "ADPCM", FLOAT: "floats", 6: "A-law", 7: "mu-law", 17: "ADPCM", 85: "MP3"}
FORMAT = struct.Struct("<HHIIHH")  # coding, channels, sample rate, bytes per second, bytes per step, bits
SUBFORMAT = 24  # offset of the coding in an extensible format
UNKNOWN = 0xFFFFFFFF  # size field of samples that were written to a pipe
KINDS = {  # dtypes with which numpy reads the values
    (PCM, 8): "u1",
    (PCM, 16): "<i2",
    (PCM, 24): "<i4",
    (PCM, 32): "<i4",
    (FLOAT, 32): "<f4",
    (FLOAT, 64): "<f8",
}
CONVERT = "Convert it, for example: ffmpeg -i IN -c:a pcm_s16le OUT.wav"

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
        rate, values, is_cut = parse_wav(path.read_bytes())
    except ValueError as error:
        raise InputError(f"{path} {error}") from None
    check_int(f"{path}: the rate in Hz", rate, MIN_RATE, MAX_RATE)
    if not len(values):
        raise InputError(f"{path} must hold samples, got none.")
    samples = _as_int16(values[:, 0], path)
    channels = values.shape[1]
    remarks = [f"the first of {channels} channels"] if channels > 1 else []
    if is_cut:
        remarks.append("cut short: its header promises more samples")
    if (samples == samples[0]).all():
        remarks.append(f"silent: every sample is {samples[0]}")
    elif (clipped := float(np.mean(abs(samples.astype(np.int32)) >= FULL_SCALE))) > CLIPPED_SHARE:
        remarks.append(f"clipped: {clipped:.1%} of the samples are at full scale")
    return Sound(samples, rate, tuple(remarks))


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


def parse_wav(content: bytes) -> tuple[int, NDArray[Any], bool]:
    """Return the sample rate of a WAV file, its values, and whether its header announces more than it has.

    Values `(time, channels)` are integers of 8 to 32 bits, 24-bit ones in the upper bytes of int32, or floats
    of 32 or 64 bits.

    Raises:
        ValueError: the file is invalid; the message completes a sentence that begins with its name.

    >>> parse_wav(b"ID3")
    Traceback (most recent call last):
    ValueError: is no RIFF WAV file. Convert it, for example: ffmpeg -i IN -c:a pcm_s16le OUT.wav
    """
    if content[:4] != b"RIFF" or content[8:12] != b"WAVE":
        raise ValueError(f"is no RIFF WAV file. {CONVERT}")
    form, end = b"", 8 + int.from_bytes(content[4:8], "little")
    for name, start, size in _chunks(content):
        if name == b"fmt ":
            form = content[start : start + size]
        elif name == b"data":
            is_open = size == UNKNOWN or (size == 0 and end <= start)
            return _samples(form, memoryview(content)[start:], None if is_open else size)
    raise ValueError("has no samples: its data chunk is missing. Record it again.")


def _chunks(content: bytes) -> Iterator[tuple[bytes, int, int]]:
    """Yield the name, the start and the stated size of each chunk."""
    place = 12
    while place + 8 <= len(content):
        name, size = struct.unpack_from("<4sI", content, place)
        yield name, place + 8, size
        place += 8 + size + size % 2


def _samples(form: bytes, data: memoryview, size: int | None) -> tuple[int, NDArray[Any], bool]:
    """Return the samples in the first `size` bytes of `data`, or fewer if it is shorter; None means all."""
    if len(form) < FORMAT.size:
        raise ValueError("has a damaged header: its format is missing. Record it again.")
    coding, channels, rate, _, step, bits = FORMAT.unpack_from(form)
    if coding == EXTENSIBLE and len(form) >= SUBFORMAT + 2:
        coding = int.from_bytes(form[SUBFORMAT : SUBFORMAT + 2], "little")
    width = bits // 8
    if (coding, bits) not in KINDS:
        name = CODINGS.get(coding, f"coding {coding}")
        raise ValueError(
            f"must hold integers of 8 to 32 bits or floats, got {name} of {bits} bits. {CONVERT}"
        )
    if channels == 0 or step != channels * width:
        raise ValueError(f"has a damaged header: {channels} channels in {step} bytes. Record it again.")
    whole = len(data[:size]) // step
    stored = np.frombuffer(data, np.uint8, whole * step).reshape(whole, channels, width)
    return rate, _decoded(stored, KINDS[coding, bits]), size is not None and size > len(data)


def _decoded(stored: NDArray[np.uint8], kind: str) -> NDArray[Any]:
    """Decode bytes `(time, channels, width)` to values `(time, channels)`."""
    missing = np.dtype(kind).itemsize - stored.shape[2]
    if missing:  # 24 bits are the upper bytes of 32
        stored = np.pad(stored, ((0, 0), (0, 0), (missing, 0)))
    values: NDArray[Any] = np.ascontiguousarray(stored).view(kind)[:, :, 0]
    return values
