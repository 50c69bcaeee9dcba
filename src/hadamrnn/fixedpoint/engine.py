"""The reference engine: what an `IntegerModel` computes, bit for bit.

Streaming, as a device does it:              Batch, as an evaluation does it:

    state = engine.init()                        result = engine.run(codes)
    engine.step(state, x)                        result.logits, result.saturations
    logits = engine.read(state)

Inputs are codes: `(streams, input_size)` integers for dense models, which saturate to input_bits, or ids
`(streams,)` for one-hot and embedded ones; `encoding.py` makes codes of raw sensor values or real numbers.
A linear orthogonal state never forgets, so past the calibrated length it may outgrow its bits: it then
saturates, and the state counts how often. Start a new state, or use `windows.SlidingWindow`, for endless
streams.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.integers import (
    Int32,
    exact_product,
    hadamard_transform,
    round_scale,
    saturate,
    shift_left,
)
from hadamrnn.fixedpoint.model import IntegerModel, signed_range

# Entries of the states that advance together: as int32 they about fill a core's second-level cache.
CHUNK_ENTRIES = 512 * 256
SMALLEST_CHUNK = 64  # below, numpy's overhead outweighs another core


@dataclass
class State:
    """What a device keeps between steps, for several streams at once; owned by the caller."""

    h: Int32  # (hidden_size, streams), activation_bits
    steps: int = 0
    saturations: int = 0  # entries of h clipped so far, over all streams


@dataclass(frozen=True)
class BatchResult:
    """Logits of a batch, `(batch, output_size)` or `(batch, time, output_size)`, and its clipped entries."""

    logits: Int32
    saturations: int


class Engine:
    """Runs one `IntegerModel`."""

    def __init__(self, model: IntegerModel) -> None:
        self.model = model
        # diag(u) and the shift by s1 in one factor per row.
        self._row_factor = (model.signs.astype(np.int32) << model.state_shift)[:, None]
        self._column_signs = None if model.column_signs is None else model.column_signs[:, None]
        self._input_bias = np.zeros((model.hidden_size, 1), np.int32)
        if model.input_bias_int is not None:
            self._input_bias = (model.input_bias_int.astype(np.int32) << model.input_bias_shift)[:, None]
        self._output_bias = (model.output_bias_int.astype(np.int32) << model.output_bias_shift)[:, None]

    def init(self, streams: int = 1) -> State:
        """Return the zero state of `streams` independent streams."""
        return State(np.zeros((self.model.hidden_size, streams), np.int32))

    def step(self, state: State, codes: ArrayLike) -> None:
        """Advance every stream by one input, in place. Clipped entries are counted in `state`.

        Args:
            codes: `(streams, input_size)` or `(streams,)` ids; a single stream may leave out its axis.
        """
        streams, array = state.h.shape[1], np.asarray(codes)
        if streams == 1 and array.shape == self._input_shape:
            array = array[None]
        if array.shape != (streams, *self._input_shape):
            raise InputError(
                f"One step of {streams} streams has shape {(streams, *self._input_shape)}, got {array.shape}."
            )
        self._advance(state, self._drive(self._checked(array)))

    def read(self, state: State) -> Int32:
        """Return the logits V max(h, 0) + (b_o << s_o), shape `(streams, output_size)`."""
        product = exact_product(self.model.output_weight_int, np.maximum(state.h, 0))
        return np.ascontiguousarray((product + self._output_bias).T)

    def run(
        self, codes: ArrayLike, lengths: ArrayLike | None = None, threads: int | None = None
    ) -> BatchResult:
        """Run a batch from zero states; past its length a row's state stands still.

        Args:
            codes: `(batch, time, input_size)` for dense models, `(batch, time)` ids for the others.
            lengths: how many steps of each row count, `(batch,)`; all by default.
            threads: worker threads over the batch; as many as there are cores by default.

        Returns:
            Logits after each row's last step; with `every_output` those of every step, where past a row's
            length the state counts as zero.
        """
        array = np.asarray(codes)
        if array.ndim != 2 + len(self._input_shape):
            axes = ", ".join(["batch", "time", *map(str, self._input_shape)])
            raise InputError(f"A batch has shape ({axes}), got {array.shape}.")
        inputs = self._checked(array)
        ends = self._checked_lengths(lengths, *inputs.shape[:2])
        workers = threads or os.cpu_count() or 1
        rows_in_cache = CHUNK_ENTRIES // self.model.hidden_size
        rows_at_once = max(SMALLEST_CHUNK, min(rows_in_cache, -(-len(inputs) // workers)))
        longest_first = np.argsort(-ends, kind="stable")
        chunks = [
            longest_first[start : start + rows_at_once] for start in range(0, len(inputs), rows_at_once)
        ]
        logits = np.zeros((len(inputs), *self._logit_shape(inputs.shape[1])), np.int32)

        def run_rows(rows: NDArray[np.int64]) -> int:
            logits[rows], saturations = self._run_chunk(inputs[rows], ends[rows])
            return saturations

        if workers == 1 or len(chunks) <= 1:
            return BatchResult(logits, sum(map(run_rows, chunks)))
        with ThreadPoolExecutor(workers) as pool:
            return BatchResult(logits, sum(pool.map(run_rows, chunks)))

    def _run_chunk(self, inputs: NDArray[Any], lengths: NDArray[np.int64]) -> tuple[Int32, int]:
        """Return logits and clipped entries of rows given longest first, so that who goes on is a prefix."""
        state = self.init(len(inputs))
        last = state.h.copy()
        logits = np.empty((len(inputs), *self._logit_shape(inputs.shape[1])), np.int32)
        logits[...] = self._output_bias[:, 0]
        for t, drive in enumerate(self._drives(inputs)):
            going = int(np.count_nonzero(lengths > t))
            if going < state.h.shape[1]:
                last[:, : state.h.shape[1]] = state.h
                state.h = state.h[:, :going].copy()
            if going == 0:
                break
            self._advance(state, drive[:, :going])
            if self.model.every_output:
                logits[:going, t] = self.read(state)
        last[:, : state.h.shape[1]] = state.h
        return (logits if self.model.every_output else self.read(State(last))), state.saturations

    def _advance(self, state: State, drive: Int32) -> None:
        """One step of the recurrence; `drive` is shift(U x, s2) + (b_i << s3)."""
        model = self.model
        h = state.h if self._column_signs is None else state.h * self._column_signs
        acc = hadamard_transform(h, model.block_size)
        acc *= self._row_factor
        acc += drive
        h, clipped = saturate(
            round_scale(acc, model.round_multiplier, model.round_shift), model.activation_bits
        )
        state.h = np.maximum(h, 0, out=h) if model.recurrence == "relu" else h
        state.steps += 1
        state.saturations += clipped

    def _drives(self, inputs: NDArray[Any]) -> Iterator[Int32]:
        """Yield shift(U x_t, s2) + (b_i << s3), `(hidden_size, batch)`, step after step."""
        if self.model.input_kind == "dense":
            for t in range(inputs.shape[1]):
                yield self._drive(inputs[:, t])
        else:
            # A batch has many tokens but few different ones: project each once.
            distinct, positions = np.unique(inputs, return_inverse=True)
            table = self._drive(distinct)
            for ids in positions.reshape(inputs.shape).T:
                yield np.take(table, ids, axis=1)

    def _drive(self, inputs: NDArray[Any]) -> Int32:
        model = self.model
        if model.input_kind == "one_hot":
            product = model.input_weight_int[:, inputs].astype(np.int32)
        else:
            codes = inputs if model.embedding_int is None else model.embedding_int[inputs]
            product = exact_product(model.input_weight_int, codes.T)
        drive: Int32 = shift_left(product, model.input_shift) + self._input_bias
        return drive

    def _logit_shape(self, time: int) -> tuple[int, ...]:
        return (time, self.model.output_size) if self.model.every_output else (self.model.output_size,)

    @property
    def _input_shape(self) -> tuple[int, ...]:
        return (self.model.input_size,) if self.model.input_kind == "dense" else ()

    def _checked(self, codes: NDArray[Any]) -> NDArray[Any]:
        """Return `codes` if they are integers of the model's shape, else raise; dense codes saturate."""
        if codes.dtype.kind not in "iu":
            raise InputError(f"Inputs must be integer codes, got {codes.dtype}. See fixedpoint.encoding.")
        if self._input_shape and codes.shape[-1] != self.model.input_size:
            raise InputError(f"This model reads {self.model.input_size} channels, got {codes.shape[-1]}.")
        if self.model.input_kind == "dense":
            low, high = signed_range(self.model.input_bits)
            return np.asarray(np.clip(codes, low, high))
        high = self.model.vocabulary_size - 1
        if codes.size and (codes.min() < 0 or codes.max() > high):
            raise InputError(f"Token ids must lie in 0..{high}, got {codes.min()}..{codes.max()}.")
        return codes

    def _checked_lengths(self, lengths: ArrayLike | None, batch: int, time: int) -> NDArray[np.int64]:
        if lengths is None:
            return np.full(batch, time)
        array = np.asarray(lengths)
        if array.dtype.kind not in "iu" or array.shape != (batch,):
            raise InputError(f"lengths must be {batch} integers, got {array.dtype} of shape {array.shape}.")
        if array.size and (array.min() < 0 or array.max() > time):
            raise InputError(f"lengths must lie in 0..{time}, got {array.min()}..{array.max()}.")
        return array.astype(np.int64)
