"""Recordings as tables: CSV and parquet files, a folder of them, a long array in an npz file, a data frame.

A `Recording` has named columns of one length, a row a time step. Cells stay as they were read until somebody
asks for `numbers` or `texts`, so that a label "07" keeps its zero. Start at `read_tables`.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.data.npz import GROUP_NAMES, read_npz
from hadamrnn.errors import InputError, short
from hadamrnn.files import check_regular, one_line, read_regular

MAX_BYTES = 1 << 32
DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
SUFFIXES = (*DELIMITERS, ".parquet")
# Cells without a value, whatever their case.
MISSING = ("", "nan", "none", "null", "na", "n/a", "<na>", "nat")


@dataclass(frozen=True, eq=False)
class Recording:
    """One recording.

    Args:
        path: where it was read; its name and its folder's name can be labels.
        columns: name -> cells `(time,)`, texts or numbers.
    """

    path: Path
    columns: dict[str, NDArray[Any]]

    def __len__(self) -> int:
        return len(next(iter(self.columns.values())))

    def column(self, name: str) -> NDArray[Any]:
        if name not in self.columns:
            raise InputError(f"{self.path} has no column {short(name)}. It has {listed(self.columns)}.")
        return self.columns[name]

    def first(self, name: str) -> Any:
        """Return the first cell of a column that is not missing, None if all are."""
        return next((cell for cell in self.column(name) if _text(cell).lower() not in MISSING), None)

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as finite numbers `(time,)`.

        >>> Recording(Path("a.csv"), {"x": np.array(["1", "two"])}).numbers("x")
        Traceback (most recent call last):
        hadamrnn.errors.InputError: a.csv: column 'x' must hold numbers, got 'two' in row 2. ...
        """
        cells = self.column(name)
        values = np.full(len(cells), np.nan)
        if cells.dtype.kind not in "cmM":  # astype would cut complex numbers, and count times
            try:
                values = cells.astype(np.float64)
            except (ValueError, TypeError):
                values = np.array([as_number(cell) for cell in cells])
        wrong = np.flatnonzero(~(np.abs(values) <= np.finfo(np.float32).max))
        if len(wrong):
            cell = cells[wrong[0]]
            raise InputError(
                f"{self.path}: column {short(name)} must hold numbers, got {short(_plain(cell))} in row "
                f"{wrong[0] + 1}. Correct the cell, or name other columns with --columns."
            )
        return values

    def texts(self, name: str) -> NDArray[np.str_]:
        """Return a column of labels as texts `(time,)`, none of them missing; 3.0 is the label 3."""
        cells = self.column(name)
        if cells.dtype.kind == "f" and (np.abs(cells) < 1 << 53).all() and (cells == np.rint(cells)).all():
            cells = cells.astype(np.int64)
        texts = np.array([_text(cell) for cell in cells])
        for row in np.flatnonzero(np.isin(np.char.lower(texts), MISSING))[:1]:
            raise InputError(
                f"{self.path}: every row needs a value of {short(name)}, got none in row {row + 1}. "
                "Fill it in, or leave the row out of the file."
            )
        return texts


def read_tables(source: str | Path | Mapping[str, Any] | Any) -> list[Recording]:
    """Return the recordings of a file, of a folder and the folders in it, or of a data frame."""
    if not isinstance(source, (str, Path)):
        return [_from_frame(source)]
    path = Path(source)
    if not path.is_dir():
        return [read_table(path)]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"A folder of recordings must hold {', '.join(SUFFIXES)} files, {path} holds none.")
    return [read_table(file) for file in files]


def read_table(path: Path) -> Recording:
    """Return one recording, read as its file name ends."""
    kind = path.suffix.lower()
    if kind == ".npz":
        return _from_arrays(path)
    if kind not in SUFFIXES:
        raise InputError(f"A recording is a file {', '.join(SUFFIXES)} or .npz, or a folder, got {path}.")
    table = _read_parquet(path) if kind == ".parquet" else _read_csv(path, DELIMITERS[kind])
    if not table.columns or not len(table):
        raise InputError(f"{path} must hold rows below its header, got none.")
    return table


