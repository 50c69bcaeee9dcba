"""Define `IntegerReservoir`: everything that a device needs of a reservoir, as integers.

The estimators fit it, the exporters write it, and `run` gives the same bits as the export. `reference.py` has
the equations. Start reading at the fields.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import IntegerBase, Metadata
from hadamrnn.fixedpoint.engine import BatchResult
from hadamrnn.fixedpoint.integers import Int32, signed_range
from hadamrnn.fixedpoint.layer import freeze_array
from hadamrnn.fixedpoint.overflow import prove
from hadamrnn.reservoir.counting import checked_codes, run_counts
from hadamrnn.reservoir.description import MAX_LENGTH, Reservoir
from hadamrnn.reservoir.reference import CODE_BITS, feature_codes, feature_steps
from hadamrnn.reservoir.units import Features, Integers, Units
from hadamrnn.settings import check_int

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.file import FileSize

PART_COUNTS = 1 << 20  # most feature counts that `run` keeps in memory at once


@dataclass(frozen=True, eq=False)
class IntegerReservoir(IntegerBase):
    """An integer reservoir: units, features and a read-out. Arrays are read-only; floats are for information.

    A real logit is `logit * logit_scale`; inputs are as in a dense `IntegerModel`.
    """

    network: Reservoir
    units: Units
    features: Features
    exponents: Integers  # e of each feature, 0..15
    output_weight_int: Integers  # V, (output_size, features), weight_bits
    output_bias_int: Integers  # b_o, (output_size,), 16 bits
    output_bias_shift: int

    input_scale: float
    logit_scale: float

    raw_offset: NDArray[np.int32] | None = None  # (input_size,); these four as in an IntegerModel
    raw_multiplier: NDArray[np.int32] | None = None
    raw_shift: NDArray[np.int32] | None = None
    raw_knee: NDArray[np.int32] | None = None
    metadata: Metadata = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.network == self.units.network == self.features.network:
            raise InputError("The units and the features must be those of the network.")
        shape = (self.network.output_size, len(self.features))
        freeze_array(self, "exponents", np.int8, shape[1:], (0, (1 << EXPONENT_BITS) - 1))
        freeze_array(self, "output_weight_int", np.int8, shape, signed_range(self.network.weight_bits))
        freeze_array(self, "output_bias_int", np.int16, shape[:1], signed_range(16))
        check_int("output_bias_shift", self.output_bias_shift, 0, 16)
        self._check_shared()
        self._prove()

    @staticmethod
    def load(path: Path | str) -> IntegerReservoir:
        """Read a model written by `save`; raise `InputError` for anything else."""
        from hadamrnn.reservoir.file import load

        return load(path)

    def save(self, path: Path | str) -> FileSize:
        """Write the model to `path` atomically; return its size."""
        from hadamrnn.reservoir.file import save

        return save(self, path)

    def run(
        self, codes: ArrayLike, lengths: ArrayLike | None = None, threads: int | None = None
    ) -> BatchResult:
        """Return the logits for input codes `(batch, time, input_size)`, each row up to its length."""
        x, ends = checked_codes(self.network, codes, lengths)
        logits = np.empty((len(x), self.network.output_size), np.int32)
        clipped, rows = 0, max(1, PART_COUNTS // max(1, len(self.features)))
        for part in (slice(start, start + rows) for start in range(0, len(x), rows)):
            counts, more = run_counts(
                self.units, self.features, x[part], ends[part], threads or os.cpu_count()
            )
            logits[part], clipped = self.logits(counts, ends[part]), clipped + more
        return BatchResult(logits, clipped)

    def logits(self, counts: NDArray[np.uint16], lengths: NDArray[np.int64]) -> Int32:
        """Return the logits for counts `(n, features)` after this many samples."""
        steps = feature_steps(self.network, self.features, lengths)
        values = feature_codes(counts, steps, self.exponents.astype(np.int8))
        # Every partial sum is below 2^31, so a float64 product, which is fast, is exact.
        product = values.astype(np.float64) @ self.output_weight_int.T.astype(np.float64)
        return np.asarray(product + self.output_bias).astype(np.int32)

    def __repr__(self) -> str:
        """Return one line, without the arrays."""
        network = self.network
        sizes = f"{network.input_size} -> {network.hidden_size} units, {len(self.features)} features"
        return f"IntegerReservoir({sizes} -> {network.output_size}, weight_bits={network.weight_bits})"

    @property
    def logit_bound(self) -> int:
        """The largest magnitude that a logit, or any partial sum of it, can have."""
        codes = np.int64(1) << CODE_BITS - self.exponents.astype(np.int64)
        products = np.abs(self.output_weight_int.astype(np.int64)) @ codes
        return int((products + np.abs(self.output_bias)).max())

    @property
    def input_bits(self) -> int:
        return self.network.input_bits

    @property
    def every_output(self) -> bool:
        """False: a reservoir is read out only after the last sample."""
        return False

    @property
    def calibrated_length(self) -> int | None:
        """The length of the windows used for fitting, if all had the same length."""
        length = self.network.seq_length
        return length if length < MAX_LENGTH else None

    @property
    def longest(self) -> int:
        return self.network.longest

    def _prove(self) -> None:
        """Refuse a read-out whose sums could overflow int32; hadamrnn_reservoir.h bounds all other sums."""
        prove("A logit", {"read-out": self.logit_bound}, "Lower weight_bits or output_bias_shift.")
