"""Segments by their definition: windows, blocks of time, copies, tables, and the rows that a run stores."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from hadamrnn.data.options import NO_FILES, HeldOutFiles
from hadamrnn.data.samples import (
    array_table,
    check_training,
    cut_windows,
    digests,
    divide_arrays,
    merge_copies,
)
from hadamrnn.data.segments import (
    Lacking,
    Segment,
    divide,
    lacking,
    part_table,
    row_ranges,
    select_rows,
    time_blocks,
    window_targets,
    without_copies,
)
from hadamrnn.data.splits import Split, in_parts
from hadamrnn.errors import InputError

SHARES = (0.15, 0.15)


def segment(rows: int, label: str = "a", group: str = "g", file: int = 0, start: int = 0) -> Segment:
    """Return rows whose values name their file and row, and targets that are half of them."""
    values = 10_000.0 * file + start + np.arange(rows)
    return Segment(values[:, None], label, group, file, start, values / 2)


def drawn(rng: np.random.Generator, files: int = 4, classes: int = 2) -> list[Segment]:
    """Return files of several segments each."""
    found = []
    for file in range(files):
        start = 0
        for number in range(int(rng.integers(1, 5))):
            rows = int(rng.integers(1, 60))
            found.append(segment(rows, "abc"[number % classes], f"g{file}", file, start))
            start += rows
    return found


@pytest.mark.parametrize("seed", range(20))
def test_the_windows_of_a_segment_are_those_that_fit(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, window, hop = (int(rng.integers(1, 30)) for _ in range(3))
    each = segment(rows)
    starts = [start for start in range(0, rows, hop) if start + window <= rows]

    assert each.windows(window, hop) == len(starts)
    if starts:
        windows = cut_windows(each.values, window, hop)
        assert windows[:, 0, 0].tolist() == each.values[starts, 0].tolist()
        assert windows.shape == (len(starts), window, 1)
    now, before = window_targets([each, segment(5, file=1)], window, hop)
    assert now is not None and before is not None and each.targets is not None
    ends = [start + window - 1 for start in starts]
    assert now[: len(ends)].tolist() == each.targets[ends].tolist()
    assert before[: len(ends)].tolist() == [each.targets[max(end - hop, 0)] for end in ends]
    assert len(now) == len(before) == len(ends) + segment(5).windows(window, hop)
    assert window_targets([each._replace(targets=None)], window, hop) == (None, None)


@pytest.mark.parametrize("shares", [SHARES, (0.0, 0.3), (0.3, 0.0), (0.0, 0.0)])
@pytest.mark.parametrize("seed", range(6))
def test_blocks_of_time_are_the_first_middle_and_last_rows_of_each_class(
    seed: int, shares: tuple[float, float]
) -> None:
    """Every row is in one part; a long enough file gives each part its share, in the order of time."""
    rng = np.random.default_rng(seed)
    segments, window = drawn(rng), 6

    parts = time_blocks(segments, window, shares)

    def rows(part: list[Segment], label: str, file: int) -> list[float]:
        return [v for each in part if (each.label, each.file) == (label, file) for v in each.values[:, 0]]

    for label in "ab":
        joined = [0, 0, 0]
        for file in range(4):
            whole = rows(segments, label, file)
            train, validation, test = (rows(part, label, file) for part in parts)
            assert train + validation + test == whole
            joined = [old + len(new) for old, new in zip(joined, (train, validation, test), strict=True)]
        total = sum(joined)
        for share, held in zip(shares, joined[1:], strict=True):
            assert abs(held - share * total) <= 0.5 * 4 + 1e-9 and (held == 0 or share)
    for part in parts:
        assert [(each.file, each.start) for each in part] == sorted((each.file, each.start) for each in part)
        for each in part:
            np.testing.assert_array_equal(
                each.values[:, 0], segment(len(each.values), file=each.file, start=each.start).values[:, 0]
            )
            assert each.targets is not None and (each.targets == each.values[:, 0] / 2).all()


def test_a_recording_too_short_to_hold_out_windows_is_joined_with_the_others_of_its_class() -> None:
    """Forty rows hold out six twice, which is a window; thirty-six rows only five."""
    window = 6
    long, short = segment(40), [segment(36, file=1), segment(36, file=2)]
    train, validation, test = time_blocks([long, *short], window, SHARES)

    assert [(each.file, each.start, len(each.values)) for each in validation if each.file == 0] == [
        (0, 28, 6)
    ]
    assert [(each.file, each.start, len(each.values)) for each in test if each.file == 0] == [(0, 34, 6)]
    assert [(each.file, len(each.values)) for each in train] == [(0, 28), (1, 36), (2, 14)]
    assert [(each.file, each.start, len(each.values)) for each in validation[1:]] == [(2, 14, 11)]
    assert [(each.file, each.start, len(each.values)) for each in test[1:]] == [(2, 25, 11)]


@pytest.mark.parametrize("seed", range(6))
def test_stored_ranges_give_the_parts_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    segments = drawn(rng)
    for part in time_blocks(segments, 6, SHARES):
        ranges = row_ranges(part)
        again = select_rows(segments, ranges)
        assert len(ranges) == 3 * len(part)
        for one, other in zip(part, again, strict=True):
            assert (one.file, one.start, one.label) == (other.file, other.start, other.label)
            np.testing.assert_array_equal(one.values, other.values)
            np.testing.assert_array_equal(one.targets, other.targets)


def test_the_table_counts_files_windows_and_classes() -> None:
    parts = [[segment(10), segment(5, "b", file=1), segment(10, file=2)], [segment(4)], []]
    lines = [line.split() for line in part_table(parts, ["b", "a", "c"], window=5, hop=2)]

    assert lines[1] == ["training", "3", "7", "b", "1,", "a", "6,", "c", "0"]
    assert lines[2][:3] == ["validation", "0", "0"] and lines[3][:3] == ["test", "0", "0"]


def test_copies_in_later_files_are_left_out_if_they_hold_a_window() -> None:
    one, again = segment(6), segment(6)._replace(file=1)
    several = [one, again, one._replace(start=6), again._replace(label="b")]
    kept, left_out = without_copies(several, window=6, origins=[0, 0])
    assert [(each.file, each.label) for each in kept] == [(0, "a"), (0, "a"), (1, "b")]
    assert [each.file for each in left_out] == [1]
    kept, left_out = without_copies([one, again], window=7, origins=[0, 0])
    assert len(kept) == 2 and not left_out


def test_of_copies_the_held_out_one_stays() -> None:
    copies = [segment(6)._replace(file=file) for file in range(5)]
    kept, left_out = without_copies(copies, window=6, origins=[0, 0, 1, 2, 2])
    assert [each.file for each in kept] == [3] and [each.file for each in left_out] == [0, 1, 2, 4]


def test_every_class_that_a_part_lacks_is_named() -> None:
    with pytest.raises(Lacking, match="test has no window of 'b', 'd' with --window 5"):
        lacking([segment(8), segment(4, "b"), segment(9, "c")], "test", "abcd", window=5)
    with pytest.raises(Lacking, match="test has no window with --window 9"):
        lacking([segment(8, "")], "test", [""], window=9)


def test_a_window_as_long_as_a_segment_gives_its_class_a_window() -> None:
    lacking([segment(8)], "training", ["a"], window=8)
    with pytest.raises(Lacking, match="training"):
        lacking([segment(8)], "training", ["a"], window=9)


def test_groups_stay_whole_and_segments_without_a_window_are_left_out() -> None:
    rng = np.random.default_rng(0)
    segments = [
        segment(int(rng.integers(8, 40)), "ab"[number % 2], f"g{number // 2}", number) for number in range(24)
    ]
    segments.append(segment(7, "a", "g0", 24))
    parts = divide(segments, "person", 0, 8, 4, SHARES)

    files = [sorted(each.file for each in part) for part in parts]
    assert sorted(file for part in files for file in part) == list(range(24))
    assert all({file ^ 1 for file in part} == set(part) for part in files)
    copied = [*segments[:24], segments[0]._replace(group="g11", file=25)]
    again = divide(copied, "person", 0, 8, 4, SHARES)
    assert any({0, 1, 22, 23, 25} <= {each.file for each in part} for part in again)
    with pytest.raises(Lacking):
        divide(segments[:4], "person", 0, 8, 4, SHARES)
    by_time = [row_ranges(part) for part in divide(segments, "time", 0, 8, 4, SHARES)]
    assert by_time == [row_ranges(part) for part in time_blocks(segments, 8, SHARES)]


def test_equal_rows_have_equal_digests_unless_they_are_constant() -> None:
    row = np.arange(6.0).reshape(3, 2)
    one, other, changed, zeros, again = digests([row, row.copy(), row + 1, 0 * row, 0 * row])
    assert one == other and len({one, changed, zeros, again}) == 4
    assert digests([row.T])[0] != one


@pytest.mark.parametrize("given", [("validation",), ("test",), ("validation", "test"), ()])
def test_samples_of_held_out_files_are_their_part_and_their_copies_do_not_train(
    given: tuple[str, ...],
) -> None:
    labels = np.arange(60) % 2
    origin = np.where(np.arange(60) < 40, 0, 1 + np.arange(60) % len(given) if given else 0)
    groups = np.arange(60)
    groups[:3] = groups[57:]
    held: Any = HeldOutFiles(**{name: Path(name) for name in given}) if given else NO_FILES

    parts = divide_arrays(labels, groups, origin, held, 0, grouped=False)

    sizes = [len(part) for part in parts]
    for number, part in enumerate(held.parts, 1):
        assert parts[part].tolist() == np.flatnonzero(origin == number).tolist()
    own = 37 if given else 60
    together = np.concatenate(parts)
    assert len(together) == len(set(together.tolist())) == own + (20 if given else 0)
    if len(given) < 2:
        drawn_sizes = [size for part, size in enumerate(sizes) if part not in held.parts]
        assert min(drawn_sizes) >= 4 and drawn_sizes[0] > 20
    else:
        assert sizes[0] == own
    assert not set(parts[0].tolist()) & {0, 1, 2} or not given


def test_a_class_that_training_or_a_part_lacks_is_named() -> None:
    x, names = torch.zeros(6, 2, 1), ["up", "down", "rare, odd"]
    labels = [torch.tensor([0, 1, 2, 1, 0, 0]), torch.tensor([0, 1, 0, 0, 0, 1]), torch.zeros(6).long()]
    members = (tuple(range(6)), tuple(range(6, 12)), tuple(range(12, 18)))
    splits = in_parts("npz", [Split(x, y) for y in labels], class_names=tuple(names), members=members)
    table = array_table(splits, np.arange(18) // 3)

    assert table[1].split() == ["training", "2", "6", "up", "3,", "down", "2,", "rare,", "odd", "1"]
    notes = [line for line in table if line.startswith("note")]
    assert len(notes) == 2 and "validation" in notes[0] and "rare" in notes[0] and "down" not in notes[0]
    assert "test" in notes[1] and "down" in notes[1]
    assert array_table(splits, None)[1].split()[1] == "-"
    check_training([torch.arange(3)], np.array([0, 1, 2, 1]), names)
    with pytest.raises(InputError, match="rare"):
        check_training([torch.tensor([0, 1, 3])], np.array([0, 1, 2, 1]), names)


def test_groups_that_share_a_copy_by_a_chain_become_one() -> None:
    groups, copies = np.array(list("aabbccd")), np.array([1, 2, 2, 3, 3, 4, 5])
    assert merge_copies(groups, copies).tolist() == [0, 0, 0, 0, 0, 0, 1]
