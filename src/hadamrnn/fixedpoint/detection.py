"""Detect anomalies in integers, by the smoothed distance of each sample from its prediction.

The network answers after every step with the sample that it expects next, in the units of its inputs x:

    p = saturate16(round(logit M / 2^s))                          before the step
    r = x - p                                                     17 bits
    z_i = saturate13(round(sum_(j <= i) L_ij r_j / 2^(s_i)))      in units of 2^-8, at most 16 in magnitude
    d = sum_i z_i^2, 0 in the warm-up of a stream                 in units of 2^-16, at most 2^29
    sum <- sum - floor(sum / 2^k) + d                             from 0; below 2^45
    level = floor(sum / 2^k)                                      the smoothed distance
    alarm = level > threshold

L is lower triangular: the inverse of the Cholesky factor of the residuals' covariance, so d is the squared
Mahalanobis distance. Rounding is to nearest, ties towards +infinity. `logit M` stays below 2^62, and a sum
over j, of at most 32 products, below 2^37; all else but the smoothed sum fits 32 bits. Start at `Detection`.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.base import IntegerBase, Metadata
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.layer import ArrayFields, freeze_array
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.settings import check_int

MAX_CHANNELS = 32  # limit of the sums over channels in the header of the runtime
MAX_SMOOTHING = 15
MAX_WARMUP = 0xFFFF
DISTANCE_BITS = 8  # fractional bits of z
LARGEST_BITS = 13  # limit on z: one channel contributes up to 16 deviations
MULTIPLIER_BITS, WHITENING_BITS, MAX_SHIFT = 31, 16, 62

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Detection(ArrayFields):
    """The stage after the network; its fields have the names of the equations above."""

    multiplier: int  # M
    shift: int  # s, 1..62
    whitening: NDArray[np.int16]  # L, (channels, channels), 0 above the diagonal
    whitening_shift: NDArray[np.int8]  # s_i, (channels,), 1..62
    smoothing: int  # k
    threshold: int
    warmup: int  # samples at the start of a stream that are ignored

    def __post_init__(self) -> None:
        channels = len(self.whitening_shift)
        check_int("channels of a detector", channels, 1, MAX_CHANNELS)
        check_int("multiplier", self.multiplier, 0, signed_range(MULTIPLIER_BITS + 1)[1])
        check_int("shift", self.shift, 1, MAX_SHIFT)
        check_int("smoothing", self.smoothing, 0, MAX_SMOOTHING)
        check_int("threshold", self.threshold, 0, signed_range(32)[1])
        check_int("warmup", self.warmup, 0, MAX_WARMUP)
        freeze_array(self, "whitening", np.int16, (channels, channels), signed_range(WHITENING_BITS))
        freeze_array(self, "whitening_shift", np.int8, (channels,), (1, MAX_SHIFT))
        if np.triu(self.whitening, 1).any():
            raise InputError("whitening must be lower triangular, got numbers above the diagonal.")

    @classmethod
    def of(
        cls,
        whitening: ArrayLike,
        threshold: float,
        smoothing: int,
        warmup: int,
        *,
        step: float,
        logit_scale: float,
    ) -> Detection:
        """Return the stage of real numbers, rounded.

        Args:
            whitening: L, of residuals in the units of the float network's inputs.
            threshold: of the level.
            smoothing: k.
            warmup: samples at the start of a stream.
            step: the value of one code x.
            logit_scale: that of one integer logit, in the same unit.
        """
        matrix = np.tril(np.asarray(whitening, np.float64)) * (step * 2.0**DISTANCE_BITS)
        multiplier, shift = _scaled(np.array([logit_scale / step]), MULTIPLIER_BITS)
        _, shifts = _scaled(np.abs(matrix).max(1), WHITENING_BITS - 1)
        low, high = signed_range(WHITENING_BITS)
        return cls(
            int(multiplier[0]),
            int(shift[0]),
            np.clip(np.rint(np.ldexp(matrix, shifts[:, None])), low, high).astype(np.int16),
            shifts.astype(np.int8),
            smoothing,
            round(min(max(threshold, 0.0) * 4.0**DISTANCE_BITS, float(signed_range(32)[1]))),
            warmup,
        )

    def predictions(self, logits: ArrayLike) -> Integers:
        """Return p for logits `(..., channels)`, in codes of the inputs."""
        return np.clip(
            _rounded(np.asarray(logits, np.int64) * self.multiplier, np.int64(self.shift)), *signed_range(16)
        )

    def distances(self, codes: ArrayLike, logits: ArrayLike) -> Integers:
        """Return d for input codes and the logits before them, both `(..., channels)`."""
        residuals = np.asarray(codes, np.int64) - self.predictions(logits)
        sums = residuals @ self.whitening.astype(np.int64).T
        z = np.clip(_rounded(sums, self.whitening_shift.astype(np.int64)), *signed_range(LARGEST_BITS))
        return np.asarray((z * z).sum(-1))

    def levels(self, distances: ArrayLike) -> Integers:
        """Return the level after each distance `(time,)` of a stream, from its start."""
        values, total = [], 0
        for step, distance in enumerate(np.asarray(distances).tolist()):
            total += (distance if step >= self.warmup else 0) - (total >> self.smoothing)
            values.append(total >> self.smoothing)
        return np.array(values, np.int64)

    def run(self, model: IntegerModel, codes: NDArray[np.int32]) -> Integers:
        """Return the level after every step of a stream of input codes `(time, channels)`."""
        engine = Engine(model)
        first = engine.read(engine.init())
        logits = engine.run(codes[None]).logits[0]
        return self.levels(self.distances(codes, np.concatenate([first, logits[:-1]])))

    def metadata(self) -> Metadata:
        """Return the entries that keep this stage with its model."""
        numbers = {
            "multiplier": self.multiplier,
            "shift": self.shift,
            "smoothing": self.smoothing,
            "threshold": self.threshold,
            "warmup": self.warmup,
            "whitening_shift": self.whitening_shift.tolist(),
            "whitening": self.whitening[np.tril_indices(len(self.whitening))].astype(">i2").tobytes().hex(),
        }
        return {"detection": json.dumps(numbers, separators=(",", ":"))}


def detection_of(model: IntegerBase) -> Detection | None:
    """Return the detector's stage behind a model; None for models that have none, or a damaged one."""
    try:
        numbers = json.loads(str(model.metadata["detection"]))
        channels = model.input_size
        packed = np.frombuffer(bytes.fromhex(numbers.pop("whitening")), ">i2")
        whitening = np.zeros((channels, channels), np.int16)
        whitening[np.tril_indices(channels)] = packed
        shifts = np.array(numbers.pop("whitening_shift"))
        found = Detection(whitening=whitening, whitening_shift=shifts, **numbers)
    except (KeyError, ValueError, TypeError, AttributeError, RecursionError):
        return None
    fits = model.every_output and model.input_kind == "dense" and model.output_size == channels
    return found if fits and len(shifts) == channels else None


def _scaled(values: NDArray[np.float64], bits: int) -> tuple[Integers, Integers]:
    """Return integers of this many bits, and shifts, with values ~ integer / 2^shift."""
    _, exponents = np.frexp(values)
    shifts = np.clip(bits - exponents, 1, MAX_SHIFT)
    whole = np.minimum(np.rint(np.ldexp(values, shifts)), math.ldexp(1, bits) - 1)
    return whole.astype(np.int64), shifts.astype(np.int64)


def _rounded(values: Integers, shift: Integers | np.int64) -> Integers:
    return np.asarray(values + (np.int64(1) << shift - 1) >> shift)
