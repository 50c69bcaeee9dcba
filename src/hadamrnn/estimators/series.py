"""From the user's X to series, and from their units to the network's. Start at `read_series`.

Frames of pandas, polars and sktime's users become `(time, channels)` tables; a wide frame, `(n, features)` of
numbers, is a table as scikit-learn reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from sklearn.utils.validation import _check_sample_weight, check_array, validate_data

from hadamrnn.data.splits import Split, raw_unit
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import OCTAVE_BITS, compress
from hadamrnn.quantization.inputs import RawInputs

Floats = NDArray[np.float64]
TURN = "It looks like (n, channels, time): pass X.transpose(0, 2, 1)."
APART = 2.5  # how far below the deviation of all the median series lies, where a channel is compressed
REACH = 2.0**24  # from the knee to the largest value: an int32 reaches it and still resolves the knee
LARGEST = 1e100  # of X and y: squares, and sums of them, stay within float64
TURN_ROWS = "They look like (channels, time): pass [series.T for series in X]."


@dataclass(frozen=True, eq=False)
class Series:
    """`values`, `(n, time, channels)`, zero past a row's length; `lengths`, `(n,)`, None where all count."""

    values: Floats
    lengths: NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.values)

    @property
    def channels(self) -> int:
        return int(self.values.shape[2])

    def at(self, index: NDArray[Any]) -> Series:
        """Return some of the series."""
        return Series(self.values[index], None if self.lengths is None else self.lengths[index])

    def __add__(self, other: Series) -> Series:
        """Return series one after the other, the shorter ones with zeros at their end."""
        steps = max(self.values.shape[1], other.values.shape[1])
        values = np.zeros((len(self) + len(other), steps, self.channels))
        values[: len(self), : self.values.shape[1]] = self.values
        values[len(self) :, : other.values.shape[1]] = other.values
        lengths = np.concatenate([self.steps_each(), other.steps_each()])
        return Series(values, None if (lengths == steps).all() else lengths)

    def steps_each(self) -> NDArray[np.int64]:
        """Return how many steps of each series count, `(n,)`."""
        return np.full(len(self), self.values.shape[1]) if self.lengths is None else self.lengths

    def digests(self) -> list[bytes]:
        """Return a hash of each series: equal series have equal hashes."""
        return [
            blake2b((row[:length] + 0.0).tobytes(), digest_size=16).digest()  # -0.0 + 0.0 is 0.0
            for row, length in zip(self.values, self.steps_each().tolist(), strict=True)
        ]

    def steps(self) -> Floats:
        """Return the steps that count, `(steps, channels)`."""
        if self.lengths is None:
            return self.values.reshape(-1, self.channels)
        counted: Floats = self.values[np.arange(self.values.shape[1]) < self.lengths[:, None]]
        return counted


def read_series(estimator: Any, X: Any, *, reset: bool) -> Series:
    """Return X as series; `reset` sets the estimator's `n_features_in_`, else X must agree with it.

    `(n, features)`, an array or a wide frame, is one channel of `features` steps, and every later X must have
    as many. Of `(n, time, channels)`, of a list of `(time, channels)` arrays and of frames with a column for
    each channel, only the channels must agree. An array with more channels than steps could as well be
    `(n, channels, time)`: a first X like that is refused. A list says which it is.
    """
    frame = rows_of_frame(X)
    rows = _as_rows(X) if frame is None else frame
    rank = 3 if rows is not None else getattr(X, "ndim", 2)  # a list that is not of rows becomes a table
    if rank != 3:
        series = _from_table(estimator, X, rank, reset)
    else:
        series = _from_rows(rows) if rows is not None else Series(_checked(X, allow_nd=True))
        if rows is None and reset and series.channels > series.values.shape[1]:
            raise ValueError(
                f"X must be (n, time, channels), and {series.values.shape} may be (n, channels, time). "
                "If so, pass X.transpose(0, 2, 1); if series have more channels than steps, pass list(X)."
            )
        _check_channels(estimator, series, reset)
        if frame is not None:  # the names of its columns, which are channels
            validate_data(estimator, X, reset=reset, skip_check_array=True)
    _check_finite(series)
    return series


@dataclass(frozen=True, eq=False)
class Samples:
    """Distinct samples: their series, labels `(n,)` or values `(n, targets)`, and weights `(n,)`.

    Samples that agree in series and label are one sample with the sum of their weights, so repeating a
    sample and weighting it are the same. `groups` `(n,)` numbers the distinct series.
    """

    series: Series
    known: NDArray[Any]
    weights: Floats
    groups: NDArray[np.int64]

    @classmethod
    def of(cls, series: Series, known: NDArray[Any], weights: Floats) -> Samples:
        """Return the distinct ones of these samples, in the order of their first appearance."""
        _, targets = np.unique(known, axis=0 if known.ndim > 1 else None, return_inverse=True)
        digests = series.digests()
        places = _numbered(list(zip(digests, targets.ravel().tolist(), strict=True)))
        _, first = np.unique(places, return_index=True)
        if len(first) < len(series):
            totals = np.zeros(len(first))
            np.add.at(totals, places, weights)
            series, known, weights = series.at(first), known[first], totals
        return cls(series, known, weights, _numbered(digests)[first])

    def __len__(self) -> int:
        return len(self.series)

    def at(self, index: NDArray[Any]) -> Samples:
        return Samples(self.series.at(index), self.known[index], self.weights[index], self.groups[index])

    def __add__(self, other: Samples) -> Samples:
        return Samples.of(
            self.series + other.series,
            np.concatenate([self.known, other.known]),
            np.concatenate([self.weights, other.weights]),
        )


