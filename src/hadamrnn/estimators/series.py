"""Store series and samples, and scale them from the user's units to the network's. Start at `Scaling`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.samples import merge_copies
from hadamrnn.data.scaling import channel_statistics, raw_unit, row_blocks
from hadamrnn.data.splits import Split
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, compress
from hadamrnn.quantization.calibration import RawInputs

Floats = NDArray[np.float64]
APART = 2.5  # compress a channel if its overall deviation is this many times that of its median series
REACH = 2.0**24  # largest value / threshold: int32 covers this range and still resolves the threshold


@dataclass(frozen=True, eq=False)
class Series:
    """Padded series: `values` `(n, time, channels)`, zero past a row's length; `lengths` `(n,)` or None."""

    values: Floats
    lengths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def channels(self) -> int:
        return int(self.values.shape[2])

    def at(self, index: NDArray[Any]) -> Series:
        """Return the series at these indices."""
        return Series(self.values[index], None if self.lengths is None else self.lengths[index])

    def __add__(self, other: Series) -> Series:
        """Concatenate series, padding shorter ones with zeros at their end."""
        steps = max(self.values.shape[1], other.values.shape[1])
        values = np.zeros((len(self) + len(other), steps, self.channels))
        values[: len(self), : self.values.shape[1]] = self.values
        values[len(self) :, : other.values.shape[1]] = other.values
        lengths = np.concatenate([self.steps_each(), other.steps_each()])
        return Series(values, None if (lengths == steps).all() else lengths)

    def steps_each(self) -> NDArray[np.int64]:
        """Return each series' number of valid steps, `(n,)`."""
        return np.full(len(self), self.values.shape[1]) if self.lengths is None else self.lengths

    def digests(self) -> list[bytes]:
        """Return a hash of each series: equal series have equal hashes."""
        return [
            blake2b((row[:length] + 0.0).tobytes(), digest_size=16).digest()  # + 0.0 turns -0.0 into 0.0
            for row, length in zip(self.values, self.steps_each().tolist(), strict=True)
        ]

    def parts(self) -> Iterator[tuple[slice, Floats]]:
        """Yield the series in parts, `(rows, values)`, so that temporary arrays stay small."""
        return ((part, self.values[part]) for part in row_blocks(self.values))


@dataclass(frozen=True, eq=False)
class Samples:
    """The distinct samples: series, labels `(n,)` or values `(n, targets)`, and weights `(n,)`.

    Samples with equal series and label are merged and their weights added, so repeating a sample and
    weighting it are equivalent. `groups` `(n,)` numbers the distinct series. `owners` `(n,)` numbers their
    sources, if the caller names them; owners of the same series are merged.
    """

    series: Series
    known: NDArray[Any]
    weights: Floats
    groups: NDArray[np.int64]
    owners: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, series: Series, known: NDArray[Any], weights: Floats, owners: NDArray[Any] | None = None
    ) -> Samples:
        """Return the distinct samples, in the order of first appearance."""
        _, targets = np.unique(known, axis=0 if known.ndim > 1 else None, return_inverse=True)
        digests = series.digests()
        numbers = numbered(digests)
        owners = None if owners is None else merge_copies(owners, numbers)
        places = numbered(list(zip(digests, targets.ravel().tolist(), strict=True)))
        _, first = np.unique(places, return_index=True)
        if len(first) < len(series):
            totals = np.zeros(len(first))
            np.add.at(totals, places, weights)
            series, known, weights = series.at(first), known[first], totals
        return cls(series, known, weights, numbers[first], None if owners is None else owners[first])

    def __len__(self) -> int:
        return len(self.series)

    def at(self, index: NDArray[Any]) -> Samples:
        owners = None if self.owners is None else self.owners[index]
        return Samples(
            self.series.at(index), self.known[index], self.weights[index], self.groups[index], owners
        )

    def order(self) -> NDArray[np.int64]:
        """Return an order of the samples that does not depend on their original order."""
        keys = list(zip(self.series.digests(), self.known.tolist(), strict=True))
        return np.array(sorted(range(len(self)), key=keys.__getitem__))

    def __add__(self, other: Samples) -> Samples:
        return Samples.of(
            self.series + other.series,
            np.concatenate([self.known, other.known]),
            np.concatenate([self.weights, other.weights]),
        )


