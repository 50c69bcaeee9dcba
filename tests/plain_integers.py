"""An integer network in plain Python integers: loops over steps and units that share nothing with an engine.

Tests compare every engine and every export with it. `PlainIntegers.largest` is the largest magnitude so far
among the numbers that must fit 32 bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.hadamard.orders import hadamard_matrix


def round_shift(value: int, shift: int) -> int:
    """value / 2^shift, ties up."""
    return (value + (1 << shift - 1)) >> shift if shift else value


def shifted(value: int, shift: int) -> int:
    return value << shift if shift >= 0 else round_shift(value, -shift)


def saturated(value: int, bits: int) -> int:
    return min(max(value, -(1 << bits - 1)), (1 << bits - 1) - 1)


class PlainLayer:
    """One layer: its weights as lists, its state, and the codes summed for the next layer."""

    def __init__(self, layer: IntegerLayer) -> None:
        self.layer = layer
        units, b = layer.hidden_size, layer.block_size
        block = hadamard_matrix(b).tolist()
        u = layer.signs.tolist()
        self.W = [
            [u[i] * block[i % b][j % b] for j in range(units) if j // b == i // b] for i in range(units)
        ]
        self.U = layer.input_weight_int.tolist()
        self.bias = [0] * units if layer.input_bias_int is None else layer.input_bias_int.tolist()
        leak = layer.leak or (0,)
        self.k = [leak[i // b % len(leak)] for i in range(units)]
        p = 1 if layer.weight_bits == "ternary" else int(layer.weight_bits or 0)
        self.s1 = layer.accumulator_frac_bits - (layer.activation_bits - layer.hidden_shift)
        self.s2 = layer.accumulator_frac_bits - (p + layer.input_bits - 2)
        self.h = [0] * units
        self.waiting = [0] * units
        self.steps = 0

    def rounded(self, acc: int) -> int:
        """acc / (sqrt(b) 2^s1), by the cases of b."""
        b = self.layer.block_size
        log = b.bit_length() - 1
        if b == 1 << log and log % 2 == 0:
            return round_shift(acc, self.s1 + log // 2)
        if b == 1 << log:
            return round_shift(acc * 46341, 16 + (log - 1) // 2 + self.s1)
        e = 16 + log // 2
        return round_shift(acc * round((1 << e) / math.sqrt(b)), e + self.s1)


class PlainIntegers:
    """One stream through a model."""

    def __init__(self, model: IntegerModel) -> None:
        self.model = model
        self.layers = [PlainLayer(layer) for layer in model.layers]
        self.saturations = 0
        self.largest = 0
        zero = [[0] * model.hidden_size]
        self.thresholds = zero if model.thresholds_int is None else model.thresholds_int.tolist()
        self.mean = [[0] * model.hidden_size for _ in self.thresholds]
        self.positive = [[0] * model.hidden_size for _ in self.thresholds]
        self.most: list[int] | None = None

    def seen(self, value: int) -> int:
        """Note a number that must fit 32 bits; return it."""
        self.largest = max(self.largest, abs(value))
        return value

    def step(self, code: Any) -> None:
        """Read one input: codes, or an id."""
        x = self.input(code)
        for plain in self.layers:
            self.advance(plain, x)
            plain.steps += 1
            if plain.layer.is_last:
                self.pool(plain.h)
                return
            y = self.output(plain, x)
            plain.waiting = [self.seen(a + b) for a, b in zip(plain.waiting, y, strict=True)]
            if plain.steps % self.model.network.stride:
                return
            x, plain.waiting = plain.waiting, [0] * len(y)

    def input(self, code: Any) -> list[int]:
        model = self.model
        if model.input_kind == "dense":
            return [saturated(int(c), model.input_bits) for c in code]
        if model.embedding_int is not None:
            return [int(c) for c in model.embedding_int[int(code)]]
        return [int(j == code) for j in range(model.input_size)]

    def advance(self, plain: PlainLayer, x: Sequence[int]) -> None:
        layer, new = plain.layer, []
        b = layer.block_size
        for i in range(layer.hidden_size):
            block = plain.h[i // b * b : i // b * b + b]
            a = self.seen(sum(w * h for w, h in zip(plain.W[i], block, strict=True)) << plain.s1)
            if plain.k[i]:
                self.seen(a + (1 << plain.k[i] - 1))
                a = self.seen(a - round_shift(a, plain.k[i]))
            product = self.seen(sum(w * code for w, code in zip(plain.U[i], x, strict=True)))
            self.seen(product + (1 << -plain.s2 >> 1 if plain.s2 < 0 else 0))
            acc = self.seen(a + shifted(product, plain.s2) + (plain.bias[i] << layer.input_bias_shift))
            value = plain.rounded(acc)
            clipped = saturated(value, layer.activation_bits)
            self.saturations += clipped != value
            new.append(max(clipped, 0) if layer.recurrence == "relu" else clipped)
        plain.h = new

    def output(self, plain: PlainLayer, x: Sequence[int]) -> list[int]:
        layer, y = plain.layer, []
        bits = layer.output_bits
        assert bits is not None
        for i, h in enumerate(plain.h):
            value = max(h, 0)
            if layer.gain_int is not None and layer.offset_int is not None:
                offset = int(layer.offset_int[i]) << layer.offset_shift
                scaled = self.seen(self.seen(h * int(layer.gain_int[i])) + offset)
                self.seen(scaled + (1 << layer.gain_shift >> 1))
                value = saturated(max(round_shift(scaled, layer.gain_shift), 0), bits)
            if layer.skip_shift is not None:
                value = saturated(self.seen(value + shifted(x[i], layer.skip_shift)), bits)
            y.append(value)
        return y

    def pool(self, h: Sequence[int]) -> None:
        for row, theta in enumerate(self.thresholds):
            for i, value in enumerate(h):
                self.mean[row][i] = self.seen(self.mean[row][i] + max(value - theta[i], 0))
                self.positive[row][i] += value > theta[i]
        self.most = list(h) if self.most is None else [max(a, b) for a, b in zip(self.most, h, strict=True)]

    def features(self) -> list[int]:
        """Return the input codes of V."""
        model, top = self.model, self.layers[-1]
        last = [max(h, 0) for h in top.h]
        if model.feature_multiplier is None or model.feature_shift is None or model.feature_bits is None:
            return last
        values = {
            "last": last,
            "mean": [value for row in self.mean for value in row],
            "positive": [value for row in self.positive for value in row],
            "max": self.most or [0] * len(last),
        }
        codes: list[int] = []
        for kind, multiplier in zip(model.network.readouts, model.feature_multiplier, strict=True):
            rate = multiplier << 15
            if kind in ("mean", "positive"):
                rate //= max(top.steps, 1)
            for value in values[kind]:
                assert abs(value * rate) < 1 << 53
                shift = int(model.feature_shift[len(codes)])
                codes.append(saturated(round_shift(value * rate, shift), model.feature_bits))
        return codes

    def logits(self) -> list[int]:
        model, codes, shift = self.model, self.features(), self.model.output_bias_shift
        return [
            self.seen(sum(int(v) * code for v, code in zip(row, codes, strict=True)) + (int(bias) << shift))
            for row, bias in zip(model.output_weight_int, model.output_bias_int, strict=True)
        ]


def run_plainly(model: IntegerModel, codes: Any, length: int | None = None) -> tuple[Any, PlainIntegers]:
    """Return the logits of one row, or of every step with `every_output`, and the network that ran it."""
    plain = PlainIntegers(model)
    nothing = PlainIntegers(model).logits()
    every = []
    for t, code in enumerate(codes):
        if length is None or t < length:
            plain.step(code)
            if model.every_output:
                every.append(plain.logits())
        else:
            every.append(nothing)
    return (every if model.every_output else plain.logits()), plain


def calibrated_codes(raw: Iterable[int], zero: Iterable[int], gain: Iterable[int]) -> list[int]:
    """Return the calibrated raw codes of one step: (raw - zero) * gain / 2^14."""
    channels = zip(raw, zero, gain, strict=True)
    return [saturated(round_shift((int(r) - int(z)) * int(g), 14), 32) for r, z, g in channels]