def _numbered(keys: Sequence[Any]) -> NDArray[np.int64]:
    """Return a number for each key, the same for equal keys, in the order of their first appearance.

    >>> _numbered(["b", "a", "b"]).tolist()
    [0, 1, 0]
    """
    numbers: dict[Any, int] = {}
    return np.array([numbers.setdefault(key, len(numbers)) for key in keys])


def read_samples(series: Series, known: NDArray[Any], sample_weight: Any) -> Samples:
    """Return the distinct samples of positive weight; without `sample_weight` each counts once."""
    if sample_weight is None:
        return Samples.of(series, known, np.ones(len(series)))
    weights = _check_sample_weight(sample_weight, series.values, dtype=np.float64, ensure_non_negative=True)
    counted = np.flatnonzero(weights)
    if len(counted) == 0:
        raise ValueError("sample_weight must be positive for at least one sample, got zeros only.")
    return Samples.of(series.at(counted), known[counted], weights[counted])


def _from_table(estimator: Any, X: Any, rank: int, reset: bool) -> Series:
    if not reset and not estimator.reads_features_:
        raise ValueError(
            f"Expected 3D array, got {rank}D array instead: {type(estimator).__name__} was fitted "
            "to series of shape (time, channels). Reshape your data using array[:, :, None] if they have "
            "one channel."
        )
    minimum = 2 if reset else 1
    array = validate_data(
        estimator, X, reset=reset, dtype=np.float64, ensure_min_samples=minimum, ensure_all_finite=False
    )
    if reset:
        estimator.reads_features_ = True
    return Series(array[:, :, None])


def _as_rows(X: Any) -> list[Any] | None:
    """Return the samples of a list of series; None if X is an array, or a list that becomes one."""
    if not isinstance(X, list | tuple) and not (isinstance(X, np.ndarray) and X.dtype == object):
        return None
    try:
        ranks = [np.ndim(row) for row in X]
    except ValueError:  # a ragged row: numpy raises a clear error when it becomes an array
        return None
    if ranks and set(ranks) == {2}:
        return list(X)
    ragged = set(ranks) == {1} and len({len(row) for row in X}) > 1
    return list(X) if ragged else None


def _from_rows(rows: list[Any]) -> Series:
    """Return series of different length, `(time, channels)` or `(time,)` each, padded with zeros."""
    arrays = [_checked(row, ensure_2d=False, input_name=f"X[{i}]") for i, row in enumerate(rows)]
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    channels = {array.shape[1] for array in arrays}
    if len(channels) > 1:
        turned = len({len(array) for array in arrays}) == 1
        raise ValueError(
            f"All series must have the same number of channels, got {sorted(channels)}."
            + (f" {TURN_ROWS}" if turned else "")
        )
    lengths = np.array([len(array) for array in arrays])
    values = np.zeros((len(arrays), lengths.max(), channels.pop()))
    for target, array in zip(values, arrays, strict=True):
        target[: len(array)] = array
    return Series(values, lengths if lengths.min() < lengths.max() else None)


def _checked(values: Any, input_name: str = "X", **options: Any) -> Floats:
    array: Floats = check_array(
        values, dtype=np.float64, input_name=input_name, ensure_all_finite=False, **options
    )
    if 0 in array.shape:
        raise ValueError(
            f"Found array with 0 feature(s) (shape={array.shape}) while a minimum of 1 is required."
        )
    return array


def _check_finite(series: Series) -> None:
    """Refuse NaN, infinity and values that are too large, and say where the first is."""
    usable = (series.values >= -LARGEST) & (series.values <= LARGEST)  # NaN is neither
    wrong = np.argwhere(~usable)
    if len(wrong):
        sample, step, channel = wrong[0]
        value = series.values[sample, step, channel]
        found = "NaN" if np.isnan(value) else "infinity" if np.isinf(value) else f"{value:g}"
        raise ValueError(
            f"Input X contains {found} in sample {sample}, step {step}, channel {channel}; {len(wrong):,} "
            f"of its {series.values.size:,} values are not numbers up to {LARGEST:g}. Fill the gaps, or "
            "leave these samples out; pass series that end early as a list of arrays of different length."
        )


def check_size(name: str, values: Floats) -> None:
    """Refuse finite values beyond `LARGEST`."""
    largest = np.abs(values).max()
    if largest > LARGEST:
        raise InputError(f"{name} must lie within -{LARGEST:g} and {LARGEST:g}, got {largest:g}.")


