"""Endless streams: a read-out every `hop` steps that has seen exactly the last `window` inputs.

A linear orthogonal state keeps all it ever saw, so a stream longer than the calibrated length would end
in saturation; and sums over the steps have a longest sequence. `SlidingWindow` runs window / hop staggered
states and restarts the oldest after its read-out.
"""

from __future__ import annotations

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
        longest = engine.model.longest
        if longest and window > longest:
            raise InputError(f"The sums of this network hold {longest} steps, got a window of {window}.")
        self._engine = engine
        self._window = window
        self._hop = hop
        self._states = [engine.init() for _ in range(window // hop)]  # each with its own place in its strides
        self._finished = 0  # clipped entries of states that were restarted
        self._pushed = 0

    @property
    def saturations(self) -> int:
        """Clipped state entries so far, over all staggered streams."""
        return self._finished + sum(state.saturations for state in self._states)

    def push(self, codes: ArrayLike) -> Int32 | None:
        """Take one input, `(input_size,)` codes or an id; return `(output_size,)` logits or None."""
        # Streams whose first window has not begun yet may run: they restart before they are read.
        for state in self._states:
            self._engine.step(state, codes)
        self._pushed += 1
        if self._pushed % self._hop:
            return None
        oldest = self._pushed // self._hop % len(self._states)
        state = self._states[oldest]
        logits: Int32 = self._engine.read(state)[0]
        self._finished += state.saturations
        self._states[oldest] = self._engine.init()
        return logits if self._pushed >= self._window else None
