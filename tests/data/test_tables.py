"""Files and frames become columns of one length, or are refused in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hadamrnn import InputError, read_recordings
from hadamrnn.data.tables import Recording, read_tables


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("log.csv", b"", "must hold rows below its header"),
        ("log.csv", b"a,label\n", "must hold rows below its header"),
        ("log.csv", b"a,label\n1,sit\n1\n", "every row needs a value of 'label', got none in row 2"),
        ("log.csv", b"a,a\n1,2\n", "different names, got 'a' twice"),
        ("log.csv", b"a,label\n\xff,sit\n", "not a readable CSV file in UTF-8"),
        ("log.csv", b'a,"' + b"x" * 200_000, "not a readable CSV file"),
        ("log.csv", b'"a\nb",c\nx,y\n', "Recordings need labels: name a column with --label .a b, c in"),
        ("log.parquet", b"no", "not a readable parquet file"),
        ("log.xlsx", b"", "A recording is a file .csv"),
        ("folder/log.txt", b"", "A folder of recordings must hold"),
    ],
)
def test_files_that_are_no_table_are_refused_in_one_line(
    name: str, content: bytes, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        read_recordings(path.parent if name.startswith("folder") else path)
    assert "\n" not in str(error.value)


def test_parquet_without_its_package_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow.parquet", None)
    (tmp_path / "log.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"pip install 'hadamrnn\[parquet\]'"):
        read_recordings(tmp_path / "log.parquet")


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (None, "a data frame or named arrays, got None"),
        (np.zeros((5, 2)), "a data frame or named arrays, got array"),
        ([1, 2], "a data frame or named arrays, got"),
        ({}, "columns of one length"),
        ({"x": [], "y": []}, "columns of one length"),
        ({"x": 3}, "columns of one length"),
        ({"x": [1, 2], "y": [1]}, "columns of one length"),
        ({"x": [[1], [1, 2]], "y": [1, 2]}, "columns of one length"),
        ({"x": np.zeros((2, 2)), "y": np.zeros((2, 2))}, "columns of one length"),
        ({1: [1, 2], "1": [3, 4]}, "different names, got '1' twice in the frame"),
    ],
)
def test_frames_that_are_no_table_are_refused_in_one_line(frame: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        read_tables(frame)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "cells",
    [
        np.array([1 + 1j, 2]),
        np.array([1, 2], "datetime64[s]"),
        np.array([1, 2], "timedelta64[s]"),
        np.array([1, 1e39]),
        np.array(["1", "inf"]),
    ],
)
def test_only_finite_numbers_are_numbers(cells: np.ndarray[Any, Any]) -> None:
    with pytest.raises(InputError, match="column 'x' must hold numbers, got"):
        Recording(Path("a.csv"), pd.DataFrame({"x": cells})).numbers("x")


def test_a_label_keeps_its_text_but_for_the_point_of_a_whole_number() -> None:
    def texts(*cells: object) -> list[str]:
        return list(Recording(Path("a.csv"), pd.DataFrame({"y": np.array(cells)})).texts("y").tolist())

    assert texts("07", " up ") == ["07", "up"]
    assert texts(3.0, -1.0) == ["3", "-1"]
    assert texts(1e30, 2e30) == ["1e+30", "2e+30"]  # beyond what an int64 holds


@pytest.mark.parametrize("missing", ["", " NaN", "NaT", "<NA>", "None", "none"])
def test_a_missing_label_is_no_class(missing: str) -> None:
    with pytest.raises(InputError, match=r"needs a value of 'y', got .*none,? in row 2"):
        Recording(Path("a.csv"), pd.DataFrame({"y": np.array(["up", missing])})).texts("y")


def test_a_parquet_column_of_lists_is_no_channel(tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    lists: list[list[list[int]]] = [[[1, 2], [3], [4]], [[1], [2], [3]], [[1, 2], [3, 4], [5, 6]]]
    for cells in lists:
        table = pyarrow.table({"list": cells, "value": [1.0, 3.0, 2.0], "label": ["up"] * 3})
        pyarrow.parquet.write_table(table, tmp_path / "log.parquet")
        assert read_recordings(tmp_path / "log.parquet", window=2).columns == ("value",)