def _check_channels(estimator: Any, series: Series, reset: bool) -> None:
    name = type(estimator).__name__
    if reset:
        if len(series) < 2:
            raise ValueError(
                f"Found array with 1 sample(s) (shape={series.values.shape}) while a minimum of 2 is "
                f"required by {name}."
            )
        estimator.n_features_in_ = series.channels
        estimator.reads_features_ = False
        vars(estimator).pop("feature_names_in_", None)  # of an earlier fit to a table
        return
    expected = 1 if estimator.reads_features_ else estimator.n_features_in_
    if series.channels != expected:
        turned = series.lengths is None and series.values.shape[1] == expected
        raise ValueError(
            f"X has {series.channels} channels, but {name} is expecting {expected} channels as input."
            + (f" {TURN}" if turned else "")
        )


@dataclass(frozen=True, eq=False)
class Scaling:
    """The network's input is v = (x - offset) / scale, channel by channel.

    A channel with a `knee` enters as `compress(x, knee)` in place of x.
    A device reads raw codes r with x = r `unit`, chosen by `raw_unit`; None if no unit suits every channel.
    `offset` is a whole number of units, so the integer network subtracts exactly what the float one does.
    """

    offset: Floats
    scale: Floats
    unit: float | None
    knee: Floats | None = None  # (channels,), 0 where a channel is not compressed; None: nowhere

    @classmethod
    def of(cls, series: Series, weights: Floats) -> Scaling:
        """Return the standardisation of these series; `weights` `(n,)` says how often each counts."""
        steps = series.steps()
        counts = np.repeat(weights, series.steps_each())
        scaler = StandardScaler().fit(steps, sample_weight=counts)
        knee = _knees(series, weights, scaler.var_)
        details = np.where(knee > 0, knee, np.sqrt(scaler.var_))
        unit = raw_unit(torch.tensor(steps), details=torch.from_numpy(details))
        if not knee.any():
            offset = scaler.mean_ if unit is None else np.rint(scaler.mean_ / unit) * unit
            return cls(offset, scaler.scale_, unit)
        scaler.fit(_compressed(steps, knee), sample_weight=counts)
        step = np.where(knee > 0, 2.0**-OCTAVE_BITS, unit or 1.0)
        return cls(np.rint(scaler.mean_ / step) * step, scaler.scale_, unit, knee)

    def split(self, series: Series, dtype: Any) -> Split:
        """Return the network's inputs."""
        with np.errstate(over="ignore"):  # values beyond float32 are far from all training data
            values = series.values if self.knee is None else _compressed(series.values, self.knee)
            x = ((values - self.offset) / self.scale).astype(dtype)
        lengths = None if series.lengths is None else torch.from_numpy(series.lengths)
        return Split(torch.from_numpy(x), None, lengths)

    def raw_inputs(self, unit: float | None = None) -> RawInputs:
        """Return the meaning of raw codes of `unit`, by default the data's own."""
        return RawInputs.standardised(self.offset, self.scale, self.unit if unit is None else unit, self.knee)


def _knees(series: Series, weights: Floats, variance: Floats) -> Floats:
    """Return the knee of each channel that is to be compressed, a power of two; 0 for the others.

    Those are channels whose series differ in size by orders of magnitude: at a scale that fits the largest,
    the median one would vanish, in integers for good. The knee lies where the smallest series are.
    """
    steps = np.maximum(series.steps_each(), 1)[:, None]
    sizes = np.sqrt(np.square(series.values).sum(1) / steps)  # padding is zero
    knees = np.zeros(series.channels)
    for channel, deviation in enumerate(np.sqrt(variance)):
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
    """Return the values, channels last, with those of channels that have a knee compressed."""
    return np.where(knee > 0, compress(values, np.where(knee > 0, knee, 1.0)), values)


def rows_of_frame(X: Any) -> list[Any] | None:
    """Return the series of a frame that holds channels in columns, else None.

    Nested: a row is a sample, and a cell its series. Multi-index: a row is a step, the last level of the
    index its time, the levels before it the sample. Samples come in the order of their first row.
    """
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return None
    if getattr(getattr(X, "index", None), "nlevels", 1) > 1:
        samples = X.groupby(level=list(range(X.index.nlevels - 1)), sort=False)
        return [table.sort_index(level=-1, kind="stable").to_numpy() for _, table in samples]
    if 0 in X.shape or not all(map(_is_series, np.asarray(X[:1], dtype=object)[0])):
        return None
    return _rows_of_cells(np.asarray(X, dtype=object))


def _is_series(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes)


def _rows_of_cells(samples: NDArray[Any]) -> list[Any]:
    """Return the samples, a row of cells each; the channels of one sample have one length."""
    rows = []
    for sample, cells in enumerate(samples):
        lengths = {len(cell) if _is_series(cell) else 0 for cell in cells}
        if len(lengths) > 1:
            raise ValueError(
                f"The channels of a sample must have one length, got {sorted(lengths)} in row {sample} of X."
            )
        rows.append(np.stack([np.asarray(cell) for cell in cells], axis=-1))
    return rows
