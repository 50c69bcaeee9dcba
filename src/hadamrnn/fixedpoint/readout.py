"""What V sees of the last layer, on arrays of numpy; the equations are those of `model.py`."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import Int32, exact_product, saturate, signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import COUNTED

RATE_BITS = 15  # a rate is a multiplier with so many bits after the point

Pools = dict[str, Int32]  # sums, counters and maxima since the start: read-out -> (..., hidden_size, streams)


class Readout:
    """Keeps the pools of several streams and turns them into logits."""

    def __init__(self, model: IntegerModel) -> None:
        self._model = model
        self._kinds = model.network.readouts
        self._weight = model.output_weight_int.astype(np.float64)
        self._bias = (model.output_bias_int.astype(np.int32) << model.output_bias_shift)[:, None]
        self._thresholds = model.threshold_rows.astype(np.int32)[:, :, None]

    def start(self, streams: int) -> Pools:
        """Return pools over no step at all."""
        units = self._model.hidden_size
        shape = (len(self._thresholds), units, streams)
        pools = {kind: np.zeros(shape, np.int32) for kind in self._kinds if kind in COUNTED}
        if "max" in self._kinds:
            pools["max"] = np.full((units, streams), signed_range(self._model.activation_bits)[0], np.int32)
        return pools

    def add(self, pools: Pools, h: Int32) -> None:
        """Take one more step of the last layer into account, states `(hidden_size, streams)`."""
        if "mean" in pools:
            pools["mean"] += np.maximum(h - self._thresholds, 0)
        if "positive" in pools:
            pools["positive"] += h > self._thresholds
        if "max" in pools:
            np.maximum(pools["max"], h, out=pools["max"])

    def merged(self, parts: Sequence[Pools]) -> Pools:
        """Return the pools over the steps of all parts."""
        return {
            kind: np.maximum.reduce([part[kind] for part in parts])
            if kind == "max"
            else np.add.reduce([part[kind] for part in parts])
            for kind in parts[0]
        }

    def logits(self, pools: Pools, h: Int32, steps: int | NDArray[np.int64]) -> Int32:
        """Return `(streams, output_size)` after `steps` steps of the last layer, of all or each."""
        product = exact_product(self._weight, self._codes(pools, h, steps))
        return np.ascontiguousarray((product + self._bias).T)

    def _codes(self, pools: Pools, h: Int32, steps: int | NDArray[np.int64]) -> NDArray[np.int64] | Int32:
        """Return what V sees, `(features, streams)`."""
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
