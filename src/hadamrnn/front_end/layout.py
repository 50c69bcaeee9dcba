"""A front end as the numbers and bytes that `runtime/hadamrnn_front_end.h` reads."""

from __future__ import annotations

import numpy as np

from hadamrnn.front_end.description import FrontEnd, table_fields


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
