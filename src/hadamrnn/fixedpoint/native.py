"""Run the integer network in the native library: the bits of the numpy engine, faster.

The library compiles `runtime/hadamrnn.h`, the program of devices, with the sequences of a batch in the lanes
of vectors (`kernels/native/integers.c`). Like a device it opens a blob, here with unpacked numbers.
Start reading at `NativeNetwork.run`.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.fixedpoint.blob import ModelData
from hadamrnn.fixedpoint.integers import Int32
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.step import LayerStep
from hadamrnn.kernels.library import IntegerArgs, Library
from hadamrnn.kernels.slices import run_slices_on


class NativeNetwork:
    """One `IntegerModel` in the native library."""

    def __init__(self, model: IntegerModel, library: Library) -> None:
        self._model = model
        self._kernel = library.kernel("integers")
        self.tile_rows = library.kernel("integer_rows")()
        self._lowest = LayerStep(model.layers[0])
        self._blob = np.frombuffer(ModelData(model, lanes=True).blob, np.uint8)

    def run(self, inputs: NDArray[Any], lengths: NDArray[np.int64], threads: int) -> tuple[Int32, int]:
        """Run checked rows `(batch, time, ...)` to their lengths; return logits and clipped entries.

        Codes are int32, and saturate.
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
        """Return the table rows of ids, and the table of their contributions to the lowest accumulators."""
        model = self._model
        place = np.zeros(model.vocabulary_size, np.int32)
        place[ids] = 1
        distinct = np.flatnonzero(place)
        place[distinct] = np.arange(len(distinct))
        codes = distinct if model.embedding_int is None else model.embedding_int[distinct].T
        return place[ids], np.ascontiguousarray(self._lowest.drive(codes).T, np.int32)
