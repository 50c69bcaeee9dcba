"""Every limit on input is where its rule says: the last value is accepted, the next one refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.io import wavfile

from hadamrnn.data.audio import read_wav
from hadamrnn.data.labels import check_label
from hadamrnn.data.npz import load_npz, time_first
from hadamrnn.data.tables import listed
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.front_end import MAX_RATE, MIN_RATE


def load_samples(folder: Path, count: int) -> None:
    np.savez(folder / "a.npz", x=np.random.default_rng(0).normal(size=(count, 20, 2)), y=np.arange(count) % 2)
    load_npz(path=folder / "a.npz")


def load_sound(folder: Path, rate: int) -> None:
    wavfile.write(folder / "a.wav", rate, np.ones(9, np.int16))
    read_wav(folder / "a.wav")


def name_a_class(folder: Path, length: int) -> None:
    check_label("x" * length, "a.csv")


def number_classes(folder: Path, count: int) -> None:
    values = [(-1) ** row * row for row in range(40 * count)]
    table = {"value": values, "label": [row // 40 for row in range(40 * count)]}
    rows = zip(*table.values(), strict=True)
    (folder / "a.csv").write_text("\n".join([",".join(table), *(",".join(map(str, row)) for row in rows)]))
    load_task("recordings", path=folder / "a.csv", window=2, group="time")


def lie_across(folder: Path, channels: int) -> None:
    time_first({"x": np.zeros((3, 5, channels))}, None, "a.npz")


def lie_flat(folder: Path, rows: int) -> None:
    time_first({"x": np.random.default_rng(0).normal(size=(rows, 15))}, None, "a.npz")


@pytest.mark.parametrize(
    ("read", "last", "next_one"),
    [
        (load_samples, 10, 9),
        (load_sound, MIN_RATE, MIN_RATE - 1),
        (load_sound, MAX_RATE, MAX_RATE + 1),
        (name_a_class, 200, 201),
        (number_classes, 30, 31),
        (lie_across, 5, 6),
        (lie_flat, 150, 151),
    ],
)
def test_the_last_value_is_taken_and_the_next_one_refused(
    read: Callable[[Path, int], None], last: int, next_one: int, tmp_path: Path
) -> None:
    read(tmp_path, last)
    with pytest.raises(InputError) as error:
        read(tmp_path, next_one)
    assert "\n" not in str(error.value)


def test_the_copy_task_draws_half_a_gigabyte_at_most() -> None:
    with pytest.raises(InputError, match=r"in 1\.\.500000000, got 501000000"):
        load_task("copy", sentence_length=501, test_size=1_000_000)


def test_a_line_lists_twelve_names_or_ten_and_how_many_more() -> None:
    assert listed(range(12)).endswith("10, 11")
    assert listed(range(13)).endswith("8, 9 and 3 more")
