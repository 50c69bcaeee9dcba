"""The integer network in the native library: the bits of the engine on arrays, faster.

The library compiles `runtime/hadamrnn.h`, the program of devices, with the sequences of a batch in the lanes
of vectors (`kernels/native/integers.c`). It reads constants as 32-bit integers, unpacked and shifted here.
Start reading at `NativeNetwork.run`.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.integers import Int32, pack
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.plan import GROUP, LayerPlan, make_plan, whole_groups
from hadamrnn.fixedpoint.step import LayerStep
from hadamrnn.hadamard.orders import factor_matrix
from hadamrnn.kernels.library import IntegerArgs, IntegerLayerArgs, Library
from hadamrnn.kernels.slices import run_slices_on
from hadamrnn.network import READOUTS


class NativeNetwork:
    """One `IntegerModel` as the native library wants it."""

    def __init__(self, model: IntegerModel, library: Library) -> None:
        self._model = model
        self._plan = make_plan(model)
        self._kernel = library.kernel("integers")
        self.tile_rows = library.kernel("integer_rows")()
        self._lowest = LayerStep(model.layers[0])
        self._kept: list[NDArray[Any]] = []  # what the structures point at
        self._layers = (IntegerLayerArgs * len(model.layers))(*map(self._layer_args, self._plan.layers))
        self._args = self._model_args()

    def run(self, inputs: NDArray[Any], lengths: NDArray[np.int64], threads: int) -> tuple[Int32, int]:
        """Return logits and clipped entries of checked rows `(batch, time, ...)`, each run to its length.

        Codes are int32, and saturate.
        """
        # Rows of a tile take the steps of the longest of them.
        order = np.argsort(-lengths, kind="stable") if np.any(lengths[1:] != lengths[:-1]) else slice(None)
        args = IntegerArgs.from_buffer_copy(self._args)
        args.batch, args.time = inputs.shape[:2]
        shape = (args.batch, args.time) if self._model.every_output else (args.batch,)
        saturations = np.zeros(-(-args.batch // self.tile_rows), np.int64)
        found = np.empty((*shape, self._model.output_size), np.int32)
        found[:] = self._model.output_bias  # of every output past the length
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
        """Return rows of a table for ids, and the table: what an id adds to the lowest accumulators."""
        model = self._model
        place = np.zeros(model.vocabulary_size, np.int32)
        place[ids] = 1
        distinct = np.flatnonzero(place)
        place[distinct] = np.arange(len(distinct))
        codes = distinct if model.embedding_int is None else model.embedding_int[distinct].T
        return place[ids], np.ascontiguousarray(self._lowest.drive(codes).T, np.int32)

    def _model_args(self) -> IntegerArgs:
        model, network, plan = self._model, self._model.network, self._plan
        args = IntegerArgs(
            every_output=model.every_output,
            input_bits=model.input_bits,
            activation_bits=model.activation_bits,
            is_relu=network.recurrence == "relu",
            num_layers=len(model.layers),
            num_readouts=len(network.readouts),
            thresholds=max(network.thresholds, 1),
            feature_bits=model.feature_bits or 0,
            stride=network.stride if len(model.layers) > 1 else 1,
            input_size=model.input_size if model.input_kind == "dense" else 0,
            output_size=model.output_size,
            **{name: getattr(plan, name) for name in ("phases", "counts", "pool_wide", "pool_narrow")},
            **{name: getattr(plan, name) for name in ("narrow_cells", "work_cells")},
            code_cells=plan.code_cells,
            readouts=(ctypes.c_int64 * 4)(*map(READOUTS.index, network.readouts)),
            multipliers=(ctypes.c_int64 * 4)(*(model.feature_multiplier or ())),
            layers=ctypes.addressof(self._layers),
            output_weight=self._keep(self._by_groups(model.output_weight_int)),
            output_bias=self._keep(model.output_bias),
        )
        if model.thresholds_int is not None:
            args.theta = self._keep(self._by_groups(model.thresholds_int))
        if model.feature_shift is not None:
            shifts = self._by_groups(model.feature_shift)
            args.feature_shift = self._keep(np.maximum(shifts, 1), np.uint8)  # of rows that fill up: any
        return args

    def _layer_args(self, planned: LayerPlan) -> IntegerLayerArgs:
        layer, rows = planned.layer, planned.rows
        args = IntegerLayerArgs(
            units=layer.hidden_size,
            inputs=layer.input_size if layer.input_kind == "dense" else 0,
            block=layer.block_size,
            cells=planned.cells,
            sums=planned.sums,
            stages=planned.stages,
            in_place=planned.in_place,
            input_shift=min(layer.input_shift, 0),
            multiplier=layer.round_multiplier,
            round_shift=layer.round_shift,
            output_bits=layer.output_bits or layer.activation_bits,
            gain_shift=layer.gain_shift,
            has_skip=layer.skip_shift is not None,
            skip_shift=layer.skip_shift or 0,
            signs=self._keep(_padded(layer.signs.astype(np.int32) << layer.state_shift, rows)),
            bias=self._keep(_padded(layer.input_bias, rows)),
        )
        if layer is not self._model.layers[0] or self._model.input_kind == "dense":
            weight = _padded(layer.input_weight_int.T.astype(np.int32) << max(layer.input_shift, 0), rows)
            args.weight = self._keep(weight.reshape(layer.input_size, -1, GROUP).swapaxes(0, 1))
        for place, (order, stride) in enumerate(planned.factors):
            args.factor_orders[place], args.factor_strides[place] = order, stride
            signs = np.stack([pack(row, 1) for row in factor_matrix(order)])
            args.factors[place] = self._keep(signs, np.uint8)
        if layer.unit_leaks.any():
            args.leaks = self._keep(_padded(layer.unit_leaks, rows), np.uint8)
        if layer.gain_int is not None and layer.offset_int is not None:
            args.gain = self._keep(layer.gain_int)
            args.offset = self._keep(layer.offset_int.astype(np.int32) << layer.offset_shift)
        return args

    def _by_groups(self, array: NDArray[Any]) -> NDArray[Any]:
        """Fill up the units of every read-out, which lie along the last axis, to whole groups."""
        units = self._model.hidden_size
        return _padded(array.reshape(*array.shape[:-1], -1, units), whole_groups(units))

    def _keep(self, array: NDArray[Any], dtype: type = np.int32) -> int:
        kept: NDArray[Any] = np.ascontiguousarray(array, dtype)
        self._kept.append(kept)
        return kept.ctypes.data


def _padded(array: NDArray[Any], rows: int) -> NDArray[Any]:
    """Fill up the last axis, the units of a layer, with zeros to whole groups."""
    return np.pad(array, [*[(0, 0)] * (array.ndim - 1), (0, rows - array.shape[-1])])
