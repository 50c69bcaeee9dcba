"""Read recordings as tables: CSV, parquet and WAV files, long arrays in npz files, folders, data frames.

Each row is a time step. pandas reads text columns, labels and groups as categories, so that a label "07"
keeps its zero. Start at `read_tables`.
"""

from __future__ import annotations

import os
import re
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from hadamrnn.data.audio import read_wav, resampled
from hadamrnn.data.labels import canonical_label, check_label
from hadamrnn.data.npz import FLOAT32_MAX, GROUP_NAMES, check_array, read_npz
from hadamrnn.errors import InputError, missing_package, short
from hadamrnn.files import check_regular, one_line, unreadable

MAX_BYTES = 1 << 32
MOST_FORMS = 10  # most remarks to show
DELIMITERS = {".csv": ",;\t", ".tsv": "\t"}
SOUND = ".wav"
SUFFIXES = (*DELIMITERS, ".npz", ".parquet", SOUND)
EXACT = 1 << 24  # float32 represents all integers up to this one
SAMPLE_ROWS = 1000  # rows to examine for decimal commas, text columns and a missing header
MISSING = ("", "nan", "none", "null", "na", "n/a", "<na>", "nat")  # cells without a value, case-insensitive


@dataclass(frozen=True, eq=False)
class Recording:
    """One recording: `path`, whose name and folder can be labels, and `frame`, with one row per time step.

    `form` says how a file was read if it is not plain CSV, `rate` is a sound's sample rate per second, and
    `folder` is the label that the file's folder stands for.
    """

    path: Path
    frame: pd.DataFrame
    form: str = ""
    rate: int | None = None
    folder: str = ""

    def __len__(self) -> int:
        return len(self.frame)

    @property
    def names(self) -> list[str]:
        return list(self.frame.columns)

    def column(self, name: str) -> pd.Series[Any]:
        if name not in self.frame:
            raise InputError(f"{self.path} has no column {short(name)}. It has {listed(self.names)}.")
        return self.frame[name]

    def is_numeric(self, name: str) -> bool:
        """Return whether the first cell with a value is a number."""
        cells = self.column(name)
        if cells.dtype.kind != "O":
            return cells.dtype.kind in "fiub" and bool(cells.notna().any())
        first = cells.first_valid_index()
        return first is not None and bool(np.isfinite(as_number(cells.loc[first])))

    def numbers(self, name: str) -> NDArray[np.float64]:
        """Return a column as finite numbers `(time,)`.

        >>> Recording(Path("a.csv"), pd.DataFrame({"x": ["1", "two"]})).numbers("x")
        Traceback (most recent call last):
        hadamrnn.errors.InputError: a.csv: column 'x' must hold numbers, got 'two' in row 2 below the ...
        """
        cells = self.column(name)
        if cells.dtype.kind in "fiub":
            values = cells.to_numpy(np.float64, na_value=np.nan)
        elif cells.dtype.kind == "O":
            values = np.array([as_number(cell) for cell in cells], np.float64)
        else:  # complex numbers, times and dates cannot be channels
            values = np.full(len(cells), np.nan)
        wrong = np.flatnonzero(~(np.abs(values) <= FLOAT32_MAX))
        if len(wrong):
            cell = cells.iloc[wrong[0]]
            got = "no value" if pd.api.types.is_scalar(cell) and pd.isna(cell) else short(_plain(cell))
            raise InputError(
                f"{self.path}: column {short(name)} must hold numbers, got {got} in row {wrong[0] + 1} below "
                "the header. Correct the cell, or name other columns with --columns."
            )
        return values

    def channels(self, names: Sequence[str]) -> NDArray[Any]:
        """Return columns `(time, channels)`, float32 if that is exact for whole numbers, else float64."""
        codes = all(
            self.column(name).dtype.kind in "iub" and abs(self.column(name)).max() <= EXACT for name in names
        )
        values = np.empty((len(self), len(names)), np.float32 if codes else np.float64)
        for channel, name in enumerate(names):
            values[:, channel] = self.numbers(name)
        return values

    def texts(self, name: str) -> NDArray[np.object_]:
        """Return a label column as texts `(time,)`, refusing missing values; 3.0 becomes the label 3."""
        cells = self.column(name)
        codes, found = pd.factorize(cells.astype(object) if cells.dtype.kind == "O" else cells)
        texts = np.array([canonical_label(_plain(cell)) for cell in found] or [""], object)
        missing = [number for number, text in enumerate(texts) if text.lower() in MISSING]
        unknown = np.isin(codes, [-1, *missing])
        for row in np.flatnonzero(unknown)[:1]:
            word = "" if codes[row] < 0 else texts[codes[row]]
            got, advice = (
                (f"{word!r}, which means none,", "Rename the class") if word else ("none", "Fill it in")
            )
            raise InputError(
                f"{self.path}: every row needs a value of {short(name)}, got {got} in row {row + 1} below "
                f"the header. {advice}, or leave the row out of the file."
            )
        for text in texts:
            check_label(text, self.path)
        labels: NDArray[np.object_] = texts[codes]
        return labels


