"""Read the user's X, y and weights as series and samples, or X as recordings.

Start at `read_series`, and at `read_streams` for recordings, whose rows are samples.

Data frames of pandas, polars and sktime become `(time, channels)` tables; a wide frame of numbers,
`(n, features)`, is read as in scikit-learn.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_array, column_or_1d
from sklearn.utils.validation import _check_sample_weight, validate_data

from hadamrnn.errors import InputError
from hadamrnn.estimators.series import Floats, Samples, Series, numbered

LARGEST = 1e100  # limit on X and y, so that sums of squares stay within float64
TURN = "It looks like (n, channels, time): pass X.transpose(0, 2, 1)."
TURN_ROWS = "They look like (channels, time): pass [series.T for series in X]."


def read_series(estimator: Any, X: Any, *, reset: bool) -> Series:
    """Return X as series; `reset` sets the estimator's `n_features_in_`, otherwise X must match it.

    An array or wide frame `(n, features)` is one channel with `features` steps, and every later X must have
    the same number. For `(n, time, channels)`, lists of `(time, channels)` arrays, and frames with a column
    for each channel, only the channels must match. An array with more channels than steps might have axes
    `(n, channels, time)`, so a first X like that is refused; a list is unambiguous.
    """
    frame = rows_of_frame(X)
    rows = _as_rows(X) if frame is None else frame
    rank = 3 if rows is not None else getattr(X, "ndim", 2)  # a list that is not rows becomes a table
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
        if frame is not None:  # columns are channels, so store their names
            validate_data(estimator, X, reset=reset, skip_check_array=True)
    _check_finite(series)
    return series


def read_samples(series: Series, known: NDArray[Any], sample_weight: Any, groups: Any = None) -> Samples:
    """Return the distinct samples with positive weight; without `sample_weight`, each has weight 1.

    Groups that share a series are merged; at least two groups must have positive weight.
    """
    owners = None if groups is None else _owners(groups, len(series))
    weights = np.ones(len(series))
    if sample_weight is not None:
        weights = _check_sample_weight(
            sample_weight, series.values, dtype=np.float64, ensure_non_negative=True
        )
        counted = np.flatnonzero(weights)
        if len(counted) == 0:
            raise ValueError("sample_weight must be positive for at least one sample, got zeros only.")
        series, known, weights = series.at(counted), known[counted], weights[counted]
        owners = None if owners is None else owners[counted]
    samples = Samples.of(series, known, weights, owners)
    if samples.owners is not None and len(np.unique(samples.owners)) < 2:
        raise InputError(
            "groups must name the source of each sample, and at least 2 groups must have samples of positive "
            "weight and no series in common, got 1."
        )
    return samples


def _owners(groups: Any, count: int) -> NDArray[np.int64]:
    """Return the group number of each of the `count` samples."""
    owners = numbered(column_or_1d(groups).tolist())
    if len(owners) != count:
        raise InputError(
            f"groups must name the source of each of the {count} samples, got {len(owners)} entries."
        )
    return owners


def _from_table(estimator: Any, X: Any, rank: int, reset: bool) -> Series:
    if not reset and not estimator.reads_features_:
        return _one_channel(estimator, X, rank)
    minimum = 2 if reset else 1
    array = validate_data(
        estimator, X, reset=reset, dtype=np.float64, ensure_min_samples=minimum, ensure_all_finite=False
    )
    if reset:
        estimator.reads_features_ = True
    return Series(array[:, :, None])


def _one_channel(estimator: Any, X: Any, rank: int) -> Series:
    """Return the rows of `(n, time)` as series of one channel."""
    values = _checked(X) if rank == 2 and estimator.n_features_in_ == 1 else None
    if values is None or values.shape[1] == 1:
        raise ValueError(
            f"Expected 3D array, got {rank}D array instead: {type(estimator).__name__} was fitted "
            f"to series of shape (time, {estimator.n_features_in_}). Pass a single series as [X]."
        )
    return Series(values[:, :, None])


def _as_rows(X: Any) -> list[Any] | None:
    """Return the samples of a list of series; None if X is an array or can become one."""
    if not isinstance(X, list | tuple) and not (isinstance(X, np.ndarray) and X.dtype == object):
        return None
    try:
        ranks = [np.ndim(row) for row in X]
    except ValueError:  # ragged: converting it to an array later raises numpy's clear error
        return None
    if ranks and set(ranks) == {2}:
        return list(X)
    ragged = set(ranks) == {1} and len({len(row) for row in X}) > 1
    return list(X) if ragged else None


def _from_rows(rows: list[Any]) -> Series:
    """Pad series of different lengths, each `(time, channels)` or `(time,)`, with zeros."""
    arrays = [_checked(row, ensure_2d=False, input_name=f"X[{i}]") for i, row in enumerate(rows)]
    arrays = [array[:, None] if array.ndim == 1 else array for array in arrays]
    channels = {array.shape[1] for array in arrays}
    if len(channels) > 1:
        turned = len({len(array) for array in arrays}) == 1
        raise ValueError(
            f"All series must have the same number of channels, got {sorted(channels)}."
            + (f" {TURN_ROWS}" if turned else "")
        )
    return as_series(arrays)


def as_series(arrays: list[Floats]) -> Series:
    """Return arrays `(time, channels)` as series, shorter ones padded with zeros at their end."""
    lengths = np.array([len(each) for each in arrays])
    values = np.zeros((len(arrays), lengths.max(), arrays[0].shape[1]))
    for row, each in zip(values, arrays, strict=True):
        row[: len(each)] = each
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
    """Refuse NaN, infinity and too large values, naming the position of the first."""
    usable = (series.values >= -LARGEST) & (series.values <= LARGEST)  # false for NaN
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
        vars(estimator).pop("feature_names_in_", None)  # left by an earlier fit to a table
        return
    expected = 1 if estimator.reads_features_ else estimator.n_features_in_
    if series.channels != expected:
        turned = series.lengths is None and series.values.shape[1] == expected
        raise ValueError(
            f"X has {series.channels} channels, but {name} is expecting {expected} channels as input."
            + (f" {TURN}" if turned else "")
        )


def rows_of_frame(X: Any) -> list[Any] | None:
    """Return the series in a data frame with channels in columns; None for other input.

    In a nested frame a row is a sample and each cell a series. With a multi-index a row is a step; the last
    index level is its time and the levels before it identify the sample. Samples keep the order of their
    rows.
    """
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return None
    if _has_steps(X):
        samples = _sample_ids(X)
        starts = np.flatnonzero(samples[1:] != samples[:-1]) + 1
        tables = [X.iloc[rows] for rows in np.split(np.arange(len(X)), starts)]
        return [table.sort_index(level=-1, kind="stable").to_numpy() for table in tables]
    if 0 in X.shape or not all(map(_is_series, np.asarray(X[:1], dtype=object)[0])):
        return None
    return _rows_of_cells(np.asarray(X, dtype=object))


def align(X: Any, y: Any) -> Any:
    """Return y, or weights, in the order of the samples of X.

    If X is a frame with an index of samples and steps and y has an index of samples, they are matched by
    index. The default index 0, 1, ... of a y is ignored if the samples have other names. Otherwise y is
    returned unchanged.
    """
    index: Any = getattr(y, "index", None)
    if not _has_steps(X) or not hasattr(index, "get_indexer"):
        return y
    samples = _sample_ids(X).unique()
    if len(index) == len(samples) and index.is_unique and samples.isin(index).all():
        return y.iloc[index.get_indexer(samples)]
    if list(index) == list(range(len(index))):
        return y
    raise InputError(
        "y and weights must have the index of X's samples, each once, or no index: "
        f"got {len(index)} entries for {len(samples)} samples."
    )


def _has_steps(X: Any) -> bool:
    """Return whether X is a frame whose index names samples and steps."""
    return hasattr(X, "columns") and getattr(getattr(X, "index", None), "nlevels", 1) > 1


def _sample_ids(X: Any) -> Any:
    """Return the sample of each row of a frame, as an index; rows of a sample must be consecutive."""
    if any(X.index.get_level_values(level).isna().any() for level in range(X.index.nlevels)):
        raise InputError("The index of X must name the sample and the step of every row, got a missing one.")
    samples = X.index.droplevel(-1)
    changes = 1 + np.count_nonzero(samples[1:] != samples[:-1])
    if len(X) and changes > len(samples.unique()):
        raise InputError(
            "The rows of a sample must be consecutive in X: its samples would have no order otherwise. "
            "Sort them, as by X.sort_index(), and pass a y with the index of the samples."
        )
    return samples


def _is_series(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes)


def _rows_of_cells(samples: NDArray[Any]) -> list[Any]:
    """Return the samples, each from one row of cells, whose channels must have the same length."""
    rows = []
    for sample, cells in enumerate(samples):
        lengths = {len(cell) if _is_series(cell) else 0 for cell in cells}
        if len(lengths) > 1:
            raise ValueError(
                f"The channels of a sample must have one length, got {sorted(lengths)} in row {sample} of X."
            )
        rows.append(np.stack([np.asarray(cell) for cell in cells], axis=-1))
    return rows


def read_streams(estimator: Any, X: Any, *, reset: bool) -> list[Floats]:
    """Return X as recordings: one array or frame, a list of arrays, or `(n, time, channels)`.

    `reset` sets the estimator's `n_features_in_`, the number of channels; otherwise X must match it.
    """
    several = isinstance(X, list | tuple) and bool(X) and all(np.ndim(each) == 2 for each in X)
    if not several and getattr(X, "ndim", 2) != 3:
        least = 2 if reset else 1
        found = [validate_data(estimator, X, reset=reset, dtype=np.float64, ensure_min_samples=least)]
    else:
        found = [check_array(each, dtype=np.float64) for each in X]
        for index, each in enumerate(found):
            validate_data(estimator, each, reset=reset and index == 0)
        if reset and sum(map(len, found)) < 2:
            raise InputError("A fit needs 2 samples or more, got 1 sample.")
    for each in found:
        check_size("X", each)
    return found
