"""The choice of channels, labels and groups, at the limits of each rule; texts of lists and remarks."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from hadamrnn.data.columns import CLOCK_STAMPS, decide, row_groups, row_labels
from hadamrnn.data.labels import MOST_NUMBERED
from hadamrnn.data.options import RecordingOptions
from hadamrnn.data.tables import EXACT, Recording, file_remarks, folder_labels, listed
from hadamrnn.errors import InputError

ROWS = 40


def table(name: str = "a.csv", folder: str = "", **columns: Any) -> Recording:
    plain = {"x": np.sin(np.arange(ROWS)), "label": np.repeat(["up", "down"], ROWS // 2)}
    return Recording(Path(name), pd.DataFrame({**plain, **columns}), folder=folder)


def decided(*tables: Recording, **given: Any) -> tuple[RecordingOptions, dict[str, str]]:
    return decide(RecordingOptions(**given), list(tables))


def test_a_column_that_never_falls_is_a_clock_from_sixteen_stamps_on() -> None:
    for stamps in (CLOCK_STAMPS - 1, CLOCK_STAMPS):
        rising = np.minimum(np.arange(ROWS), stamps - 1)
        _, reasons = decided(table(n=rising))
        assert ("n" in reasons) == (stamps == CLOCK_STAMPS)
    _, reasons = decided(table(n=-np.arange(ROWS)))
    assert "n" not in reasons
    falls_once = table("b.csv", n=np.r_[np.arange(ROWS - 1), 0])
    assert "n" not in decided(table(n=np.arange(ROWS)), falls_once)[1]
    assert "n" in decided(table(n=np.arange(ROWS)), table("b.csv", n=np.arange(ROWS)))[1]


def test_columns_are_left_out_by_their_names_kinds_or_because_they_follow_from_the_label() -> None:
    both = np.repeat([3.0, 5.0], ROWS // 2)
    options, reasons = decided(
        table(
            Time=np.zeros(ROWS), anomaly=np.zeros(ROWS), word=["a"] * ROWS, twin=both, constant=np.ones(ROWS)
        )
    )
    assert options.columns == ("x", "constant")
    assert set(reasons) == {"Time", "anomaly", "word", "twin"} and len(set(reasons.values())) == 4
    almost = both.copy()
    almost[-1] = 4.0
    assert "twin" not in decided(table(twin=almost))[1]
    asked, reasons = decided(table(twin=both, other=both), columns=("twin",))
    assert asked.columns == ("twin",) and set(reasons) == {"x", "other"}


def test_labels_and_groups_have_usual_names_or_are_asked_for() -> None:
    options, _ = decided(table(Person=["p"] * ROWS))
    assert (options.label, options.group) == ("label", "Person")
    assert decided(table(), label="label", columns=("x",))[0].columns == ("x",)
    plain = table().frame.drop(columns="label")
    arrays = Recording(Path("a.npz"), plain.assign(y=np.repeat([1, 2], ROWS // 2)))
    assert decided(arrays)[0].label == "y"
    folders = [Recording(Path(f"{name}.csv"), plain, folder=name) for name in ("one", "two")]
    assert decided(*folders)[0].label == "folder"
    for tables, given, said in (
        ([replace(arrays, path=Path("a.csv"))], {}, "--label"),
        ([folders[0]], {}, "--label"),
        ([table()], {"columns": ("x", "label")}, "label"),
        ([table()], {"label": "label", "target": "x"}, "--target"),
        ([table()], {"target": "x", "columns": ("x",)}, "x"),
        ([table(x=["word"] * ROWS)], {}, "--columns"),
    ):
        with pytest.raises(InputError, match=said):
            decided(*tables, **given)
    assert decided(table(), target="x", columns=("label",))[0].label is None


def test_many_different_numbers_are_values_and_no_classes() -> None:
    def numbered(count: int, text: str = "") -> Recording:
        labels = [f"{text}{row % count}" for row in range(2 * MOST_NUMBERED)]
        return Recording(
            Path("a.csv"), pd.DataFrame({"x": np.arange(2 * MOST_NUMBERED) % 7.0, "label": labels})
        )

    assert decided(numbered(MOST_NUMBERED))[0].label == "label"
    assert decided(numbered(MOST_NUMBERED + 1, "c"))[0].label == "label"
    with pytest.raises(InputError, match="--target label"):
        decided(numbered(MOST_NUMBERED + 1))
    with pytest.raises(InputError, match="--target label"):  # every row has a label of its own
        decided(table(label=np.arange(ROWS) / 7))


def test_files_are_groups_if_every_class_is_in_three_of_them() -> None:
    three = [table(f"{number}.csv") for number in range(3)]
    one_class = table("3.csv", label=["up"] * ROWS)
    assert decided(*three)[0].group == "file"
    assert decided(*three[:2], one_class)[0].group == "time"
    assert decided(*three, one_class)[0].group == "file"


def test_windows_rates_and_remarks_follow_what_is_given() -> None:
    options, _ = decided(table(), rate=5.0, window=10)
    assert (options.window, options.hop, options.rate) == (10, 5, 5.0)
    sound = [replace(table(f"{name}.wav"), rate=8000, form=f"remark {name}") for name in "abcdefghijkl"]
    options, _ = decided(*sound, features="none", label="label")
    assert options.rate == 8000 and options.columns == ("x",)
    assert file_remarks([replace(each, form="same") for each in sound]) == ["same"]
    mixed = file_remarks([*sound[:2], table("z.csv")])
    assert mixed == ["a.wav: remark a", "b.wav: remark b"]
    many = file_remarks([*sound, table("z.csv")])
    assert many[-1].split()[:2] == ["and", str(len(sound) - len(many) + 1)]


def test_labels_and_groups_come_from_columns_names_or_folders() -> None:
    each = table("house/up_2 load3.csv", folder="house", person=["p"] * ROWS)
    assert set(row_labels(each, "file")) == {"up"} and set(row_labels(each, "folder")) == {"house"}
    assert set(row_labels(each, None)) == {""} and set(row_labels(each, "label")) == {"up", "down"}
    assert set(row_groups(each, "person")) == {"p"} and set(row_groups(each, r"load(\d)")) == {"3"}
    assert set(row_groups(each, "time")) == set(row_groups(each, "file")) == {str(each.path)}
    assert set(row_groups(each, "folder")) == {str(each.path.parent)}
    assert set(row_groups(each, r"(\w+)_(\d)")) == {"up 2"}
    named = table("b.csv", file=["one"] * ROWS, time=["later"] * ROWS)
    assert set(row_labels(named, "file")) == {"one"} == set(row_groups(named, "file"))
    assert set(row_groups(named, "time")) == {"b.csv"}
    assert all(len(row_labels(each, source)) == ROWS for source in ("file", "label", None))


def test_whole_numbers_are_kept_in_float32_as_long_as_it_is_exact() -> None:
    whole = table(n=np.full(ROWS, EXACT), m=np.full(ROWS, EXACT + 1), f=np.full(ROWS, 0.5))
    assert whole.channels(["n"]).dtype == np.float32
    for name in ("m", "f"):
        assert whole.channels(["n", name]).dtype == np.float64
    both = whole.channels(["m", "n"])
    assert both.shape == (ROWS, 2) and both[0].tolist() == [EXACT + 1, EXACT]
    missing = table(n=np.where(np.arange(ROWS) == 5, np.nan, 1.0))
    with pytest.raises(InputError, match="row 6"):
        missing.numbers("n")
    labels = table(label=np.where(np.arange(ROWS) == 7, "", "up"))
    with pytest.raises(InputError, match="row 8"):
        labels.texts("label")


def test_lists_are_shortened_after_twelve_names_and_folders_named_where_they_differ() -> None:
    assert listed(range(12)) == ", ".join(map(str, range(12)))
    assert listed(range(13)) == ", ".join(map(str, range(10))) + " and 3 more"
    assert folder_labels([Path("/d/a"), Path("/d/a")]) == ["a", "a"]
    assert folder_labels([Path("/d"), Path("/d/b/c")]) == ["d", "b"]