def read_tables(
    source: str | Path | Mapping[str, Any] | Any, labels: Collection[str] = (), rate: int | None = None
) -> list[Recording]:
    """Return the recordings in a file, in a folder and its subfolders, or in a data frame.

    `labels` are the columns to read as text whatever they contain, matched case-insensitively. Sound is
    resampled to `rate`.
    """
    if not isinstance(source, (str, Path)):
        return [_from_frame(source)]
    path = Path(source)
    if not path.is_dir():
        return [replace(_read_file(path, labels, rate), folder=path.resolve().parent.name)]
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in SUFFIXES)
    if not files:
        raise InputError(f"A folder of recordings must hold {', '.join(SUFFIXES)} files, {path} holds none.")
    called = folder_labels([file.resolve().parent for file in files])
    tables = [_read_file(file, labels, rate) for file in files]
    return [replace(table, folder=label) for table, label in zip(tables, called, strict=True)]


def folder_labels(folders: Sequence[Path]) -> list[str]:
    """Return each file's label: the first component in which the folders of the files differ.

    >>> folder_labels([Path("/data/fan/monday"), Path("/data/fan/friday"), Path("/data/pump")])
    ['fan', 'fan', 'pump']
    """
    common = Path(os.path.commonpath(folders))
    return [(*folder.relative_to(common).parts, common.name)[0] for folder in folders]


def _read_file(path: Path, labels: Collection[str], rate: int | None) -> Recording:
    """Return one recording, read according to its file extension."""
    kind = path.suffix.lower()
    if rate is not None and kind != SOUND:
        raise InputError(f"--resample is for WAV files, got {path}. Resample it before, or leave it out.")
    if kind == ".npz":
        return _from_arrays(path)
    if kind not in SUFFIXES:
        raise InputError(f"A recording is a file {', '.join(SUFFIXES)}, or a folder, got {path}.")
    check_regular(path, MAX_BYTES)
    if kind == SOUND:
        sound = read_wav(path)
        sound = sound if rate is None else resampled(sound, rate)
        return Recording(path, pd.DataFrame({"sound": sound.samples}), "; ".join(sound.remarks), sound.rate)
    table = _read_parquet(path) if kind == ".parquet" else _read_csv(path, DELIMITERS[kind], labels)
    if not table.names or not len(table):
        raise InputError(f"{path} must hold rows below its header, got none.")
    return table


def listed(names: Iterable[object]) -> str:
    """List names as text: all of them, or the first few and the total number."""
    known = [one_line(name) for name in names]
    return ", ".join(known) if len(known) <= 12 else f"{', '.join(known[:10])} and {len(known) - 10} more"


def file_remarks(tables: list[Recording]) -> list[str]:
    """Return each remark on files once, with the files' names unless it applies to all files."""
    files: dict[str, list[Path]] = {}
    for table in tables:
        if table.form:
            files.setdefault(table.form, []).append(Path(*table.path.parts[-2:]))
    forms = [
        form if len(paths) == len(tables) else f"{listed(paths)}: {form}"
        for form, paths in sorted(files.items())
    ]
    return forms if len(forms) <= MOST_FORMS else [*forms[:MOST_FORMS], f"and {len(forms) - MOST_FORMS} more"]


def _read_csv(path: Path, delimiters: str, labels: Collection[str]) -> Recording:
    """Read a text file, whose first rows determine separators, decimal commas and text columns."""
    with path.open("rb") as file:
        first = file.readline(1 << 20)
    delimiter = max(delimiters, key=lambda each: first.count(each.encode()))
    layout: dict[str, Any] = {"sep": delimiter, "encoding": "utf-8-sig", "skipinitialspace": True}
    cells = _parse(path, **layout, header=None, nrows=1 + SAMPLE_ROWS, dtype=str, keep_default_na=False)
    names = [name.strip() for name in cells.iloc[0]] if len(cells) else []
    sample = cells.iloc[1:].set_axis(names, axis=1)
    _check_different(names, path)
    _check_header(names, sample, path)
    number = r"[+-]?\d+,\d+"
    commas = [
        name for name in names if delimiter != "," and sample[name].str.strip().str.fullmatch(number).any()
    ]
    decimal = "," if commas else "."
    kinds = {
        name: "category"
        for name in names
        if name in labels or name.lower() in labels or _is_text(sample[name], decimal)
    }
    frame = _parse(
        path,
        **layout,
        header=0,
        names=names,
        decimal=decimal,
        dtype=kinds,
        index_col=False,
        float_precision="round_trip",
    )
    for name in commas:
        if name not in kinds and frame[name].dtype.kind == "O":
            _check_decimal_commas(frame[name], path)
    called = {",": "", ";": "semicolons between cells", "\t": "tabs between cells"}[delimiter]
    return Recording(path, frame, ", ".join(filter(None, [called, "decimal commas" if commas else ""])))


