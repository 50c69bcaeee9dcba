"""Splits do not mislead: no group, row or copy is in two parts, and a class missing from a part is named."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from hadamrnn import InputError, Splits, load_task
from hadamrnn.data.samples import group_parts

PARTS = ("train", "validation", "test")


def write(path: Path, labels: Iterable[str], offset: int, group: str = "a") -> None:
    """Write a file whose values identify their rows."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [f"{(-1) ** row * (offset + row)},{label},{group}" for row, label in enumerate(labels)]
    path.write_text("\n".join(["value,label,person", *rows]) + "\n")


def rows_of(splits: Splits) -> list[set[int]]:
    """Return the rows in each part."""
    assert splits.offset is not None and splits.scale is not None
    parts = [getattr(splits, part).x * splits.scale + splits.offset for part in PARTS]
    return [set(part.round().abs().long().flatten().tolist()) for part in parts]


def classes_of(splits: Splits) -> list[set[int]]:
    return [set(getattr(splits, part).y.tolist()) for part in PARTS]


def assert_disjoint(parts: list[set[int]]) -> None:
    train, validation, test = parts
    assert not train & validation and not train & test and not validation & test


@pytest.mark.parametrize("seed", range(30))
def test_any_layout_of_files_classes_and_groups_gives_whole_classes_or_names_what_is_lacking(
    seed: int, tmp_path: Path
) -> None:
    rng = np.random.default_rng(seed)
    classes, files = int(rng.integers(2, 6)), int(rng.integers(1, 12))
    offset = 0
    for file in range(files):
        held = rng.permutation(classes)[: rng.integers(1, classes + 1)] if seed % 2 else [file % classes]
        labels = [f"c{label}" for label in held for _ in range(int(rng.integers(60, 200)))]
        write(tmp_path / f"{file}.csv", labels, offset, f"m{rng.integers(0, 4)}")
        offset += 10_000
    try:
        splits = load_task("recordings", path=tmp_path, window=6, hop=2, columns=("value",), seed=seed)
    except InputError as error:  # one class in all the files
        assert "two classes or more" in str(error)
        return

    assert_disjoint(rows_of(splits))
    assert classes_of(splits) == [set(range(len(splits.class_names)))] * 3
    said = "\n".join(splits.assumptions)
    if splits.options["group"] == "person":
        machine = {file: (tmp_path / f"{file}.csv").read_text().split()[-1][-2:] for file in range(files)}
        assert_disjoint([{int(machine[row // 10_000][1]) for row in part} for part in rows_of(splits)])
    else:
        assert "note: divided in time" in said and "groups by person do not suffice" in said
    table = [line.split() for line in said.splitlines() if line.startswith("  t") or line.startswith("  v")]
    assert [int(row[2].replace(",", "")) for row in table] == [len(getattr(splits, part)) for part in PARTS]


@pytest.mark.parametrize("group", [None, "file", r"load(\d)"])
def test_one_class_per_file_and_three_loads_give_every_part_every_class(
    group: str | None, tmp_path: Path
) -> None:
    for load in range(3):
        for fault in range(10):
            write(tmp_path / f"f{fault}_load{load}.csv", ["x"] * 90, 1000 * (10 * load + fault))
    splits = load_task("recordings", path=tmp_path, label="file", group=group or "file", window=10)

    assert classes_of(splits) == [set(range(10))] * 3
    if group == r"load(\d)":
        assert [{row // 10_000 for row in part} for part in rows_of(splits)] in [
            [{a}, {b}, {c}] for a, b, c in ((0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0))
        ]
    assert_disjoint([{row // 1000 for row in part} for part in rows_of(splits)])


@pytest.mark.parametrize("group", ["file", "time"])
def test_a_copy_of_a_recording_never_crosses_parts(group: str, tmp_path: Path) -> None:
    for number in range(8):
        labels = ["up"] * 60 + ["down"] * 60
        write(tmp_path / f"{number}.csv", labels, 1000 * (number % 6))  # the last two repeat the first
    splits = load_task("recordings", path=tmp_path, columns=("value",), group=group, window=5)

    assert_disjoint(rows_of(splits))
    assert "6.csv, rows 0 to 60, left out: a copy of rows in another file" in "\n".join(splits.assumptions)


@pytest.mark.parametrize("grouped", [False, True])
def test_copies_of_a_sample_never_cross_parts(grouped: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 8, 2)).astype(np.float32)
    x[40:] = x[:20]  # copies in other groups
    arrays: dict[str, Any] = {"x": x, "y": np.arange(60) % 2}
    if grouped:
        arrays["groups"] = np.arange(60) // 2
    np.savez(tmp_path / "a.npz", **arrays)
    splits = load_task("npz", path=tmp_path / "a.npz")

    assert_disjoint([{member % 40 for member in part} for part in splits.members])
    assert sorted(sum(splits.members, ())) == list(range(60))


@pytest.mark.parametrize("given", [("test",), ("validation",), ("validation", "test")])
@pytest.mark.parametrize("kind", ["recordings", "npz"])
def test_named_files_are_their_part_and_no_other(kind: str, given: tuple[str, ...], tmp_path: Path) -> None:
    names = {"path": "own", "validation": "val", "test": "held"}
    paths = {
        name: tmp_path / (file if kind == "recordings" else f"{file}.npz") for name, file in names.items()
    }
    for number, path in enumerate(paths.values()):
        if kind == "npz":
            x = 1000.0 * number + np.arange(240.0).reshape(60, 4) + 1
            np.savez(path, x=np.where(np.arange(4) % 2, -x, x), y=np.arange(60) % 2)
        for file in range(4 if kind == "recordings" else 0):
            write(path / f"{file}.csv", ["up"] * 60 + ["down"] * 60, 1000 * number + 200 * file)
    options: dict[str, Any] = (
        {"window": 6, "columns": ("value",)} if kind == "recordings" else {"layout": "time-first"}
    )
    options |= {name: paths[name] for name in ("path", *given)}
    first = load_task(kind, **options)

    origins = [{row // 1000 for row in part} for part in rows_of(first)]
    assert origins == [{0}, {1 if "validation" in given else 0}, {2 if "test" in given else 0}]
    assert_disjoint(rows_of(first))
    again = load_task(kind, None, first.preparation, **{**options, **first.options})
    assert again.preparation == first.preparation
    (paths[given[0]] / "0.csv" if kind == "recordings" else paths[given[0]]).unlink()
    with pytest.raises((InputError, OSError)):
        load_task(kind, None, first.preparation, **{**options, **first.options})


def test_groups_that_were_asked_for_are_kept_and_what_a_part_lacks_is_said(tmp_path: Path) -> None:
    for number, labels in enumerate((["a"], ["a", "b"], ["a", "b"], ["a", "b"], ["b", "c"], ["c"])):
        write(tmp_path / f"{number}.csv", [label for label in labels for _ in range(50)], 1000 * number)
    given: dict[str, Any] = {"path": tmp_path, "window": 10, "columns": ("value",)}

    kept = load_task("recordings", **given, group="file")
    assert_disjoint([{row // 1000 for row in part} for part in rows_of(kept)])
    lacking = [name for name in ("validation", "test") if f"{name} has no window of 'c'" in kept.note]
    assert lacking and f"note: {lacking[0]} has no window of 'c'" in "\n".join(kept.assumptions)


@pytest.mark.parametrize("copied", [False, True])
def test_a_held_out_file_of_the_folder_itself_is_held_out(copied: bool, tmp_path: Path) -> None:
    """The file may also lie there under another name."""
    for number, label in enumerate("aaaabbbb"):
        write(tmp_path / label / "deeper" / f"{number}.csv", ["x"] * 60, 1000 * number)
    given: dict[str, Any] = {"path": tmp_path, "label": "folder", "window": 10, "columns": ("value",)}
    if copied:
        write(tmp_path / "a" / "copy.csv", ["x"] * 60, 1000)
    same = tmp_path / "a" / "deeper" / "1.csv"
    splits = load_task("recordings", **given, test=same)

    assert splits.class_names == ("a", "b") and classes_of(splits) == [{0, 1}, {0, 1}, {0}]
    origins = [{row // 1000 for row in part} for part in rows_of(splits)]
    assert origins[2] == {1} and 1 not in origins[0] | origins[1] and len(origins[0]) > 2
    said = "\n".join(splits.assumptions)
    assert "note: test has no window of 'b'" in said
    assert copied == ("copy.csv, rows 0 to 60, left out: a copy of rows in another file" in said)
    again = load_task("recordings", None, splits.preparation, test=same, **{**given, **splits.options})
    assert again.preparation == splits.preparation and rows_of(again) == rows_of(splits)
    with pytest.raises(InputError, match="--validation and --test"):
        load_task("recordings", **given, test=tmp_path)
    with pytest.raises(InputError, match=r"1\.csv in both"):
        load_task("recordings", **given, validation=same, test=same)


def test_a_group_of_held_out_files_does_not_train(tmp_path: Path) -> None:
    for number in range(12):
        write(tmp_path / f"{'ab'[number % 2]}_load{number // 2 % 3}.{number}.csv", ["x"] * 60, 1000 * number)
    held = tmp_path / "a_load0.0.csv"
    given: dict[str, Any] = {"path": tmp_path, "label": "file", "window": 10, "columns": ("value",)}
    splits = load_task("recordings", **given, group=r"load(\d)", test=held)

    files = [{row // 1000 for row in part} for part in rows_of(splits)]
    assert files[2] == {0} and not {each // 2 % 3 for each in files[0] | files[1]} & {0}
    assert r"note: load(\d) 0 left out of training: in --validation or --test" in splits.assumptions
    with pytest.raises(InputError, match="training has no window of 'a', 'b'"):
        load_task("recordings", **given, group=r"(load)", test=held)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        (r"load(\d", "no column, and as a pattern .* missing"),
        (r"day(\d)", "must match the name of every file with brackets .* but 0.csv does not match"),
        ("house", "has no column 'house'"),
    ],
)
def test_a_group_that_is_neither_a_column_nor_a_pattern_is_refused(
    pattern: str, said: str, tmp_path: Path
) -> None:
    write(tmp_path / "0.csv", ["up"] * 50 + ["down"] * 50, 0)
    with pytest.raises(InputError, match=said):
        load_task("recordings", path=tmp_path, window=5, group=pattern)


@pytest.mark.parametrize("seed", range(10))
def test_groups_come_close_to_the_share_of_every_class(seed: int) -> None:
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(60), rng.integers(1, 20, 60))
    labels: NDArray[np.int64] = rng.integers(0, 4, 60)[groups]
    parts = group_parts(groups, labels, seed)

    assert_disjoint([set(groups[part].tolist()) for part in parts])
    for label in range(4):
        shares = [(labels[part] == label).mean() for part in parts]
        assert max(shares) - min(shares) < 0.15
        held = [(labels[part] == label).sum() / (labels == label).sum() for part in parts[1:]]
        assert 0.03 < min(held) and max(held) < 0.3
