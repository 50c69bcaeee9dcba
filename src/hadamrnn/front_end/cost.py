"""Count the bytes of a front end, and the operations of a frame by the equations of `reference.py`."""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.front_end.description import FrontEnd
from hadamrnn.front_end.layout import front_end_bytes

STREAM = 16  # bytes: three pointers of 32 bits, two counts


@dataclass(frozen=True)
class FrontEndCost:
    """Tables in flash and a stream in RAM, in bytes; multiplications and additions of a frame."""

    tables: int
    ram: int
    multiplications: int
    additions: int


def front_end_cost(front_end: FrontEnd) -> FrontEndCost:
    """Return the cost; a product of two bytes or words is one multiplication.

    >>> front_end_cost(FrontEnd("mel", rate=16000, frame=400, hop=160, bands=32)).tables
    1052
    """
    tables, _ = front_end_bytes(front_end)
    points = front_end.fft_size // 2
    butterflies = points // 2 * (points.bit_length() - 1)
    bins = int(front_end.edges[-1] - front_end.edges[0])
    noise = front_end.bands if front_end.noise_shift else 0
    return FrontEndCost(
        tables=len(tables),
        ram=STREAM + 2 * front_end.frame + 2 * front_end.fft_size + 4 * noise,
        multiplications=front_end.frame + 4 * butterflies + (8 if front_end.is_mel else 6) * bins,
        additions=2 * front_end.frame + 6 * butterflies + (12 if front_end.is_mel else 11) * bins,
    )