def _parse(path: Path, **layout: Any) -> pd.DataFrame:
    """Call `pandas.read_csv`; report its errors and warnings in one line."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", pd.errors.ParserWarning)  # pandas would drop cells
            warnings.simplefilter("ignore", pd.errors.DtypeWarning)  # `numbers` reports the cell
            frame: pd.DataFrame = pd.read_csv(path, **layout)
            return frame
    except pd.errors.EmptyDataError:
        return pd.DataFrame()
    except pd.errors.ParserWarning as error:
        raise InputError(f"{path}: every row needs as many cells as the header, got more.") from error
    except (ValueError, OverflowError) as error:
        raise unreadable(path, "CSV file in UTF-8", error) from error


def _is_text(cells: pd.Series[str], decimal: str) -> bool:
    """Return whether the first cell with a value is not a number."""
    first = next((cell for cell in cells if cell.strip().lower() not in MISSING), "0")
    return not np.isfinite(as_number(first.replace(decimal, ".")))


def _check_decimal_commas(cells: pd.Series[Any], path: Path) -> None:
    """Refuse a column with decimal commas if any cell is not a number; name the first such cell."""
    for row, cell in enumerate(cells):
        if isinstance(cell, str) and np.isnan(as_number(cell.replace(".", "?").replace(",", "."))):
            raise InputError(
                f"{path}: column {short(cells.name)} must hold numbers with decimal commas, as in its first "
                f"rows, got {short(cell)} in row {row + 1} below the header. Correct the cell."
            )


def _check_header(names: list[str], sample: pd.DataFrame, path: Path) -> None:
    """Refuse a first line of values: fractions, whole numbers that do not rise, or a repeated label."""
    numbers = [name for name in names if np.isfinite(as_number(name.replace(",", ".")))]
    whole = [int(name) for name in numbers if re.fullmatch(r"\d{1,18}", name)]
    rising = all(left < right for left, right in pairwise(whole))
    repeated = any((sample[name].str.strip() == name).any() for name in names if name not in numbers)
    if numbers and (len(numbers) == len(names) or len(whole) < len(numbers) or not rising or repeated):
        raise InputError(
            f"The first line of {path} must name the columns, got values: {listed(names)}. Add a header line."
        )


def _read_parquet(path: Path) -> Recording:
    try:
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        raise missing_package("Parquet files", error.name, "parquet") from error
    try:
        return Recording(path, pyarrow.parquet.read_table(path).to_pandas(ignore_metadata=True))
    except Exception as error:  # pyarrow raises its own errors and those of its decoders
        raise unreadable(path, "parquet file", error) from error


def _from_frame(frame: Any) -> Recording:
    """Convert a data frame (pandas, polars) or a mapping of names to arrays to a table."""
    path = Path("the frame")
    if not isinstance(frame, Mapping) and not hasattr(frame, "columns"):
        raise InputError(
            f"Recordings are a file, a folder, a data frame or named arrays, got {short(frame)}."
        )
    names = list(getattr(frame, "columns", frame))
    _check_different([str(name) for name in names], path)
    try:
        columns = {str(name): np.asarray(frame[name]) for name in names}
    except (ValueError, TypeError, KeyError):  # rows of different lengths, or an unsupported frame
        columns = {}
    shapes = {cells.shape for cells in columns.values()}
    if len(shapes) != 1 or len(min(shapes)) != 1 or (0,) in shapes:
        raise InputError("A frame needs columns of one length, a row for each time step, one at least.")
    return Recording(path, pd.DataFrame(columns))


def _check_different(names: list[str], path: Path) -> None:
    for name, count in Counter(names).most_common(1):
        if count > 1:
            raise InputError(
                f"Columns must have different names, got {short(name)} twice in {path}. Rename one."
            )


def _from_arrays(path: Path) -> Recording:
    """Convert one long array to a table: x `(time, channels)` or `(time,)`, with y and groups `(time,)`."""
    arrays = read_npz(path)
    rule, advice = "one recording (time, channels)", " Windows that are cut already need no --window."
    x = check_array("x", arrays.get("x"), path, rule, "fiub", (1, 2), advice=advice)
    channels = x.reshape(len(x), -1)
    columns: dict[str, Any] = {f"x{index}": channel for index, channel in enumerate(channels.T)}
    for name in ("y", *GROUP_NAMES):
        if name in arrays:
            rule = f"one entry for each of the {len(x)} rows of x"
            columns[name] = check_array(name, arrays[name], path, rule, "fiubU", (1,), len(x))
    return Recording(path, pd.DataFrame(columns))


def as_number(cell: Any) -> float:
    """Return the number in a cell, NaN if there is none."""
    try:
        return float("nan") if np.ndim(cell) or np.iscomplexobj(cell) else float(cell)
    except (TypeError, ValueError):
        return float("nan")


def _plain(cell: Any) -> Any:
    return cell.item() if isinstance(cell, np.generic) else cell
