"""Compute log energies of frequency bands in integers: the description, tables and cost of a front end.

`FrontEnd` is frozen. Its tables are computed in float64 once and rounded to integers; everything after is
integer arithmetic (`reference.py`, `runtime/hadamrnn_front_end.h`, `export/runtime/front_end.js`).
`front_end_bytes` and `front_end_numbers` are read by the header.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from hadamrnn.settings import OneOf, Positive, Range, check_int, option, validate_fields

KINDS = ("mel", "bands")
MIN_FRAME, MAX_FRAME = 64, 1024
MIN_HOP = 16
MIN_RATE, MAX_RATE = 100, 192_000
WINDOW_BITS = 15  # fractional bits of the window
COSINE_BITS = 14  # fractional bits of the cosines; 1 is exact
WEIGHT_BITS = 8  # fractional bits of a band's weights
CODES_PER_OCTAVE = 64  # resolution of a band: 1/64 of a doubling of its energy, 0.047 dB

Integers = NDArray[np.int64]


@dataclass(frozen=True)
class FrontEnd:
    """A front end that turns frames of a signal into the log energies of frequency bands.

    `mel` is for sound: pre-emphasis, a Hamming window, and overlapping triangles on the mel scale. `bands` is
    for vibration: mean removal in each frame, a Hann window, and adjacent bands of equal width.

    >>> FrontEnd("mel", rate=16000, frame=400, hop=160, bands=32).fft_size
    512
    """

    kind: Annotated[str, OneOf(KINDS)] = option("mel", "mel or bands")
    rate: Annotated[int, Range(MIN_RATE, MAX_RATE)] = option(16_000, "samples per second")
    frame: Annotated[int, Range(MIN_FRAME, MAX_FRAME)] = option(400, "samples of a frame")
    hop: Annotated[int, Range(MIN_HOP, MAX_FRAME)] = option(160, "samples from one frame to the next")
    bands: Annotated[int, Range(8, 64)] = option(32, "frequency bands")
    noise_shift: Annotated[int, Range(0, 12)] = option(
        0, "k of the noise floor that follows a band by 2^-k per frame and is subtracted; 0: none"
    )
    unit: Positive = option(1.0, "the value of a sample code 1, in the unit of the training data")

    def __post_init__(self) -> None:
        validate_fields(self)
        check_int("hop, at most a frame,", self.hop, MIN_HOP, self.frame)

    @property
    def fft_size(self) -> int:
        """The size of the Fourier transform: a power of two that covers a frame and separates the bands."""
        return 1 << (max(self.frame, 4 * self.bands) - 1).bit_length()

    @property
    def is_mel(self) -> bool:
        return self.kind == "mel"

    def num_frames(self, num_samples: int) -> int:
        """Return the number of whole frames.

        >>> FrontEnd(frame=400, hop=160).num_frames(16000)
        98
        """
        return max((num_samples - self.frame) // self.hop + 1, 0)

    @cached_property
    def window(self) -> Integers:
        """Return the first half of the symmetric window, Q15."""
        place = np.arange((self.frame + 1) // 2)
        edge = 0.54 if self.is_mel else 0.5
        values = edge - (1 - edge) * np.cos(2 * np.pi * place / (self.frame - 1))
        one = (1 << WINDOW_BITS) - 1
        return np.minimum(_rounded(values * (1 << WINDOW_BITS)), one)

    @cached_property
    def cosines(self) -> Integers:
        """Return cos(2 pi t / fft_size) for t = 0 .. fft_size / 4, Q14."""
        angles = 2 * np.pi * np.arange(self.fft_size // 4 + 1) / self.fft_size
        return _rounded(np.cos(angles) * (1 << COSINE_BITS))

    @cached_property
    def edges(self) -> Integers:
        """Return the first bins of the bands, strictly increasing.

        In `mel`, triangle j rises from edge j to edge j + 1 and falls to edge j + 2. In `bands`, band j has
        the bins from edge j up to edge j + 1. Bins 0 and fft_size / 2 are not in any band.
        """
        if not self.is_mel:
            return 1 + np.arange(self.bands + 1) * (self.fft_size // 2 - 1) // self.bands
        mels = np.linspace(0, 2595 * np.log10(1 + self.rate / 2 / 700), self.bands + 2)
        frequencies = 700 * (10 ** (mels / 2595) - 1)
        bins = np.floor((self.fft_size + 1) * frequencies / self.rate).astype(np.int64)
        for place in range(1, len(bins)):  # narrow triangles at low frequencies keep one bin each
            bins[place] = max(bins[place], bins[place - 1] + 1)
        return bins

    @cached_property
    def weights(self) -> Integers:
        """Return the rising triangle's height in each bin from edge 0 to the last edge, in 1/256.

        The remainder to 256 belongs to the falling triangle. `bands` need no weights.
        """
        if not self.is_mel:
            return np.zeros(0, np.int64)
        rises = [
            _rounded((1 << WEIGHT_BITS) * np.arange(end - start) / (end - start))
            for start, end in zip(self.edges[:-1], self.edges[1:], strict=True)
        ]
        return np.concatenate(rises)

    def __str__(self) -> str:
        """Describe the front end, for example `32 mel bands of 400 samples, every 160, at 16000 Hz`."""
        name = "mel bands" if self.is_mel else "bands"
        return f"{self.bands} {name} of {self.frame} samples, every {self.hop}, at {self.rate} Hz"


def _rounded(values: NDArray[np.float64]) -> Integers:
    return np.asarray(np.rint(values), np.int64)


def log_table() -> Integers:
    """Return 1024 log2(1 + i / 32) for i = 0 .. 32."""
    return _rounded(1024 * np.log2(1 + np.arange(33) / 32))


def table_fields(front_end: FrontEnd) -> dict[str, Integers]:
    """Return the tables by the names that C and JavaScript share."""
    return {
        "window": front_end.window,
        "cosines": front_end.cosines,
        "edges": front_end.edges,
        "weights": front_end.weights,
        "log2": log_table(),
    }


def front_end_bytes(front_end: FrontEnd) -> tuple[bytes, dict[str, int]]:
    """Concatenate the tables, words little endian and aligned; also return their offsets."""
    content, starts = b"", {}
    for name, table in table_fields(front_end).items():
        starts[name] = len(content)
        stored = table.astype(np.uint8 if name == "weights" else "<i2").tobytes()
        content += stored + bytes(-len(stored) % 4)
    return content, starts


def front_end_numbers(front_end: FrontEnd) -> dict[str, int]:
    """Return the numbers of `hadamrnn_front_end`, in the order of its fields."""
    return {
        "frame": front_end.frame,
        "hop": front_end.hop,
        "log2_size": front_end.fft_size.bit_length() - 1,
        "bands": front_end.bands,
        "is_mel": int(front_end.is_mel),
        "noise_shift": front_end.noise_shift,
    }


STREAM = 16  # bytes: three pointers of 32 bits, two counts
CODE_BYTES = 1400  # on a Cortex-M4
PER_HOP_SAMPLE, PER_FRAME_SAMPLE, PER_BUTTERFLY, PER_POINT, PER_MEL_BIN, PER_BAND = 5, 30, 33, 113, 30, 160


@dataclass(frozen=True)
class FrontEndCost:
    """Bytes of tables in flash and of a stream in RAM; multiplications, additions and instructions per frame.

    Instructions are estimated for a Cortex-M4 (`gcc -O2`); of 30 random front ends, the counts in an emulator
    were 0 to 4 % lower.
    """

    tables: int
    ram: int
    multiplications: int
    additions: int
    instructions: int

    @property
    def flash(self) -> int:
        return self.tables + CODE_BYTES


def front_end_cost(front_end: FrontEnd) -> FrontEndCost:
    """Return the cost, counting a product of two bytes or words as one multiplication.

    >>> front_end_cost(FrontEnd("mel", rate=16000, frame=400, hop=160, bands=32)).tables
    1052
    """
    tables, _ = front_end_bytes(front_end)
    points = front_end.fft_size // 2
    butterflies = points // 2 * (points.bit_length() - 1)
    bins = int(front_end.edges[-1] - front_end.edges[0])
    noise = front_end.bands if front_end.noise_shift else 0
    instructions = PER_HOP_SAMPLE * front_end.hop + PER_FRAME_SAMPLE * front_end.frame
    instructions += PER_BUTTERFLY * butterflies + PER_POINT * points + PER_BAND * front_end.bands
    return FrontEndCost(
        tables=len(tables),
        ram=STREAM + 2 * front_end.frame + 2 * front_end.fft_size + 4 * noise,
        multiplications=front_end.frame + 4 * butterflies + (8 if front_end.is_mel else 6) * bins,
        additions=2 * front_end.frame + 6 * butterflies + (12 if front_end.is_mel else 11) * bins,
        instructions=instructions + (PER_MEL_BIN * bins if front_end.is_mel else 0),
    )
