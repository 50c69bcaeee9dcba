"""Endless streams: a read-out every `hop` steps over the last `window` inputs.

Where every block leaks, old inputs fade by themselves: one state reads the stream, once, and never restarts;
sums, counters and maxima are kept for each hop, and those of the last window / hop hops count. States then
remember a little from before the window, as they do in a stream.

A linear orthogonal state keeps all it ever saw, and would outgrow its bits. So window / hop staggered states
read the stream, and the oldest restarts after its read-out: it has seen exactly the window.
"""

from __future__ import annotations

from collections import deque

from numpy.typing import ArrayLike

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.engine import Engine, Pooled
from hadamrnn.fixedpoint.integers import Int32
from hadamrnn.settings import check_int

MAX_WINDOW = (1 << 31) - 1


class SlidingWindow:
    """Push inputs one by one; every `hop` inputs, `push` returns the logits of the last `window` ones.

    A network that forgets takes the memory and time of one stream, and pools for each hop; any other one
    those of window / hop streams.
    """

    def __init__(self, engine: Engine, window: int, hop: int) -> None:
        check_int("hop", hop, 1, MAX_WINDOW)
        check_int("window", window, 1, MAX_WINDOW)
        if window % hop:
            raise InputError(f"window must be a multiple of hop, got {window} and {hop}.")
        longest = engine.model.longest
        if longest and window > longest:
            raise InputError(f"The sums of this network hold {longest} steps, got a window of {window}.")
        self._engine = engine
        self._window = window
        self._hop = hop
        self._forgets = engine.model.network.forgets
        # Up to window / hop of them, a hop apart, each with its own place in its strides; one if it forgets.
        self._states = [engine.init()]
        self._kept: deque[Pooled] = deque(maxlen=window // hop)  # of each hop, where the state never restarts
        self._finished = 0  # clipped entries of states that were restarted
        self._pushed = 0

    @property
    def saturations(self) -> int:
        """Clipped state entries so far, over all staggered streams."""
        return self._finished + sum(state.saturations for state in self._states)

    def push(self, codes: ArrayLike) -> Int32 | None:
        """Take one input, `(input_size,)` codes or an id; return `(output_size,)` logits or None."""
        for state in self._states:
            self._engine.step(state, codes)
        self._pushed += 1
        if self._pushed % self._hop:
            return None
        is_whole = self._pushed >= self._window
        if self._forgets:
            (state,) = self._states
            self._kept.append(self._engine.take_pools(state))
            logits = self._engine.read_pools(state, self._kept)
        elif is_whole:
            oldest = self._pushed // self._hop % len(self._states)
            logits = self._engine.read(self._states[oldest])
            self._finished += self._states[oldest].saturations
            self._states[oldest] = self._engine.init()
        else:
            self._states.append(self._engine.init())
        return logits[0] if is_whole else None
