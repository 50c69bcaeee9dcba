"""The integer network in the native library: the bits of the engine on arrays, faster.

The batch lies in the lanes of vectors, a tile of rows at a time; `kernels/native/integers.h` has the code.
How wide its sums are follows from the proof. The first stages of the Hadamard transform stay in 16 bits while
they fit: p_a + stages <= 16. The rest is exact in floats, whose fused multiply-add also rounds to a state at
once, where `fits_floats` says so, and else in 32-bit integers. Where `fits_narrow_step` holds, a step is
first tried with all stages but the last in 16 bits, and checked. Start reading at `NativeNetwork.run`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import Int32
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.overflow import input_product_bounds, readout_bound
from hadamrnn.fixedpoint.step import RATE_BITS, LayerStep, Readout
from hadamrnn.hadamard.orders import factor_matrix, order_factors
from hadamrnn.kernels.library import IntegerArgs, IntegerLayerArgs, Library
from hadamrnn.kernels.slices import run_slices_on

FLOAT_BITS = 24  # integers up to 2^24 are exact in a float
MOST_NARROW_STAGES = 4


# States, pools and logits of every step that rows at a time may take before they are read out, in numbers.
CHUNK_ENTRIES = 1 << 24


class NativeNetwork:
    """One `IntegerModel` as the native library wants it."""

    def __init__(self, model: IntegerModel, library: Library) -> None:
        self._model = model
        floats = library.has_kernel("integers", "float") and fits_floats(model)
        self.lanes = "float" if floats else "int32_t"
        self._dtype: type = np.float32 if floats else np.int32
        self._kernel = library.kernel("integers", self.lanes)
        self.tile_rows = library.kernel("integer_rows", self.lanes)()
        self._lowest = LayerStep(model.layers[0])
        self._readout = Readout(model)
        self._kept: list[NDArray[Any]] = []  # what the structures point at
        self._layers = (IntegerLayerArgs * len(model.layers))(*map(self._layer_args, model.layers))
        self._args = self._model_args()

    def run(self, inputs: NDArray[Any], lengths: NDArray[np.int64], threads: int) -> tuple[Int32, int]:
        """Return logits and clipped entries of checked rows `(batch, time, ...)`, each run to its length.

        Codes are int32, and saturate.
        """
        batch, time = inputs.shape[:2]
        table = None
        if self._model.input_kind != "dense":
            inputs, table = self._drives(inputs)
        answers = time if self._model.every_output else 1
        entries = self._model.network.num_features + answers * self._model.output_size
        share = -(-CHUNK_ENTRIES // entries // self.tile_rows) * self.tile_rows
        rows_at_once = max(share, self.tile_rows * threads)
        # Rows of a tile take the steps of the longest of them.
        differ = lengths.size and lengths.min() < lengths.max()
        order = np.argsort(-lengths, kind="stable") if differ else None
        parts, saturations = [], 0
        for start in range(0, max(batch, 1), rows_at_once):  # an empty batch is one empty part
            part = slice(start, start + rows_at_once)
            rows: Any = part if order is None else order[part]
            logits, clipped = self._run_rows(inputs[rows], table, lengths[rows], threads)
            parts.append(logits)
            saturations += clipped
        found = parts[0] if len(parts) == 1 else np.concatenate(parts)
        if order is None:
            return found, saturations
        logits = np.empty_like(found)
        logits[order] = found
        return logits, saturations

    def _run_rows(
        self, inputs: NDArray[Any], table: NDArray[Any] | None, lengths: NDArray[np.int64], threads: int
    ) -> tuple[Int32, int]:
        arrays = self._results(*inputs.shape[:2])
        arrays["lengths"] = np.ascontiguousarray(lengths)
        if table is None:
            arrays["x"] = np.ascontiguousarray(inputs, np.int32)
        else:
            arrays["ids"], arrays["table"] = np.ascontiguousarray(inputs, np.int32), table
        args = IntegerArgs.from_buffer_copy(self._args)
        args.batch, args.time = inputs.shape[:2]
        for name, array in arrays.items():
            setattr(args, name, array.ctypes.data)
        run_slices_on(threads, self._kernel, args, len(arrays["saturations"]))
        saturations = int(arrays["saturations"].sum())
        if "logits" in arrays:
            return arrays["logits"], saturations
        pools = {
            kind: np.moveaxis(arrays[kind], 0, -1) for kind in self._model.network.readouts if kind in arrays
        }
        h = arrays["last"].T.astype(np.int32)
        return self._readout.logits(pools, h, self._model.top_steps(lengths)), saturations

    def _drives(self, ids: NDArray[Any]) -> tuple[NDArray[np.int32], NDArray[Any]]:
        """Return rows of a table for ids, and the table: what an id adds to the lowest accumulators."""
        model = self._model
        place = np.zeros(model.vocabulary_size, np.int32)
        place[ids] = 1
        distinct = np.flatnonzero(place)
        place[distinct] = np.arange(len(distinct))
        codes = distinct if model.embedding_int is None else model.embedding_int[distinct].T
        table = self._lowest.drive(codes).T + self._tie_offset(model.layers[0])
        return place[ids], np.ascontiguousarray(table, self._dtype)

    def _results(self, batch: int, time: int) -> dict[str, NDArray[Any]]:
        """Return the arrays that the kernel fills."""
        model, tiles = self._model, -(-batch // self.tile_rows)
        found: dict[str, NDArray[Any]] = {
            "last": np.empty((batch, model.hidden_size), np.int16),
            "saturations": np.zeros(tiles, np.int64),
        }
        pooled = (batch, *model.threshold_rows.shape)
        for kind in model.network.readouts:
            if kind == "max":
                found[kind] = np.empty((batch, model.hidden_size), np.int16)
            elif kind != "last":
                found[kind] = np.empty(pooled, np.int32)
        if model.every_output:
            found["logits"] = np.empty((batch, time, model.output_size), np.int32)
            found["logits"][:] = model.output_bias
        return found

    def _model_args(self) -> IntegerArgs:
        model = self._model
        args = IntegerArgs(
            num_layers=len(model.layers),
            stride=model.network.stride,
            num_thresholds=len(model.threshold_rows),
            output_size=model.output_size,
            input_bits=model.input_bits if model.input_kind == "dense" else 16,
            layers=ctypes.addressof(self._layers),
            thresholds=self._keep(model.threshold_rows, np.int16),
        )
        if model.every_output:
            args.output_weight = self._keep(model.output_weight_int, self._dtype)
            args.output_bias = self._keep(model.output_bias, np.int32)
            if model.feature_shift is not None and model.feature_multiplier is not None:
                args.feature_shift = self._keep(model.feature_shift, np.int64)
                args.feature_rate = model.feature_multiplier[0] << RATE_BITS
                args.feature_bits = model.feature_bits
        return args

    def _layer_args(self, layer: IntegerLayer) -> IntegerLayerArgs:
        odd = [order for order in order_factors(layer.block_size) if order != 2]
        sylvester = layer.block_size // int(np.prod(odd, dtype=np.int64))
        weight = layer.input_weight_int.astype(np.int32) << max(layer.input_shift, 0)
        args = IntegerLayerArgs(
            hidden=layer.hidden_size,
            seen=layer.input_size,
            block=layer.block_size,
            sylvester=sylvester,
            num_factors=len(odd),
            narrow_stages=narrow_stages(layer, sylvester),
            state_shift=layer.state_shift,
            input_shift=min(layer.input_shift, 0),
            round_multiplier=layer.round_multiplier,
            round_shift=layer.round_shift,
            activation_bits=layer.activation_bits,
            relu=layer.recurrence == "relu",
            fits_narrow_step=self._dtype is np.float32 and fits_narrow_step(layer),
            output_bits=layer.output_bits or 0,
            gain_shift=layer.gain_shift,
            has_skip=layer.skip_shift is not None,
            skip_shift=layer.skip_shift or 0,
            signs=self._keep(layer.signs, np.int8),
            weight=self._keep(weight, self._dtype),
            bias=self._keep(layer.input_bias + self._tie_offset(layer), self._dtype),
        )
        if odd:
            args.factor_orders = self._keep(np.array(odd), np.int64)
            matrices = [factor_matrix(order).reshape(-1) for order in reversed(odd)]
            args.factors = self._keep(np.concatenate(matrices), np.int8)
        if layer.leak:
            args.leaks = self._keep(np.array(layer.leak), np.int64)
        if layer.gain_int is not None and layer.offset_int is not None:
            args.gain = self._keep(layer.gain_int, np.int16)
            args.offset = self._keep(layer.offset_int.astype(np.int32) << layer.offset_shift, np.int32)
        return args

    def _tie_offset(self, layer: IntegerLayer) -> float:
        """Return what lifts a tie over the middle, where floats would round it to the even neighbour."""
        ties = self._dtype is np.float32 and layer.round_multiplier == 1 and layer.round_shift > 0
        return 0.5 if ties else 0

    def _keep(self, array: NDArray[Any], dtype: type) -> int:
        kept: NDArray[Any] = np.ascontiguousarray(array, dtype)
        self._kept.append(kept)
        return kept.ctypes.data


def narrow_stages(layer: IntegerLayer, sylvester: int) -> int:
    """Return how many stages of the transform fit 16 bits.

    A sum of n = 2^stages states of p bits in which at least half the signs are + lies in -n 2^(p-1) ...
    n 2^(p-1) - n / 2, one without a minus in -n 2^(p-1) ... n 2^(p-1) - n.
    """
    stages = min(sylvester.bit_length() - 1, 16 - layer.activation_bits, MOST_NARROW_STAGES)
    return stages


def fits_floats(model: IntegerModel) -> bool:
    """Whether every sum of the network is exact in floats, or so large that its state is clipped anyway."""
    exact = 1 << FLOAT_BITS
    if model.every_output and sum(readout_bound(model)) > exact:
        return False
    return all(map(_layer_fits_floats, model.layers))


def _layer_fits_floats(layer: IntegerLayer) -> bool:
    """Whether floats give the layer's states, bit for bit.

    H h and what an input adds are exact. Their sum acc is too, up to the largest one that is not clipped; a
    larger one may be rounded, but stays larger. m / 2^r is exact, a fused acc * m / 2^r + 1.5 * 2^23 rounds
    once, to the nearest integer, below 2^22. It takes a tie to the even neighbour. Where m is 1 the bias
    holds a half, which is less than the next sum; elsewhere a tie, acc a multiple of 2^(r-1), is clipped.
    """
    exact, top = 1 << FLOAT_BITS, 1 << layer.activation_bits - 1
    m, r = layer.round_multiplier, layer.round_shift
    drive = _drive_bound(layer)
    state = layer.block_size * top
    largest = (state << layer.state_shift) + drive + 1
    odd_part = m // (m & -m)
    return bool(
        state <= exact
        and drive < exact >> 1
        and (top + 1) << r <= m * (exact >> 2)
        and largest * m < (exact >> 2) << r
        and (m == 1 or odd_part > 2 * top + 1)
    )


def _drive_bound(layer: IntegerLayer) -> int:
    """Return the most that an input and the bias add to an accumulator."""
    products = input_product_bounds(layer) << max(layer.input_shift, 0)
    return int((products + np.abs(layer.input_bias)).max())


def fits_narrow_step(layer: IntegerLayer) -> bool:
    """Whether `kernels/native/narrow_step.h` gives the layer's states, of a network that fits floats.

    A factor's sums of all states but four fit 16 bits. Two sums of 16 bits and the input add up to less than
    2^22, so 1.5 * 2^23 plus that is exact in a float; where m is 1, after it was doubled to take in the half
    that rounds. Its product with m / 2^r is rounded once if what 1.5 * 2^23 contributes is an integer.
    """
    odd = [order for order in order_factors(layer.block_size) if order != 2]
    doubled = int(layer.round_multiplier == 1)
    largest = (1 << 16 + layer.state_shift) + _drive_bound(layer) + 1
    return (
        layer.recurrence == "linear"
        and not layer.unit_leaks.any()
        and layer.input_shift >= 0
        and layer.activation_bits < 15
        and layer.block_size > int(np.prod(odd))
        and len(odd) <= 1
        and all(order - 4 << layer.activation_bits - 1 <= 1 << 15 for order in odd)
        and largest << doubled < 1 << FLOAT_BITS - 2
        and layer.round_shift + doubled < FLOAT_BITS - 1
    )
