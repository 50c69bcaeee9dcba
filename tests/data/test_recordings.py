"""Recordings become windows of one label, and no row is in two parts."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hadamrnn import InputError, Splits, load_task, read_recordings
from hadamrnn.data.recordings import read_like

Cells = dict[str, list[Any]]


def log(rows: int = 240, run: int = 60, offset: int = 0, person: str = "a") -> Cells:
    """Return a log whose values identify their rows; the label changes every `run` rows."""
    steps = range(offset, offset + rows)
    return {
        "time": [step / 50 for step in steps],
        "value": [step * (-1) ** step for step in steps],  # never rises
        "label": ["walk" if step // run % 2 else "sit" for step in steps],
        "person": [person] * rows,
    }


def write(path: Path, cells: Cells) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [",".join(cells), *(",".join(map(str, row)) for row in zip(*cells.values(), strict=True))]
    path.write_text("\n".join(rows) + "\n")
    return path


def without(cells: Cells, *names: str) -> Cells:
    return {name: column for name, column in cells.items() if name not in names}


def rows_of(splits: Splits) -> list[set[int]]:
    """Return the rows in each part."""
    assert splits.offset is not None and splits.scale is not None
    parts = [part.x * splits.scale + splits.offset for part in (splits.train, splits.validation, splits.test)]
    return [set(part.round().abs().long().flatten().tolist()) for part in parts]


@pytest.mark.parametrize("run", [40, 60, 240, 800])
@pytest.mark.parametrize(("window", "hop"), [(8, 1), (12, 6), (10, 10)])
def test_parts_in_time_share_no_row_and_have_every_class(
    run: int, window: int, hop: int, tmp_path: Path
) -> None:
    path = write(tmp_path / "log.csv", without(log(1600, run), "person"))
    splits = load_task("recordings", path=path, window=window, hop=hop)

    train, validation, test = rows_of(splits)
    assert not train & validation and not train & test and not validation & test
    for part in (splits.train, splits.validation, splits.test):
        assert part.y is not None and set(part.y.tolist()) == {0, 1}
    assert splits.options["group"] == "time" and splits.note == "split in time"
    assert max(test) > 1560  # the end of the last label is for the test


def test_a_window_has_one_label(tmp_path: Path) -> None:
    windows = read_recordings(write(tmp_path / "log.csv", log(run=50)), window=20, hop=3)
    starts, ends = windows.starts, windows.starts + 19

    assert (starts // 50 == ends // 50).all()
    assert windows.y.tolist() == ["walk" if start // 50 % 2 else "sit" for start in starts]
    np.testing.assert_array_equal(np.abs(windows.x[:, :, 0]), starts[:, None] + np.arange(20))


def test_a_window_may_be_as_long_as_the_longest_run(tmp_path: Path) -> None:
    windows = read_recordings(write(tmp_path / "log.csv", log(run=60)), window=60)
    assert windows.starts.tolist() == [0, 60, 120, 180]


def test_no_group_is_in_two_parts(tmp_path: Path) -> None:
    for number in range(9):  # two files per person, so that grouping by file would not suffice
        write(tmp_path / f"{number}.csv", log(offset=1000 * number, person=f"p{number // 2}"))
    splits = load_task("recordings", path=tmp_path, window=30)

    people = [{row // 1000 // 2 for row in part} for part in rows_of(splits)]
    assert [len(part) for part in people] == [3, 1, 1] and len(set.union(*people)) == 5
    assert splits.options["group"] == "person"


def test_files_are_the_groups_where_every_class_is_in_three(tmp_path: Path) -> None:
    for number in range(4):
        write(tmp_path / f"{number}.csv", without(log(offset=1000 * number), "person"))
    splits = load_task("recordings", path=tmp_path, window=30)

    assert splits.options["group"] == "file"
    assert [{row // 1000 for row in part} == {next(iter(part)) // 1000} for part in rows_of(splits)][1:] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("label", "names"),
    [
        ("file", ["sit_0.csv", "sit_1.csv", "walk_0.csv", "walk_1.csv"]),
        ("folder", ["sit/0.csv", "walk/0.csv"]),
    ],
)
def test_a_file_can_be_its_label(label: str, names: list[str], tmp_path: Path) -> None:
    for number, name in enumerate(names):
        write(tmp_path / name, without(log(offset=1000 * number), "label", "person"))
    splits = load_task("recordings", path=tmp_path, label=label, window=10)

    assert splits.class_names == ("sit", "walk") and splits.options["group"] == "time"
    assert splits.train.y is not None and splits.train.y.bincount().tolist() == [len(splits.train) // 2] * 2


def test_folders_within_the_folder_of_a_class_are_of_that_class(tmp_path: Path) -> None:
    names = ["sit/0.csv", "walk/monday/0.csv", "walk/monday/1.csv", "walk/friday/0.csv"]
    for number, name in enumerate(names):
        write(tmp_path / "people" / name, without(log(offset=1000 * number), "label", "person"))

    for path in (tmp_path, tmp_path / "people"):  # a folder that contains all of them is not a class
        windows = read_recordings(path, window=10)
        assert set(zip(windows.files, windows.y, strict=True)) == {
            (str(tmp_path / "people" / name), name.partition("/")[0]) for name in names
        }


def test_a_folder_of_arrays_is_a_folder_of_recordings(tmp_path: Path) -> None:
    values = np.random.default_rng(0).normal(size=(4, 300)).astype(np.float32)
    for number, name in enumerate(("sit_0", "sit_1", "walk_0", "walk_1")):
        np.savez(tmp_path / f"{name}.npz", x=values[number])
    windows = read_recordings(tmp_path, label="file", window=100, hop=100)

    np.testing.assert_array_equal(windows.x[..., 0], values.reshape(12, 100))
    assert windows.y.tolist() == ["sit"] * 6 + ["walk"] * 6


def test_what_is_assumed_is_said_and_kept(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", {**log(2000, 500), "note": ["ok"] * 2000})
    splits = load_task("recordings", path=path, group="time")

    said = "\n".join(splits.assumptions)
    assert "value (assumed; --columns changes it)" in said
    assert "time (a clock)" in said and "note (text)" in said
    assert "column label (assumed; --label changes it): 2 classes, sit, walk" in said
    assert "in time, within every class" in said and "sit 8, walk 8" in said and "128 rows (assumed" in said
    again = load_task("recordings", None, path=path, **splits.options)
    assert torch.equal(again.train.x, splits.train.x) and "assumed" not in "".join(again.assumptions)


def test_every_kind_of_file_and_a_frame_give_the_same_windows(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    cells = without(log(), "time")
    frame = pandas.DataFrame(cells)
    frame.to_parquet(tmp_path / "log.parquet")
    (tmp_path / "log.tsv").write_text(frame.to_csv(sep="\t", index=False))
    (tmp_path / "semicolons.csv").write_text("\ufeff" + frame.to_csv(sep=";", index=False))
    arrays = {
        "x": frame[["value"]].to_numpy(),
        "y": np.array(cells["label"]),
        "person": np.array(cells["person"]),
    }
    np.savez(tmp_path / "log.npz", **arrays)

    plain = read_recordings(cells, window=20)
    for source in (
        frame,
        *(tmp_path / name for name in ("log.parquet", "log.tsv", "semicolons.csv", "log.npz")),
    ):
        windows = read_recordings(source, window=20)
        np.testing.assert_array_equal(windows.x, plain.x)
        assert windows.y.tolist() == plain.y.tolist() and windows.groups.tolist() == plain.groups.tolist()


def test_whole_numbers_are_classes_in_their_order(tmp_path: Path) -> None:
    cells = {**log(), "label": [[2, 10][step // 60 % 2] for step in range(240)]}
    assert load_task(
        "recordings", path=write(tmp_path / "a.csv", cells), window=5, group="time"
    ).class_names == (
        "2",
        "10",
    )


GOOD = log()
FRACTIONS = {**GOOD, "label": [0.5 * (step // 60) for step in range(240)]}
HOLE = {**GOOD, "label": [*GOOD["label"][:9], "", *GOOD["label"][10:]]}
NAMED_NONE = {**GOOD, "label": [*GOOD["label"][:9], "none", *GOOD["label"][10:]]}
WORD = {**GOOD, "value": [*GOOD["value"][:9], "n.a.", *GOOD["value"][10:]]}
BRIEF = {
    **GOOD,
    "label": [*GOOD["label"][:235], *["z"] * 5],
    "person": [step % 60 // 20 for step in range(240)],
}
LATE = {**GOOD, "value": ["", *GOOD["value"][1:]]}
BARE: Cells = {"1": [2, 3], "4": [5, 6]}


@pytest.mark.parametrize(
    ("cells", "options", "message"),
    [
        (GOOD, {"columns": ["valu"]}, r"has no column 'valu'\. It has time, value, label, person"),
        (GOOD, {"label": "activity"}, "has no column 'activity'"),
        (GOOD, {"group": "house"}, "has no column 'house'"),
        (without(GOOD, "label"), {}, "need labels: name a column with --label .time, value, person in"),
        (HOLE, {}, "every row needs a value of 'label', got none in row 10 below the header. Fill it in"),
        (NAMED_NONE, {}, "got 'none', which means none, in row 10 below .* Rename the class"),
        (
            WORD,
            {},
            "column 'value' must hold numbers, got 'n.a.' in row 10 below the header. Correct the cell",
        ),
        (
            LATE,
            {},
            "column 'value' must hold numbers, got no value in row 1 below the header. Correct the cell",
        ),
        (
            {**GOOD, "value": ["nan"] * 240},
            {"columns": ["value"]},
            "must hold numbers, got no value in row 1",
        ),
        (without(GOOD, "value"), {}, "numeric column"),
        ({**GOOD, "label": ["sit"] * 240}, {}, "two classes or more, got 'sit' alone"),
        (FRACTIONS, {"window": 9}, "Labels are classes, got the number 0.5"),
        (GOOD, {"window": 61}, "the longest run has 60, got --window 61. Choose a shorter one"),
        (
            GOOD,
            {"window": 30, "group": "time"},
            "validation has no window of 'sit', 'walk' with --window 30. Choose a shorter",
        ),
        (GOOD, {"window": 10, "group": "person"}, "3 groups, found 1"),
        (BRIEF, {"window": 10, "group": "person"}, "training has no window of 'z' with --window 10. Choose"),
        (GOOD, {"columns": ["value", "label"]}, "a channel or the label or the group, got 'label'"),
        (GOOD, {"window": 0}, r"window must lie in 1\.\."),
        (BARE, {}, "must name the columns, got values: 1, 4. Add a header line"),
    ],
)
def test_bad_recordings_are_refused_in_one_line(
    cells: Cells, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match=message) as error:
        load_task("recordings", path=write(tmp_path / "log.csv", cells), **options)
    assert "\n" not in str(error.value)


def test_signs_alone_do_not_make_a_label_a_number(tmp_path: Path) -> None:
    cells = {**log(), "label": [["--3", "2"][step // 60 % 2] for step in range(240)]}
    path = write(tmp_path / "a.csv", cells)
    assert load_task("recordings", path=path, window=5, group="time").class_names == ("--3", "2")


def test_one_name_is_one_column() -> None:
    cells = {"a": [3, 1, 2], "x": [1, 2, 1], "ax": [5, 4, 6], "label": ["sit"] * 3}
    windows = read_recordings(cells, window=2, columns="ax")
    assert windows.columns == ("ax",) and windows.x[0, :, 0].tolist() == [5, 4]


@pytest.mark.parametrize("option", ["label", "group"])
def test_a_label_that_is_no_name_is_refused_and_not_left_among_the_channels(option: str) -> None:
    frame = {0: [3, 1, 2], 1: [1, 2, 1], "label": ["sit"] * 3}
    options: dict[str, Any] = {option: 1}
    with pytest.raises(InputError, match=f"{option} must be str or none, got 1"):
        read_recordings(frame, window=2, **options)


def test_no_window_crosses_a_group_or_a_label_whether_labels_are_read_or_not(tmp_path: Path) -> None:
    cells = {**log(run=60), "person": ["a" if step < 90 else "b" for step in range(240)]}
    path = write(tmp_path / "log.csv", cells)
    options = {"label": "label", "group": "person", "window": 20, "hop": 1, "columns": ["value"]}

    unlabelled = read_like(path, options, labelled=False)
    assert ((unlabelled.starts < 90) == (unlabelled.starts + 19 < 90)).all()
    assert len(unlabelled.starts) == (90 - 19) + (150 - 19)
    assert unlabelled.groups.tolist() == ["a" if start < 90 else "b" for start in unlabelled.starts]

    labelled = read_like(path, options, labelled=True)
    edges = np.array([60, 90, 120, 180])
    assert not ((labelled.starts[:, None] < edges) & (labelled.starts[:, None] + 19 >= edges)).any()
    assert len(labelled.starts) == sum(length - 19 for length in (60, 30, 30, 60, 60))


def test_a_new_recording_without_the_group_column_is_one_group(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", without(log(), "person", "label"))
    windows = read_like(
        path, {"group": "person", "label": "label", "window": 100, "columns": ["value"]}, False
    )
    assert set(windows.groups) == {str(path)} and windows.starts.tolist() == [0, 50, 100]


@pytest.mark.parametrize("separator", [";", "\t"])
def test_decimal_commas_are_read_and_reported(separator: str, tmp_path: Path) -> None:
    rows = [
        f"{(-1) ** row * row / 4}".replace(".", ",") + separator + "ud"[row // 60 % 2] for row in range(480)
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([f"value{separator}label", *rows]))

    splits = load_task("recordings", path=path, window=20)

    between = {";": "semicolons", "\t": "tabs"}[separator]
    assert f"1 file, 480 rows; {between} between cells, decimal commas" in splits.assumptions[0]
    windows = read_recordings(path, window=20)
    assert windows.x[0, :3, 0].tolist() == [0, -0.25, 0.5]


@pytest.mark.parametrize(("rows", "row"), [(4, 1), (4, 0), (3000, 2500), (200_000, 150_000)])
def test_points_among_decimal_commas_are_refused_in_any_row(rows: int, row: int, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    cells = [f"{7 * n % 5},5;{n % 3},5;up" for n in range(rows)]
    cells[row] = "1.25;0,5;up"
    path.write_text("\n".join(["value;other;label", *cells]))
    with pytest.raises(
        InputError, match=rf"'value' must hold .* decimal commas, .* '1.25' in row {row + 1} "
    ):
        read_recordings(path, window=2)


@pytest.mark.parametrize("row", [1000, 1001])
def test_a_late_decimal_comma_is_read_as_one_or_refused_with_its_row(row: int, tmp_path: Path) -> None:
    cells = ["1"] * (row - 1) + ["1,5"] + ["2"] * 99
    lines = ["x;label", *(f"{cell};{'ab'[number % 200 < 100]}" for number, cell in enumerate(cells))]
    (tmp_path / "log.csv").write_text("\n".join(lines) + "\n")
    if row == 1000:
        found = read_recordings(tmp_path / "log.csv", columns=("x",), window=100, hop=100)
        assert found.x.max() == 1.5
    else:
        with pytest.raises(InputError, match=rf"got '1,5' in row {row}"):
            read_recordings(tmp_path / "log.csv", columns=("x",), window=100, hop=100)


@pytest.mark.parametrize("name", ["activity", "Subject", "changepoint", "anomaly", "target"])
def test_another_column_of_labels_or_groups_is_a_channel_only_where_asked_for(name: str) -> None:
    cells = {"ax": [3, 1, 2, 5], name: [0, 1, 0, 0], "state": ["up", "up", "down", "down"]}

    given: dict[str, Any] = {"label": "state", "group": "file", "window": 2}

    assert read_recordings(cells, **given).columns == ("ax",)
    assert read_recordings(cells, **given, columns=("ax", name)).columns == ("ax", name)


@pytest.mark.parametrize("first", ["0.5,1.5,walk", "12,7,walk", "3,7,walk", "-1,7,walk"])
def test_a_file_without_a_header_does_not_lose_its_first_row(first: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join([first, *["0.5,-1.5,walk", "0.25,1.5,sit"] * 20]))
    with pytest.raises(InputError, match=r"got values: .*walk\. Add a header"):
        read_recordings(path, label="walk", window=2)


def test_one_text_of_the_first_line_that_is_found_below_makes_it_a_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("\n".join(["3,7,walk,Ann", *["0.5,-1.5,walk,Bob", "0.25,1.5,sit,Eve"] * 20]))
    with pytest.raises(InputError, match="Add a header line"):
        read_recordings(path, label="walk", window=2)


def test_rising_whole_numbers_can_name_columns() -> None:
    cells = {"400": [3, 1, 2], "405": [1, 2, 1], "label": ["sit"] * 3}
    assert read_recordings(cells, window=2).columns == ("400", "405")


def test_a_twin_of_the_label_is_left_out_and_reported(tmp_path: Path) -> None:
    cells = log(2000, 100)
    cells |= {
        "code": [7 if label == "walk" else 2 for label in cells["label"]],
        "gain": [5] * 2000,
        "almost": [int(label == "walk") ^ (row == 1500) for row, label in enumerate(cells["label"])],
    }
    splits = load_task("recordings", path=write(tmp_path / "log.csv", cells), window=20, group="time")

    assert splits.options["columns"] == ["value", "gain", "almost"]
    assert "code (it follows from the label)" in "\n".join(splits.assumptions)


@pytest.mark.parametrize(
    ("stamps", "is_clock"),
    [
        ([row // 4 for row in range(240)], True),  # equal stamps
        (list(range(240)), True),
        ([row - 2 * (row == 239) for row in range(240)], False),  # falls once
        ([row // 60 for row in range(240)], False),  # a level that rises three times
        ([row // 16 for row in range(240)][:225] + [14] * 15, False),  # 15 values
        ([row // 15 for row in range(240)], True),  # 16 values
    ],
)
def test_a_clock_never_falls_and_has_sixteen_stamps(
    stamps: list[int], is_clock: bool, tmp_path: Path
) -> None:
    path = write(tmp_path / "log.csv", {"stamp": stamps, **without(log(), "time")})
    splits = load_task("recordings", path=path, window=5, group="time")
    assert ("stamp" in str(splits.options["columns"])) != is_clock
    assert ("stamp (a clock, it never falls)" in "\n".join(splits.assumptions)) == is_clock


def test_a_long_cell_takes_no_more_memory_than_its_file(tmp_path: Path) -> None:
    cells = {**log(5000, 50), "note": ["x" * 20_000 if row == 5 else "" for row in range(5000)]}
    path = write(tmp_path / "log.csv", cells)
    read_recordings(path, window=10)
    tracemalloc.start()
    read_recordings(path, window=10)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 10 * path.stat().st_size


def test_a_column_that_holds_text_in_a_later_file_alone_is_refused(tmp_path: Path) -> None:
    write(tmp_path / "1.csv", log())
    write(tmp_path / "2.csv", {**log(), "value": ["-"] * 240})

    with pytest.raises(InputError, match=r"2\.csv"):
        read_recordings(tmp_path, window=20)
