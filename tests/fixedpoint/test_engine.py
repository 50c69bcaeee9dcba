"""The reference engine against an independent one of unbounded Python integers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import Engine, IntegerModel, SlidingWindow
from hadamrnn.fixedpoint.model import rounding_factor
from hadamrnn.hadamard.orders import hadamard_matrix

Strategy = Callable[..., st.SearchStrategy[Any]]


class Oracle:
    """The notes' equations in Python integers: dense W, no bound, no sharing with the engine."""

    def __init__(self, model: IntegerModel) -> None:
        self.m = model
        block = hadamard_matrix(model.block_size).tolist()
        columns = [1] * model.hidden_size if model.column_signs is None else model.column_signs.tolist()
        b = model.block_size
        self.W = [
            [
                sign * block[i % b][j % b] * columns[j] if i // b == j // b else 0
                for j in range(model.hidden_size)
            ]
            for i, sign in enumerate(model.signs.tolist())
        ]
        p = 1 if model.weight_bits == "ternary" else model.weight_bits
        self.F = model.accumulator_frac_bits
        self.s1 = self.F - (model.activation_bits - model.hidden_shift)
        self.s2 = self.F - (p + model.input_bits - 2)
        self.saturations = 0
        self.largest = 0

    def x(self, code: Any) -> list[int]:
        if self.m.input_kind == "dense":
            return [int(c) for c in code]
        if self.m.embedding_int is not None:
            return [int(c) for c in self.m.embedding_int[int(code)]]
        return [int(j == code) for j in range(self.m.input_size)]

    def rounded(self, acc: int) -> int:
        """round(acc alpha_W 2^(p_a-1-n_h-F)), by the notes' cases."""
        m, b = self.m, self.m.block_size
        k = b.bit_length() - 1
        base = self.F + m.hidden_shift - m.activation_bits
        if b == 1 << k and k % 2 == 0:
            r = base + k // 2
            return (acc + (1 << r - 1)) >> r if r else acc
        if b == 1 << k:
            r = base + (k - 1) // 2
            return (acc * 46341 + (1 << 15 + r)) >> (16 + r)
        e = 16 + k // 2
        return (acc * round((1 << e) / math.sqrt(b)) + (1 << e + base - 1)) >> (e + base)

    def step(self, h: list[int], code: Any) -> list[int]:
        m, x, new = self.m, self.x(code), []
        for i in range(m.hidden_size):
            a = sum(w * value for w, value in zip(self.W[i], h, strict=True))
            product = sum(int(w) * value for w, value in zip(m.input_weight_int[i], x, strict=True))
            if self.s2 >= 0:
                product <<= self.s2
            else:
                product = (product + (1 << -self.s2 - 1)) >> -self.s2
            bias = 0 if m.input_bias_int is None else int(m.input_bias_int[i]) << m.input_bias_shift
            acc = (a << self.s1) + product + bias
            self.largest = max(self.largest, abs(acc))
            value = self.rounded(acc)
            top = 1 << m.activation_bits - 1
            clipped = min(max(value, -top), top - 1)
            self.saturations += clipped != value
            new.append(max(clipped, 0) if m.recurrence == "relu" else clipped)
        return new

    def read(self, h: list[int]) -> list[int]:
        return [
            sum(int(v) * max(value, 0) for v, value in zip(row, h, strict=True))
            + (int(bias) << self.m.output_bias_shift)
            for row, bias in zip(self.m.output_weight_int, self.m.output_bias_int, strict=True)
        ]

    def run(self, codes: Any, length: int) -> Any:
        h, outputs = [0] * self.m.hidden_size, []
        for t, code in enumerate(codes):
            h = self.step(h, code) if t < length else h
            outputs.append(self.read(h if t < length else [0] * self.m.hidden_size))
        return outputs if self.m.every_output else self.read(h)


