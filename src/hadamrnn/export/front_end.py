"""A signal front end as data: of `runtime/hadamrnn_front_end.h`, and of `runtime/front_end.js`."""

from __future__ import annotations

from typing import Any

from hadamrnn.front_end.description import FrontEnd, table_fields
from hadamrnn.front_end.layout import front_end_bytes, front_end_numbers


def front_end_struct(front_end: FrontEnd) -> dict[str, str]:
    """Return the fields of `hadamrnn_front_end`, name -> C, with the tables in `FRONT_END_DATA`."""
    _, starts = front_end_bytes(front_end)
    numbers = {name: f"{value}u" for name, value in front_end_numbers(front_end).items()}
    return numbers | {name: f"&FRONT_END_DATA[{start}]" for name, start in starts.items()}


def front_end_js(front_end: FrontEnd) -> dict[str, Any]:
    """Return the argument of `new FrontEnd` in the JavaScript runtime."""
    return {
        "frame": front_end.frame,
        "hop": front_end.hop,
        "fftSize": front_end.fft_size,
        "bands": front_end.bands,
        "isMel": front_end.is_mel,
        "noiseShift": front_end.noise_shift,
        **{name: table.tolist() for name, table in table_fields(front_end).items()},
    }