def numbered(keys: Sequence[Any]) -> NDArray[np.int64]:
    """Number the keys in the order of their first appearance; equal keys get the same number.

    >>> numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


@dataclass(frozen=True, eq=False)
class Scaling:
    """The standardisation v = (x - offset) / scale of each channel, which gives the network's input.

    A channel with a log compression threshold `knee` uses `compress(x, knee)` instead of x.
    A device reads raw codes r with x = r `unit`, chosen by `raw_unit`; the unit is None if none suits every
    channel. `offset` is a whole number of units, so that the integer network subtracts it exactly.
    """

    offset: Floats
    scale: Floats
    unit: float | None
    knee: Floats | None = None  # (channels,), 0 for channels that are not compressed; None if none is

    @classmethod
    def of(cls, series: Series, weights: Floats) -> Scaling:
        """Return the standardisation of these series; `weights` `(n,)` is how often each counts."""
        mean, deviation = channel_statistics(series.values, series.lengths, weights)
        knee = _knees(series, weights, deviation)
        unit = raw_unit(series.values, np.where(knee > 0, knee, deviation))
        if unit is not None:  # so that a device resolves the threshold
            knee = np.where(knee > 0, np.maximum(knee, 2 * unit), 0.0)
        step = np.full(series.channels, unit or 0.0)
        if knee.any():
            mean, deviation = channel_statistics(
                series.values, series.lengths, weights, lambda values: _compressed(values, knee)
            )
            step = np.where(knee > 0, 2.0**-OCTAVE_BITS, step)
        offset = np.where(step > 0, np.rint(mean / np.where(step > 0, step, 1.0)) * step, mean)
        return cls(offset, np.where(deviation > 0, deviation, 1.0), unit, knee if knee.any() else None)

    def split(self, series: Series, dtype: Any) -> Split:
        """Return the network's inputs."""
        x = np.empty(series.values.shape, dtype)
        with np.errstate(over="ignore"):  # values beyond float32 are far from all training data anyway
            for part, values in series.parts():
                entered = values if self.knee is None else _compressed(values, self.knee)
                x[part] = (entered - self.offset) / self.scale
        lengths = None if series.lengths is None else torch.from_numpy(series.lengths)
        return Split(torch.from_numpy(x), None, lengths)

    def raw_inputs(self, unit: float | None = None) -> RawInputs:
        """Return the encoding of raw codes in this `unit`, by default the data's own."""
        return RawInputs.standardised(self.offset, self.scale, self.unit if unit is None else unit, self.knee)


def _knees(series: Series, weights: Floats, deviations: Floats) -> Floats:
    """Return the log compression threshold of each channel, a power of two; 0 for no compression.

    A channel is compressed if its series differ in size by orders of magnitude. At a scale that fits the
    largest, the median series would vanish in integers. The threshold is the size of the smallest series.
    """
    steps = np.maximum(series.steps_each(), 1)[:, None]
    sizes = np.sqrt(np.einsum("ntc,ntc->nc", series.values, series.values) / steps)  # padding is zero
    knees = np.zeros(series.channels)
    for channel, deviation in enumerate(deviations):
        alive = sizes[:, channel] > 0
        if alive.any() and deviation > 0:
            smallest, median = _quantiles(sizes[alive, channel], weights[alive], (0.1, 0.5))
            if median < deviation / APART:
                largest = np.abs(series.values[:, :, channel]).max()
                knees[channel] = np.exp2(np.ceil(np.log2(max(smallest, largest / REACH))))
    return knees


def _quantiles(values: Floats, weights: Floats, levels: Sequence[float]) -> Floats:
    """Return the quantiles of weighted values at these levels."""
    order = np.argsort(values, kind="stable")
    shares = np.cumsum(weights[order])
    places = np.searchsorted(shares, np.array(levels) * shares[-1])
    found: Floats = values[order[np.minimum(places, len(order) - 1)]]
    return found


def _compressed(values: Floats, knee: Floats) -> Floats:
    """Return the values, channels last, after compression of the channels that need it."""
    return np.where(knee > 0, compress(values, np.where(knee > 0, knee, 1.0)), values)
