"""Random front ends and the signals that test them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hadamrnn.front_end import FrontEnd, front_end_bytes, front_end_numbers

Samples = NDArray[np.int16]
KINDS = ("noise", "quiet", "silent", "full scale", "constant", "impulse", "tone", "square")


def random_front_end(rng: np.random.Generator) -> FrontEnd:
    frame = int(rng.integers(64, 1025))
    return FrontEnd(
        kind=str(rng.choice(["mel", "bands"])),
        rate=int(rng.integers(1000, 48001)),
        frame=frame,
        hop=int(rng.integers(16, frame + 1)),
        bands=int(rng.integers(8, 65)),
        noise_shift=int(rng.choice([0, 0, 1, 5, 12])),
    )


def drawn_signal(kind: str, size: int, rng: np.random.Generator) -> Samples:
    """Return `size` samples of one kind of signal."""
    time = np.arange(size)
    values = {
        "noise": rng.normal(0, 3000, size),
        "quiet": rng.integers(-1, 2, size),
        "silent": np.zeros(size),
        "full scale": rng.choice([-32768, 32767], size),
        "constant": np.full(size, rng.choice([-32768, -1, 1, 12345, 32767])),
        "impulse": np.where(time == rng.integers(size), rng.choice([-32768, 32767]), 0),
        "tone": 32767 * np.sin(time * rng.uniform(0, np.pi)),
        "square": np.where(time // rng.integers(1, 60) % 2, -32768, 32767),
    }[kind]
    samples: Samples = np.clip(np.rint(values), -32768, 32767).astype(np.int16)
    return samples


def mixed_signal(front_end: FrontEnd, rng: np.random.Generator) -> Samples:
    """Return a frame, at least, of every kind of signal, one after the other."""
    size = front_end.frame + front_end.hop
    return np.concatenate([drawn_signal(kind, size, rng) for kind in KINDS])


def c_cases(cases: Sequence[tuple[FrontEnd, Samples]]) -> str:
    """Return the input of `replay.c`."""
    lines = []
    for front_end, samples in cases:
        content, starts = front_end_bytes(front_end)
        numbers = front_end_numbers(front_end).values()
        lines.append([*numbers, len(content), *starts.values(), *content, len(samples), *samples.tolist()])
    return "\n".join(" ".join(map(str, line)) for line in lines)
