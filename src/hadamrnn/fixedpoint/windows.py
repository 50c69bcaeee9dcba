"""Endless streams: a read-out every `hop` steps that has seen exactly the last `window` inputs.

A linear orthogonal state keeps all it ever saw, so a stream longer than the calibrated length would end
in saturation. `SlidingWindow` runs window / hop staggered states and restarts the oldest after its read-out.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.integers import Int32


class SlidingWindow:
    """Push inputs one by one; every `hop` inputs, `push` returns the logits of the last `window` ones.

    Memory and time are those of window / hop streams.
    """

    def __init__(self, engine: Engine, window: int, hop: int) -> None:
        if hop < 1 or window < hop or window % hop:
            raise InputError(f"window must be a positive multiple of hop, got window {window} and hop {hop}.")
        self._engine = engine
        self._window = window
        self._hop = hop
        self._state = engine.init(window // hop)
        self._pushed = 0

    @property
    def saturations(self) -> int:
        """Clipped state entries so far, over all staggered streams."""
        return self._state.saturations

    def push(self, codes: ArrayLike) -> Int32 | None:
        """Take one input, `(input_size,)` codes or an id; return `(output_size,)` logits or None."""
        streams = self._window // self._hop
        # Streams whose first window has not begun yet may run: they restart before they are read.
        self._engine.step(self._state, np.broadcast_to(codes, (streams, *np.shape(codes))))
        self._pushed += 1
        if self._pushed % self._hop:
            return None
        oldest = self._pushed // self._hop % streams
        logits = self._engine.read(self._state)[oldest]
        self._state.h[:, oldest] = 0
        return logits if self._pushed >= self._window else None
