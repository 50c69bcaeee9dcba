"""Run an `IntegerModel`, with the same bits as a device.

Streaming, as on a device:                   Batches, for evaluation:

    state = engine.init()                        result = engine.run(codes)
    engine.step(state, x)                        result.logits, result.saturations
    logits = engine.read(state)

Inputs are codes: integers `(streams, input_size)` for dense models, which saturate to input_bits, or ids
`(streams,)` for one-hot and embedded models; `encoding.py` converts raw sensor values or real numbers to
codes. If every block leaks, a stream may run for ever. A linear orthogonal state without a leak may outgrow
its bits beyond the calibrated length; it then saturates, and the state counts how often. A sum over steps
must stop at `longest`. In both cases start a new state, or use `SlidingWindow`.

`Engine` checks its arguments. It runs batches in the native library (`NativeNetwork`). Without that library,
or on request, it uses the numpy reference in `step.py`, which gives the same bits more slowly.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.blob import ModelData, fits_runtime
from hadamrnn.fixedpoint.integers import Int32, check_integers, signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.step import LayerStep, Pools, Readout
from hadamrnn.kernels.library import IntegerArgs, Library, load_library, run_slices_on
from hadamrnn.settings import check_int, check_shape

MAX_WINDOW = (1 << 31) - 1


@dataclass
class State:
    """The state of several streams between steps; owned by the caller."""

    hidden: list[Int32]  # h of each layer, (hidden_size, streams), activation_bits
    sums: list[Int32]  # stride sums of each layer except the last
    pools: Pools  # the read-outs' sums and maxima over the last layer's steps so far
    steps: int = 0
    saturations: int = 0  # state entries clipped so far, over all layers and streams

    @property
    def h(self) -> Int32:
        """The states of the last layer, `(hidden_size, streams)`."""
        return self.hidden[-1]

    def part(self, streams: slice) -> State:
        """Return a copy of some streams."""
        return State(
            [h[:, streams].copy() for h in self.hidden],
            [codes[:, streams].copy() for codes in self.sums],
            {kind: pool[..., streams].copy() for kind, pool in self.pools.items()},
            self.steps,
        )


@dataclass(frozen=True)
class BatchResult:
    """The logits of a batch, `(batch, output_size)` or `(batch, time, output_size)`, and clipped entries."""

    logits: Int32
    saturations: int


class Engine:
    """The engine of one `IntegerModel`; with `native=False` it uses only numpy."""

    def __init__(self, model: IntegerModel, *, native: bool = True) -> None:
        self.model = model
        library = load_library() if native else None
        self._native = NativeNetwork(model, library) if library and fits_runtime(model) else None
        self._layers = [LayerStep(layer) for layer in model.layers]
        self._readout = Readout(model)

    def init(self, streams: int = 1) -> State:
        """Return the zero state of `streams` independent streams."""
        hidden = [np.zeros((layer.hidden_size, streams), np.int32) for layer in self.model.layers]
        return State(hidden, [np.zeros_like(h) for h in hidden[:-1]], self._readout.start(streams))

    def step(self, state: State, codes: ArrayLike) -> None:
        """Advance every stream by one input, in place. Clipped entries are counted in `state`.

        Args:
            codes: `(streams, input_size)`, or ids `(streams,)`; for a single stream the axis is optional.
        """
        streams, array = state.h.shape[1], np.asarray(codes)
        if streams == 1 and array.shape == self._input_shape:
            array = array[None]
        check_shape(f"One step of {streams} streams", array, streams, *self._input_shape)
        self.check_longest(state.steps + 1)
        inputs = self._input_codes(self._saturated(self._checked(array)))
        self._advance(state, inputs, self._layers[0].drive(inputs))

    def read(self, state: State) -> Int32:
        """Return the logits after the steps so far, shape `(streams, output_size)`."""
        return self._readout.logits(state.pools, state.h, self.model.top_steps(state.steps))

    def run(
        self, codes: ArrayLike, lengths: ArrayLike | None = None, threads: int | None = None
    ) -> BatchResult:
        """Run a batch from zero states; past a row's length, its state no longer changes.

        Args:
            codes: `(batch, time, input_size)` for dense models, ids `(batch, time)` for others.
            lengths: number of valid steps of each row, `(batch,)`; all by default.
            threads: threads of the native library; by default one per core.

        Returns:
            The logits after each row's last step; with `every_output`, after every step, where steps past a
            row's length have the logits of a zero state.
        """
        array = np.asarray(codes)
        check_shape("A batch", array, "batch", "time", *self._input_shape)
        inputs = self._checked(array)
        ends = self._checked_lengths(lengths, *inputs.shape[:2])
        if self._native is not None:
            return BatchResult(*self._native.run(inputs, ends, threads or os.cpu_count() or 1))
        return self._run(self._saturated(inputs), ends)

    def _run(self, inputs: NDArray[Any], ends: NDArray[np.int64]) -> BatchResult:
        """Run checked rows `(batch, time, ...)` from zero states, each up to its length."""
        longest_first = np.argsort(-ends, kind="stable")  # rows that are still running form a prefix
        inputs, ends = inputs[longest_first], ends[longest_first]
        state, saturations, every = self.init(len(inputs)), 0, self.model.every_output
        logits = np.empty((*inputs.shape[: 2 if every else 1], self.model.output_size), np.int32)
        logits[...] = self.read(state)[:, None] if every else 0
        for t, (codes, drive) in enumerate(self._drives(inputs)):
            going, streams = int(np.count_nonzero(ends > t)), state.h.shape[1]
            if going < streams:
                if not every:
                    logits[going:streams] = self.read(state.part(slice(going, streams)))
                saturations += state.saturations
                state = state.part(slice(going))
            if going == 0:
                break
            self._advance(state, codes[..., :going], drive[:, :going])
            if every:
                logits[:going, t] = self.read(state)
        if not every:
            logits[: state.h.shape[1]] = self.read(state)
        found = np.empty_like(logits)
        found[longest_first] = logits
        return BatchResult(found, saturations + state.saturations)

    def _advance(self, state: State, codes: NDArray[Any], drive: Int32) -> None:
        """Advance the lowest layer, which reads `codes`, and every higher layer whose `stride` is complete.

        `drive` is the codes' contribution to the lowest layer's accumulators.
        """
        stride, steps = self.model.network.stride, state.steps + 1
        for index, layer in enumerate(self._layers):
            if index > 0:
                drive = layer.drive(codes)
            state.hidden[index], clipped = layer.advance(state.hidden[index], drive)
            state.saturations += clipped
            if layer.layer.is_last:
                self._readout.add(state.pools, state.hidden[index])
                break
            codes = layer.output(state.hidden[index], codes)
            if stride > 1:
                codes = state.sums[index] + codes
                due = steps % stride == 0
                state.sums[index] = np.zeros_like(codes) if due else codes
                if not due:
                    break
            steps //= stride
        state.steps += 1

    def _drives(self, inputs: NDArray[Any]) -> Iterator[tuple[NDArray[Any], Int32]]:
        """Yield the codes of the lowest layer and its drive for each step of rows `(batch, time, ...)`."""
        lowest = self._layers[0]
        if self.model.embedding_int is None:
            for t in range(inputs.shape[1]):
                codes = self._input_codes(inputs[:, t])
                yield codes, lowest.drive(codes)
        else:
            # Many words repeat within a batch, so each distinct word is projected once.
            distinct, places = np.unique(inputs, return_inverse=True)
            table = lowest.drive(self._input_codes(distinct))
            for ids in places.reshape(inputs.shape).T:
                yield ids, table[:, ids]

    def _input_codes(self, inputs: NDArray[Any]) -> NDArray[Any]:
        """Return the input of the lowest layer: `(input_size, streams)` codes, or ids of hot channels."""
        if self.model.embedding_int is not None:
            inputs = self.model.embedding_int[inputs]
        return inputs.T

    @property
    def _input_shape(self) -> tuple[int, ...]:
        return (self.model.input_size,) if self.model.input_kind == "dense" else ()

    def _checked(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return `codes`, dense ones as int32, after checking that they are integers the model knows."""
        if self.model.input_kind != "dense":
            check_integers("Token ids", codes, codes.shape, (0, self.model.vocabulary_size - 1))
            return codes
        check_integers("Inputs", codes, codes.shape, advice=" See fixedpoint.encoding.")
        fitting = codes if np.can_cast(codes.dtype, np.int32) else self._saturated(codes)
        return np.asarray(fitting, np.int32)

    def _saturated(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return dense codes clipped to their bits, and ids unchanged."""
        if self.model.input_kind != "dense":
            return codes
        return np.asarray(np.clip(codes, *signed_range(self.model.input_bits)))

    def check_longest(self, steps: int) -> None:
        """Refuse more steps than the sums of this network allow."""
        if self.model.longest and steps > self.model.longest:
            raise InputError(
                f"The sums of this network hold {self.model.longest} steps, got {steps}. "
                "Cut the sequence, or calibrate with longer ones."
            )

    def _checked_lengths(self, lengths: ArrayLike | None, batch: int, time: int) -> NDArray[np.int64]:
        if lengths is None:
            self.check_longest(time)
            return np.full(batch, time)
        array = np.asarray(lengths)
        check_integers("lengths", array, (batch,), (0, time))
        self.check_longest(int(array.max(initial=0)))
        return array.astype(np.int64)


class NativeNetwork:
    """One `IntegerModel` in the native library, which gives the same bits as the numpy reference, faster.

    The library is compiled from `runtime/hadamrnn.h`, which devices run too, with the sequences of a batch in
    vector lanes (`kernels/native/integers.c`). Like a device it opens a blob, here with unpacked numbers.
    """

    def __init__(self, model: IntegerModel, library: Library) -> None:
        self._model = model
        self._kernel = library.kernel("integers")
        self.tile_rows = library.kernel("integer_rows")()
        self._lowest = LayerStep(model.layers[0])
        self._blob = np.frombuffer(ModelData(model, lanes=True).blob, np.uint8)

    def run(self, inputs: NDArray[Any], lengths: NDArray[np.int64], threads: int) -> tuple[Int32, int]:
        """Run checked rows `(batch, time, ...)` to their lengths; return logits and clipped entries.

        Codes are int32 and saturate.
        """
        # All rows of a tile run as many steps as its longest row, so sort them by length.
        order = np.argsort(-lengths, kind="stable") if np.any(lengths[1:] != lengths[:-1]) else slice(None)
        args = IntegerArgs(*inputs.shape[:2], self._model.every_output)
        args.blob, args.blob_bytes = self._blob.ctypes.data, self._blob.size
        shape = (args.batch, args.time) if self._model.every_output else (args.batch,)
        saturations = np.zeros(-(-args.batch // self.tile_rows), np.int64)
        found = np.empty((*shape, self._model.output_size), np.int32)
        found[:] = self._model.output_bias  # for every output past the length
        arrays = {
            "lengths": np.ascontiguousarray(lengths[order]),
            "logits": found,
            "saturations": saturations,
        }
        if self._model.input_kind == "dense":
            arrays["x"] = np.ascontiguousarray(inputs[order], np.int32)
        else:
            arrays["ids"], arrays["table"] = self._drives(inputs[order])
        for name, array in arrays.items():
            setattr(args, name, array.ctypes.data)
        run_slices_on(threads, self._kernel, args, len(saturations))
        logits = np.empty_like(found)
        logits[order] = found
        return logits, int(saturations.sum())

    def _drives(self, ids: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return each id's row in a table, and that table of contributions to the lowest accumulators."""
        model = self._model
        place = np.zeros(model.vocabulary_size, np.int32)
        place[ids] = 1
        distinct = np.flatnonzero(place)
        place[distinct] = np.arange(len(distinct))
        codes = distinct if model.embedding_int is None else model.embedding_int[distinct].T
        return place[ids], np.ascontiguousarray(self._lowest.drive(codes).T, np.int32)


class SlidingWindow:
    """A sliding window: every `hop` inputs, `push` returns the logits of the last `window` inputs.

    window / hop staggered states read the stream, and the oldest restarts after its read-out, so the logits
    depend only on the window, as those of `run` do. If every block leaks, one state that never restarts would
    be cheaper, but it would remember samples before the window, which never happened in training.
    """

    def __init__(self, engine: Engine, window: int, hop: int) -> None:
        check_int("hop", hop, 1, MAX_WINDOW)
        check_int("window", window, 1, MAX_WINDOW)
        if window % hop:
            raise InputError(f"window must be a multiple of hop, got {window} and {hop}.")
        engine.check_longest(window)
        self._engine = engine
        self._window = window
        self._hop = hop
        # Up to window / hop states, started a hop apart, each with its own stride counters.
        self._states = [engine.init()]
        self._finished = 0  # clipped entries of states that were restarted
        self._pushed = 0

    @property
    def saturations(self) -> int:
        """The number of clipped state entries so far, over all staggered streams."""
        return self._finished + sum(state.saturations for state in self._states)

    def push(self, codes: ArrayLike) -> Int32 | None:
        """Take one input, `(input_size,)` codes or an id; return `(output_size,)` logits or None."""
        for state in self._states:
            self._engine.step(state, codes)
        self._pushed += 1
        if self._pushed % self._hop:
            return None
        is_whole = self._pushed >= self._window
        if is_whole:
            oldest = self._pushed // self._hop % len(self._states)
            logits = self._engine.read(self._states[oldest])
            self._finished += self._states[oldest].saturations
            self._states[oldest] = self._engine.init()
        else:
            self._states.append(self._engine.init())
        return logits[0] if is_whole else None
