"""Compute steps of a layer, and the features that V reads, in numpy for many streams at once.

The equations are those of `layer.py` and `model.py`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import (
    Int32,
    exact_product,
    hadamard_transform,
    round_scale,
    round_shift,
    saturate,
    shift_left,
    signed_range,
)
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import COUNTED

RATE_BITS = 15  # fractional bits of a rate

Pools = dict[str, Int32]  # sums, counters and maxima since the start: read-out -> (..., hidden_size, streams)


class LayerStep:
    """The steps of one `IntegerLayer` in numpy; arrays are `(units, streams)`."""

    def __init__(self, layer: IntegerLayer) -> None:
        self.layer = layer
        # Combine diag(u) and the shift by s1 in one factor per row.
        self._row_factor = (layer.signs.astype(np.int32) << layer.state_shift)[:, None]
        self._weight = layer.input_weight_int.astype(np.float64)
        self._bias = layer.input_bias.astype(np.int32)[:, None]
        leaks = sorted({*layer.leak} - {0})
        self._leaks = [(k, np.flatnonzero(layer.unit_leaks == k)) for k in leaks]
        if layer.gain_int is not None and layer.offset_int is not None:
            self._gain = layer.gain_int.astype(np.int32)[:, None]
            self._offset = (layer.offset_int.astype(np.int32) << layer.offset_shift)[:, None]

    def drive(self, codes: NDArray[Any]) -> Int32:
        """Return shift(U x, s2) + (b_i << s3) for codes `(input_size, streams)` or one-hot ids."""
        if self.layer.input_kind == "one_hot":
            product = self.layer.input_weight_int[:, codes].astype(np.int32)
        else:
            product = exact_product(self._weight, codes)
        drive: Int32 = shift_left(product, self.layer.input_shift) + self._bias
        return drive

    def advance(self, h: Int32, drive: Int32) -> tuple[Int32, int]:
        """Return the next states and the number of clipped entries."""
        layer = self.layer
        acc = hadamard_transform(h, layer.block_size)
        acc *= self._row_factor
        for k, units in self._leaks:
            acc[units] -= round_shift(acc[units], k)
        acc += drive
        rounded = round_scale(acc, layer.round_multiplier, layer.round_shift)
        h, clipped = saturate(rounded, layer.activation_bits)
        return (np.maximum(h, 0, out=h) if layer.recurrence == "relu" else h), clipped

    def output(self, h: Int32, codes: NDArray[Any]) -> Int32:
        """Return the layer output y for states and this layer's input codes."""
        layer, bits = self.layer, self.layer.output_bits
        assert bits is not None
        if layer.gain_int is None:
            return np.maximum(h, 0)
        y = np.maximum(round_shift(h * self._gain + self._offset, layer.gain_shift), 0)
        y, _ = saturate(y, bits)
        if layer.skip_shift is not None:
            y, _ = saturate(y + shift_left(codes, layer.skip_shift), bits)
        return y


class Readout:
    """The read-out of several streams in numpy, which updates pools and computes logits from them."""

    def __init__(self, model: IntegerModel) -> None:
        self._model = model
        self._kinds = model.network.readouts
        self._weight = model.output_weight_int.astype(np.float64)
        self._bias = model.output_bias.astype(np.int32)[:, None]
        self._thresholds = model.threshold_rows.astype(np.int32)[:, :, None]

    def start(self, streams: int) -> Pools:
        """Return pools before the first step."""
        units = self._model.hidden_size
        shape = (len(self._thresholds), units, streams)
        pools = {kind: np.zeros(shape, np.int32) for kind in self._kinds if kind in COUNTED}
        if "max" in self._kinds:
            pools["max"] = np.full((units, streams), signed_range(self._model.activation_bits)[0], np.int32)
        return pools

    def add(self, pools: Pools, h: Int32) -> None:
        """Add one step of the last layer to the pools, states `(hidden_size, streams)`."""
        if "mean" in pools:
            pools["mean"] += np.maximum(h - self._thresholds, 0)
        if "positive" in pools:
            pools["positive"] += h > self._thresholds
        if "max" in pools:
            np.maximum(pools["max"], h, out=pools["max"])

    def logits(self, pools: Pools, h: Int32, steps: int | NDArray[np.int64]) -> Int32:
        """Return logits `(streams, output_size)` after `steps` of the last layer, for all or each stream."""
        product = exact_product(self._weight, self._codes(pools, h, steps))
        return np.ascontiguousarray((product + self._bias).T)

    def _codes(self, pools: Pools, h: Int32, steps: int | NDArray[np.int64]) -> NDArray[np.int64] | Int32:
        """Return the features that V reads, `(features, streams)`."""
        model, last = self._model, np.maximum(h, 0)
        if model.feature_shift is None or model.feature_multiplier is None or model.feature_bits is None:
            return last
        scaled = []
        for kind, multiplier in zip(self._kinds, model.feature_multiplier, strict=True):
            value = last if kind == "last" else pools[kind]
            if kind == "max":
                value = np.where(np.equal(steps, 0), 0, value)
            rate = (multiplier << RATE_BITS) // (np.maximum(steps, 1) if kind in COUNTED else 1)
            rows = math.prod(value.shape[:-1])
            scaled.append(value.reshape(rows, h.shape[1]).astype(np.int64) * rate)
        shift = model.feature_shift.astype(np.int64)[:, None]
        codes, _ = saturate(np.concatenate(scaled) + (np.int64(1) << shift - 1) >> shift, model.feature_bits)
        return codes
