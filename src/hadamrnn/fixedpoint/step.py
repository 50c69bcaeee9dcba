"""One layer's step on arrays of numpy, for many streams at once; the equations are those of `layer.py`."""

from __future__ import annotations

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
)
from hadamrnn.fixedpoint.layer import IntegerLayer


class LayerStep:
    """Computes the steps of one `IntegerLayer`; arrays are `(units, streams)`."""

    def __init__(self, layer: IntegerLayer) -> None:
        self.layer = layer
        # diag(u) and the shift by s1 in one factor per row.
        self._row_factor = (layer.signs.astype(np.int32) << layer.state_shift)[:, None]
        self._column_signs = None if layer.column_signs is None else layer.column_signs[:, None]
        self._weight = layer.input_weight_int.astype(np.float64)
        self._bias = np.zeros((layer.hidden_size, 1), np.int32)
        if layer.input_bias_int is not None:
            self._bias = (layer.input_bias_int.astype(np.int32) << layer.input_bias_shift)[:, None]
        self._leaks = [
            (k, np.flatnonzero(layer.unit_leaks == k)) for k in sorted({*layer.network.block_leaks} - {0})
        ]
        if layer.gain_int is not None and layer.offset_int is not None:
            self._gain = layer.gain_int.astype(np.int32)[:, None]
            self._offset = (layer.offset_int.astype(np.int32) << layer.offset_shift)[:, None]

    def drive(self, codes: NDArray[Any]) -> Int32:
        """Return shift(U x, s2) + (b_i << s3) of codes `(input_size, streams)`, or of one-hot ids."""
        if self.layer.input_kind == "one_hot":
            product = self.layer.input_weight_int[:, codes].astype(np.int32)
        else:
            product = exact_product(self._weight, codes)
        drive: Int32 = shift_left(product, self.layer.input_shift) + self._bias
        return drive

    def advance(self, h: Int32, drive: Int32) -> tuple[Int32, int]:
        """Return the next states and how many of their entries were clipped."""
        layer = self.layer
        acc = hadamard_transform(
            h if self._column_signs is None else h * self._column_signs, layer.block_size
        )
        acc *= self._row_factor
        for k, units in self._leaks:
            acc[units] -= round_shift(acc[units], k)
        acc += drive
        h, clipped = saturate(
            round_scale(acc, layer.round_multiplier, layer.round_shift), layer.activation_bits
        )
        return (np.maximum(h, 0, out=h) if layer.network.recurrence == "relu" else h), clipped

    def output(self, h: Int32, codes: NDArray[Any]) -> Int32:
        """Return y, which the layer above reads, of states and of the codes that this layer has read."""
        layer, bits = self.layer, self.layer.output_bits
        assert bits is not None
        if layer.gain_int is None:
            return np.maximum(h, 0)
        y = np.maximum(round_shift(h * self._gain + self._offset, layer.gain_shift), 0)
        y, _ = saturate(y, bits)
        if layer.skip_shift is not None:
            y, _ = saturate(y + shift_left(codes, layer.skip_shift), bits)
        return y
