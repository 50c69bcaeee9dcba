"""Parse the RIFF chunks of a WAV file: the sample rate and the stored values. Start at `parse_wav`.

A recorder that writes to a pipe, or is stopped, leaves 0 or the largest number as the size of the samples.
Samples are then read to the end of the file.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

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


@dataclass(frozen=True, eq=False)
class Wav:
    """The values `(time, channels)` of a WAV file; 24-bit values are in the upper bytes of int32.

    `is_cut` means that the header announces more samples than the file has.
    """

    rate: int
    values: NDArray[Any]
    is_cut: bool


def parse_wav(content: bytes) -> Wav:
    """Return the values of a WAV file: integers of 8 to 32 bits, or floats of 32 or 64 bits.

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


def _samples(form: bytes, data: memoryview, size: int | None) -> Wav:
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
    return Wav(rate, _decoded(stored, KINDS[coding, bits]), size is not None and size > len(data))


def _decoded(stored: NDArray[np.uint8], kind: str) -> NDArray[Any]:
    """Decode bytes `(time, channels, width)` to values `(time, channels)`."""
    missing = np.dtype(kind).itemsize - stored.shape[2]
    if missing:  # 24 bits are the upper bytes of 32
        stored = np.pad(stored, ((0, 0), (0, 0), (missing, 0)))
    values: NDArray[Any] = np.ascontiguousarray(stored).view(kind)[:, :, 0]
    return values
