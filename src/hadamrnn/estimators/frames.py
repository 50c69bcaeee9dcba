"""Data frames of series: `(time, channels)` tables from what pandas, polars and sktime's users hold.

A wide frame, `(n, features)` of numbers, is a table as scikit-learn reads it and not treated here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Rows = list[Any]


def rows_of_frame(X: Any) -> Rows | None:
    """Return the series of a frame that holds channels in columns, else None.

    Nested: a row is a sample, and a cell its series. Multi-index: a row is a step, the last level of the
    index its time, the levels before it the sample. Samples come in the order of their first row.
    """
    if not hasattr(X, "columns") or not hasattr(X, "shape"):
        return None
    if getattr(getattr(X, "index", None), "nlevels", 1) > 1:
        return _rows_of_index(X)
    if 0 in X.shape or not all(_is_series(X[name].to_list()[0]) for name in X.columns):
        return None
    return _rows_of_cells([X[name].to_list() for name in X.columns])


def _rows_of_index(X: Any) -> Rows:
    levels = list(range(X.index.nlevels - 1))
    tables = (table for _, table in X.groupby(level=levels, sort=False))
    return [table.sort_index(level=-1, kind="stable").to_numpy() for table in tables]


def _is_series(cell: Any) -> bool:
    return hasattr(cell, "__len__") and not isinstance(cell, str | bytes)


def _rows_of_cells(channels: list[Sequence[Any]]) -> Rows:
    """Return the samples, a column of cells for each channel; the channels of one sample have one length."""
    rows = []
    for sample, cells in enumerate(zip(*channels, strict=True)):
        lengths = {len(cell) if _is_series(cell) else 0 for cell in cells}
        if len(lengths) > 1:
            raise ValueError(
                f"The channels of a sample must have one length, got {sorted(lengths)} in row {sample} of X."
            )
        rows.append(np.stack([np.asarray(cell) for cell in cells], axis=-1))
    return rows