def listed(names: Any) -> str:
    """Return names for a line: all, or the first ones and how many there are."""
    known = [one_line(name) for name in names]
    return ", ".join(known) if len(known) <= 12 else f"{', '.join(known[:10])} and {len(known) - 10} more"


def _read_csv(path: Path, delimiters: str) -> Recording:
    try:
        text = read_regular(path, MAX_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path} must be text in UTF-8: {one_line(error)}. Save it as UTF-8.") from error
    first = text.partition("\n")[0]
    delimiter = max(delimiters, key=first.count)
    try:
        header, *rows = [row for row in csv.reader(io.StringIO(text), delimiter=delimiter) if row] or [[]]
    except csv.Error as error:
        raise InputError(f"{path} is not a readable CSV file: {one_line(error)}. Write it again.") from error
    names = [name.strip() for name in header]
    if names and all(np.isfinite(as_number(name)) for name in names):
        raise InputError(f"The first line of {path} must name the columns, got numbers. Add a header line.")
    _check_different(names, path)
    for number, row in enumerate(rows, start=1):
        if len(row) != len(names):
            raise InputError(
                f"{path}: every row needs {len(names)} cells, as the header has, got {len(row)} in row "
                f"{number}."
            )
    cells = zip(*rows, strict=True) if rows else ([] for _ in names)
    return Recording(path, {name: np.array(column) for name, column in zip(names, cells, strict=True)})


def _read_parquet(path: Path) -> Recording:
    check_regular(path, MAX_BYTES)
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise InputError(f"Parquet files need {error.name}: pip install 'hadamrnn[parquet]'.") from error
    try:
        table = pyarrow.parquet.read_table(path)
        return Recording(path, {name: table[name].to_numpy() for name in table.column_names})
    except Exception as error:  # pyarrow raises errors of its own, and those of its decoders
        raise InputError(
            f"{path} is not a readable parquet file: {one_line(error)}. Write it again."
        ) from error


def _from_frame(frame: Any) -> Recording:
    """Return a data frame (pandas, polars) or a mapping of names to arrays as a table."""
    path = Path("the frame")
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise InputError(
            f"Recordings are a file, a folder, a data frame or named arrays, got {short(frame)}."
        )
    names = list(getattr(frame, "columns", frame))
    _check_different([str(name) for name in names], path)
    try:
        columns = {str(name): np.asarray(frame[name]) for name in names}
    except (ValueError, TypeError, KeyError):  # rows of different lengths; a frame of another kind
        columns = {}
    shapes = {cells.shape for cells in columns.values()}
    if len(shapes) != 1 or len(min(shapes)) != 1 or (0,) in shapes:
        raise InputError("A frame needs columns of one length, a row for each time step, one at least.")
    return Recording(path, columns)


def _check_different(names: list[str], path: Path) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise InputError(
                f"Columns must have different names, got {short(name)} twice in {path}. Rename one."
            )


def _from_arrays(path: Path) -> Recording:
    """Return one long array: x `(time, channels)` or `(time,)`, with y and groups `(time,)`."""
    arrays = read_npz(path)
    x = arrays.get("x")
    if x is None or x.ndim not in (1, 2) or 0 in x.shape:
        raise InputError(
            f"One long recording is an array x (time, channels), got {None if x is None else x.shape} in "
            f"{path}. Windows that are cut already need no --window."
        )
    channels = x.reshape(len(x), -1)
    columns: dict[str, NDArray[Any]] = {f"x{index}": channel for index, channel in enumerate(channels.T)}
    for name in ("y", *GROUP_NAMES):
        if name in arrays:
            if arrays[name].shape != (len(x),):
                raise InputError(
                    f"{name} must have one entry for each of the {len(x)} rows of x, got "
                    f"{arrays[name].shape} in {path}."
                )
            columns[name] = arrays[name]
    return Recording(path, columns)


def as_number(cell: Any) -> float:
    """Return the number that a cell holds, NaN if none."""
    try:
        return float("nan") if np.ndim(cell) or np.iscomplexobj(cell) else float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _text(cell: Any) -> str:
    return str(_plain(cell)).strip()


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell
