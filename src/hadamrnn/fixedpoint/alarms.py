"""Raise alarms in integers: `Decision` on the logits of windows, and `Detection` of anomalies.

A decision says when the logits of a stream of windows raise an event:

    margin = least(largest logit - second largest, 2^31 - 2)        |logit| if there is only one vote   =
    class of the largest logit if margin >= its threshold, else none event  = vote if k of the last n votes
    are for it, and no event was raised in the refractory windows before

An event clears the votes. A class with threshold `NEVER` is background and raises nothing. `Decider` is the
reference, and exported C and JavaScript equal it bit for bit. A model stores either stage in its metadata.

A detector compares each sample with its prediction. After every step the network outputs the sample that it
expects next, in the units of its inputs x:

    p = saturate16(round(logit M / 2^s))                          before the step
    r = x - p                                                     17 bits
    z_i = saturate13(round(sum_(j <= i) L_ij r_j / 2^(s_i)))      in units of 2^-8, at most 16 in magnitude
    d = sum_i z_i^2, 0 in the warm-up of a stream                 in units of 2^-16, at most 2^29
    sum <- sum - floor(sum / 2^k) + d                             from 0; below 2^45
    level = floor(sum / 2^k)                                      the smoothed distance
    alarm = level > threshold

L is lower triangular: the inverse of the Cholesky factor of the residuals' covariance, so d is the squared
Mahalanobis distance. Rounding is to nearest, ties towards +infinity. `logit M` stays below 2^62, and a sum
over j, of at most 32 products, below 2^37; everything else except the smoothed sum fits 32 bits.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from hadamrnn.errors import InputError, damaged
from hadamrnn.fixedpoint.base import IntegerBase, Metadata
from hadamrnn.fixedpoint.engine import Engine
from hadamrnn.fixedpoint.integers import MAX_SHIFT, round_shift, scaled_integers, signed_range
from hadamrnn.fixedpoint.layer import ArrayFields, freeze_array
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.settings import Positive, check_int, from_json

NEVER = (1 << 31) - 1
MOST_VOTES, MOST_WINDOWS = 32, 0xFFFF
ENTRY = "decision"  # name of the metadata entry


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The rule by which windows raise an event.

    Args:
        thresholds: least margin of a vote, for each class; `NEVER` for classes that raise nothing.
        needed, votes: k and n of "k of n votes".
        refractory: number of windows after an event in which no further event is raised.
        window, hop: length and hop of the windows used for tuning, in steps.
        rate: rows per second of the recordings used for tuning; None if unknown.
    """

    thresholds: tuple[int, ...]
    needed: int
    votes: int
    refractory: int
    window: int
    hop: int
    rate: Positive | None = None

    def __post_init__(self) -> None:
        for threshold in self.thresholds:
            check_int("Every one of thresholds", threshold, 0, NEVER)
        check_int("votes", self.votes, 1, MOST_VOTES)
        check_int("needed", self.needed, 1, self.votes)
        check_int("refractory", self.refractory, 0, MOST_WINDOWS)
        check_int("hop", self.hop, 1, MOST_WINDOWS)
        check_int("window", self.window, self.hop, MOST_WINDOWS)


def margin(logits: ArrayLike) -> tuple[int, int]:
    """Return the class of the largest logit (the first one on a tie) and its lead over the second.

    >>> margin([3, 9, 7]), margin([-4])
    ((1, 2), (0, 4))
    """
    values = np.asarray(logits, np.int64)
    if len(values) == 1:
        return int(values[0] > 0), min(abs(int(values[0])), NEVER - 1)
    label = int(values.argmax())
    return label, min(int(values[label] - np.delete(values, label).max()), NEVER - 1)


class Decider:
    """The state of a decision on a stream, to which the logits of every window are passed.

    >>> decision = Decision(thresholds=(NEVER, 5), needed=2, votes=3, refractory=1, window=8, hop=4)
    >>> decider = Decider(decision)
    >>> [decider.decide(logits) for logits in ([0, 9], [0, 1], [0, 9], [0, 9], [0, 9], [0, 9])]
    [None, None, 1, None, 1, None]
    """

    def __init__(self, decision: Decision) -> None:
        self.decision = decision
        self._votes: deque[int | None] = deque(maxlen=decision.votes)
        self._wait = 0

    def decide(self, logits: ArrayLike) -> int | None:
        """Return the class of the event that this window raises, or None."""
        return self.vote(*margin(logits))

    def vote(self, label: int, lead: int) -> int | None:
        """Return the event that a window with this class and margin raises, or None."""
        vote = label if lead >= self.decision.thresholds[label] else None
        self._votes.append(vote)
        if self._wait:
            self._wait -= 1
            return None
        if vote is None or self._votes.count(vote) < self.decision.needed:
            return None
        self._votes.clear()
        self._wait = self.decision.refractory
        return vote


def decision_of(model: IntegerBase) -> Decision | None:
    """Return the decision in a model's metadata; None if it has none."""
    text = model.metadata.get(ENTRY)
    if text is None:
        return None
    try:
        decision = from_json(Decision, json.loads(str(text)), "The decision of this model")
    except (ValueError, RecursionError) as error:
        raise damaged("The decision of this model", f"{error}") from error
    if len(decision.thresholds) != max(model.output_size, 2):
        raise damaged("The decision of this model", "it needs a threshold for every class.")
    return decision


def with_decision(model: IntegerModel, decision: Decision) -> IntegerModel:
    """Return the model with a decision in its metadata."""
    text = json.dumps(asdict(decision), separators=(",", ":"))
    return replace(model, metadata={**model.metadata, ENTRY: text})


MAX_CHANNELS = 32  # most channels for which the runtime's sums cannot overflow
MAX_SMOOTHING = 15
MAX_WARMUP = 0xFFFF
DISTANCE_BITS = 8  # fractional bits of z
LARGEST_BITS = 13  # bits of z, which lets one channel contribute up to 16 standard deviations
MULTIPLIER_BITS, WHITENING_BITS = 31, 16

Integers = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Detection(ArrayFields):
    """The stage after a detector's network; fields are named after the equations above."""

    multiplier: int  # M
    shift: int  # s, 1..62
    whitening: NDArray[np.int16]  # L, (channels, channels), 0 above the diagonal
    whitening_shift: NDArray[np.int8]  # s_i, (channels,), 1..62
    smoothing: int  # k, the level is a mean over about 2^k distances
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
        """Build a detector stage by rounding real numbers.

        Args:
            whitening: L, for residuals in the units of the float network's inputs.
            threshold: level above which an alarm is raised.
            smoothing: k.
            warmup: number of samples to ignore at the start of a stream.
            step: value of one input code.
            logit_scale: value of one integer logit, in the same units.
        """
        matrix = np.tril(np.asarray(whitening, np.float64)) * (step * 2.0**DISTANCE_BITS)
        multiplier, shift = scaled_integers(np.array([logit_scale / step]), MULTIPLIER_BITS)
        _, shifts = scaled_integers(np.abs(matrix).max(1), WHITENING_BITS - 1)
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
        products = np.asarray(logits, np.int64) * self.multiplier
        return np.asarray(np.clip(round_shift(products, self.shift), *signed_range(16)))

    def distances(self, codes: ArrayLike, logits: ArrayLike) -> Integers:
        """Return d for input codes and the logits that predicted them, both `(..., channels)`."""
        residuals = np.asarray(codes, np.int64) - self.predictions(logits)
        sums = residuals @ self.whitening.astype(np.int64).T
        z = np.clip(round_shift(sums, self.whitening_shift.astype(np.int64)), *signed_range(LARGEST_BITS))
        return np.asarray((z * z).sum(-1))

    def levels(self, distances: ArrayLike) -> Integers:
        """Return the level after each distance `(time,)`, from the start of a stream."""
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
        """Return the metadata entries that store this stage in a model."""
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
    """Return the detector stage of a model; None if it is missing or damaged."""
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
