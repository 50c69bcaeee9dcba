"""Make golden vectors: inputs and outputs of the reference engine, which C must equal bit for bit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import encode_raw, raw_from_inputs
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.reservoir.model import IntegerReservoir

AnyModel = IntegerModel | IntegerReservoir
MAX_VALUES = 20_000  # most numbers in a golden file, so that it fits into a small board's flash


@dataclass(frozen=True, eq=False)
class Golden:
    """Input sequences that start at the zero state, with the outputs of the reference engine.

    As on a device, inputs are raw sensor codes. `logits` are those after every step or, with `every=False`,
    only after the last step. For dense models `raw` and `encoded` test the encoding at its limits.
    """

    inputs: NDArray[Any]  # raw codes (sequences, time, input_size) or ids (sequences, time)
    codes: NDArray[Any]  # inputs of the engine: encoded values, or the same ids
    logits: NDArray[np.int32]  # (sequences, time or 1, output_size)
    classes: NDArray[np.int64]  # (sequences,), after the last step
    hidden: tuple[NDArray[np.int32], ...]  # h of each layer after the last step, (sequences, units)
    saturations: NDArray[np.int64]  # (sequences,)
    raw: NDArray[np.int32]  # (samples, input_size)
    encoded: NDArray[np.int32]  # (samples, input_size)
    raw_clipped: NDArray[np.int64]  # (samples,)
    every: bool
    source: str = "given codes"  # one line on where the inputs come from

    @property
    def input_type(self) -> str:
        """The narrowest C type that can hold the inputs, to save flash."""
        if self.inputs.ndim == 2:
            return "uint32_t"
        low, high = signed_range(16)
        return "int16_t" if low <= self.inputs.min() and self.inputs.max() <= high else "int32_t"


def draw_golden(model: AnyModel, sequences: int = 3, time: int = 16, seed: int = 0) -> Golden:
    """Return golden vectors of random inputs over the whole range, fewer if they would not fit."""
    if isinstance(model, IntegerReservoir):
        time = max(time, model.network.settled_length)
    time = min(time, model.longest or time)
    per_sequence = time * _step_values(model, every=True) + _state_values(model)
    sequences = max(1, min(sequences, MAX_VALUES // per_sequence))
    rng = np.random.default_rng(seed)
    inputs: NDArray[Any]
    if model.input_kind == "dense":
        low, high = signed_range(model.input_bits)
        codes = rng.integers(low, high + 1, (sequences, time, model.input_size))
        codes[0] = rng.choice([low, high], codes[0].shape)  # the first sequence has only extreme values
        inputs = raw_from_inputs(model, codes * (model.input_scale / 2.0 ** (model.input_bits - 1)))
    else:
        inputs = rng.integers(0, model.vocabulary_size, (sequences, time))
    return replace(make_golden(model, inputs, rng=rng), source="random codes")


def fit_golden(
    model: AnyModel,
    inputs: NDArray[Any],
    *,
    source: str,
    sequences: int = 3,
    most: int = MAX_VALUES,
) -> Golden:
    """Return golden vectors of raw codes or ids `(n, time, ...)`, truncated to at most `most` numbers.

    A sequence that is too long keeps its last steps, which contain the words of left-padded text.
    """
    every = model.every_output
    per_step = _step_values(model, every)
    units = _state_values(model)
    time = min(inputs.shape[1], model.longest or inputs.shape[1], max(1, (most - units) // per_step))
    count = max(1, min(sequences, most // (time * per_step + units)))
    golden = make_golden(model, inputs[:count, inputs.shape[1] - time :], every=every)
    return replace(golden, source=source)


def make_golden(
    model: AnyModel,
    inputs: NDArray[Any],
    *,
    every: bool = True,
    rng: np.random.Generator | None = None,
) -> Golden:
    """Return golden vectors of the given raw codes or ids, run by the reference engine."""
    inputs = np.asarray(inputs)
    if inputs.ndim < 2 or 0 in inputs.shape[:2]:
        raise InputError(f"Golden inputs need a sequence of one step or more, got shape {inputs.shape}.")
    codes = encode_raw(model, inputs)[0] if model.input_kind == "dense" else inputs
    runs = [_run(model, sequence, every) for sequence in codes]
    logits = np.stack([run[0] for run in runs])
    last = logits[:, -1]
    raw, encoded, clipped = _raw_samples(model, rng or np.random.default_rng(0))
    return Golden(
        inputs=inputs,
        codes=codes,
        logits=logits,
        classes=(last[:, 0] > 0).astype(np.int64) if model.output_size == 1 else last.argmax(axis=1),
        hidden=tuple(map(np.stack, zip(*(run[1] for run in runs), strict=True))),
        saturations=np.array([run[2] for run in runs]),
        raw=raw,
        encoded=encoded,
        raw_clipped=clipped,
        every=every,
    )


def _step_values(model: AnyModel, every: bool) -> int:
    """Return the values in a golden file per step: inputs, and logits if they are compared."""
    width = model.input_size if model.input_kind == "dense" else 1
    return width + (model.output_size if every else 0)


def _state_values(model: AnyModel) -> int:
    """Return the values in a golden file for the last states; 0 for a reservoir."""
    return 0 if isinstance(model, IntegerReservoir) else sum(model.network.widths)


def _run(
    model: AnyModel, sequence: NDArray[Any], every: bool
) -> tuple[NDArray[np.int32], list[NDArray[np.int32]], int]:
    """Return logits, the last states and the clipped entries of one sequence."""
    if isinstance(model, IntegerReservoir):
        steps = np.arange(1 if every else len(sequence), len(sequence) + 1)
        prefixes = np.broadcast_to(sequence, (len(steps), *sequence.shape))
        whole = model.run(sequence[None])
        return model.run(prefixes, steps).logits, [], whole.saturations
    engine = Engine(model)
    state = engine.init()
    logits = []
    for t, codes in enumerate(sequence):
        engine.step(state, codes)
        if every or t == len(sequence) - 1:
            logits.append(engine.read(state)[0])
    return np.stack(logits), [h[:, 0].copy() for h in state.hidden], state.saturations


def _raw_samples(
    model: AnyModel, rng: np.random.Generator
) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
    """Return small, large and extreme raw codes with their encodings; empty if inputs are not dense."""
    if model.input_kind != "dense":
        empty = np.zeros((0, 1), np.int32)
        return empty, empty, np.zeros(0, np.int64)
    low, high = signed_range(32)
    scales = np.array([1 << 4, 1 << 10, 1 << 16, 1 << 31])[:, None]
    draws = rng.uniform(-1, 1, (4, model.input_size)) * scales
    raw = np.vstack([draws, np.full((1, model.input_size), low), np.full((1, model.input_size), high)])
    raw = np.clip(raw, low, high).astype(np.int32)
    pairs = [encode_raw(model, row) for row in raw]
    return raw, np.stack([pair[0] for pair in pairs]), np.array([pair[1] for pair in pairs])