@pytest.mark.slow
@given(data=st.data())
@settings(max_examples=2500, deadline=None)
def test_engine_is_the_unbounded_integers(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    codes = data.draw(code_batches(model))
    ends = [data.draw(st.integers(0, codes.shape[1])) for _ in codes]
    lengths = data.draw(st.sampled_from([None, np.array(ends, np.int64)]))
    oracle = Oracle(model)

    result = Engine(model).run(codes, lengths, threads=1)

    ends = [codes.shape[1]] * len(codes) if lengths is None else ends
    expected = [oracle.run(row, end) for row, end in zip(codes, ends, strict=True)]
    assert result.logits.tolist() == expected
    assert result.saturations == oracle.saturations
    assert oracle.largest < 2**31


@given(data=st.data())
@settings(max_examples=300, deadline=None)
def test_streaming_is_the_batch(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models(every_output=True))
    codes = data.draw(code_batches(model))
    engine = Engine(model)
    state = engine.init(len(codes))

    streamed = []
    for t in range(codes.shape[1]):
        engine.step(state, codes[:, t])
        streamed.append(engine.read(state))

    batch = engine.run(codes)
    assert [logits.tolist() for logits in streamed] == [
        batch.logits[:, t].tolist() for t in range(codes.shape[1])
    ]
    assert state.saturations == batch.saturations


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_padded_row_is_the_short_row(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models(every_output=False))
    codes = data.draw(code_batches(model, batch=3, time=6))
    lengths = data.draw(st.lists(st.integers(0, 6), min_size=3, max_size=3))
    engine = Engine(model)

    padded = engine.run(codes, lengths)

    alone = [engine.run(row[None, :end]) for row, end in zip(codes, lengths, strict=True)]
    assert padded.logits.tolist() == [result.logits[0].tolist() for result in alone]
    assert padded.saturations == sum(result.saturations for result in alone)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_a_sliding_window_sees_exactly_its_window(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models(every_output=False))
    hop = data.draw(st.integers(1, 3))
    window = hop * data.draw(st.integers(1, 3))
    codes = data.draw(code_batches(model, batch=1, time=14))[0]
    engine = Engine(model)
    sliding = SlidingWindow(engine, window, hop)

    pushed = [sliding.push(code) for code in codes]

    for end, logits in enumerate(pushed, start=1):
        if end < window or end % hop:
            assert logits is None
        else:
            assert logits is not None
            assert logits.tolist() == engine.run(codes[None, end - window : end]).logits[0].tolist()


@pytest.mark.parametrize("order", [2, 8, 12, 20, 28, 36, 40, 100, 128, 512, 2048])
def test_rounding_factor_is_one_over_the_root_to_sixteen_bits(order: int) -> None:
    multiplier, shift = rounding_factor(order)

    assert abs(multiplier / 2**shift * math.sqrt(order) - 1) <= 2**-16
    assert multiplier == 1 or 2**15 <= multiplier < 2**16


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_chunks_and_threads_change_nothing(
    integer_models: Strategy, code_batches: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    codes = data.draw(code_batches(model, batch=600, time=2))
    engine = Engine(model)

    whole = engine.run(codes, threads=2)

    parts = [engine.run(codes[start : start + 7], threads=1) for start in range(0, 600, 7)]
    assert np.array_equal(whole.logits, np.concatenate([part.logits for part in parts]))
    assert whole.saturations == sum(part.saturations for part in parts)


@given(data=st.data())
@settings(max_examples=100, deadline=None)
def test_codes_out_of_range_saturate_and_ids_are_refused(
    integer_models: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    engine = Engine(model)
    dense = model.input_kind == "dense"
    shape = (1, 1, model.input_size) if dense else (1, 1)

    if dense:
        top = 1 << model.input_bits - 1
        for far, edge in ((2**31, top - 1), (-(2**31), -top)):
            codes = np.full(shape, far, np.int64)
            assert np.array_equal(engine.run(codes).logits, engine.run(np.full(shape, edge)).logits)
    else:
        state = engine.init()
        for beyond in (-1, model.vocabulary_size):
            with pytest.raises(InputError, match="must lie in"):
                engine.run(np.full(shape, beyond))
            with pytest.raises(InputError, match="must lie in"):
                engine.step(state, beyond)
        assert state.steps == 0 and not state.h.any()
    with pytest.raises(InputError, match="integer codes"):
        engine.run(np.zeros(shape))
    with pytest.raises(InputError, match="shape"):
        engine.run(np.zeros((1, *shape), np.int64))
    with pytest.raises(InputError, match="lengths"):
        engine.run(np.zeros(shape, np.int64), lengths=[2])


@given(data=st.data())
@settings(max_examples=50, deadline=None)
def test_a_step_takes_one_input_a_stream_and_never_reshapes(
    integer_models: Strategy, data: st.DataObject
) -> None:
    model = data.draw(integer_models())
    engine = Engine(model)
    channels = (model.input_size,) if model.input_kind == "dense" else ()

    engine.step(engine.init(), np.zeros(channels, np.int64))  # one stream may leave out its axis
    engine.step(engine.init(4), np.zeros((4, *channels), np.int64))
    for shape in ((1, 4, *channels), (4 * (channels or (1,))[0] + 1,), (2, *channels), (4, *channels, 1)):
        with pytest.raises(InputError, match="One step of 4 streams has shape"):
            engine.step(engine.init(4), np.zeros(shape, np.int64))
