"""A task is loaded again exactly as it was, or its data are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from hadamrnn import InputError, Split, Splits, load_task
from hadamrnn.data import tasks
from hadamrnn.data.scaling import standardised
from hadamrnn.data.splits import Preparation, in_parts
from hadamrnn.data.tasks import Task

PARTS = ("train", "validation", "test")


def assert_same(first: Splits, second: Splits) -> None:
    for part in PARTS:
        one, other = getattr(first, part), getattr(second, part)
        assert torch.equal(one.x, other.x) and torch.equal(one.y, other.y)
    assert first.preparation == second.preparation


def write_arrays(path: Path, scale: float = 1.0) -> Path:
    x = scale * np.random.default_rng(0).normal(size=(40, 6, 2))
    np.savez(path, x=x, y=np.array(["b", "a"])[np.arange(40) % 2])
    return path


def write_log(path: Path, label: str = "walk", rows: int = 400, first: int = 0) -> Path:
    lines = [f"{(-1) ** row * (first + row)},{label if row // 50 % 2 else 'sit'}" for row in range(rows)]
    path.write_text("\n".join(["value,label", *lines]) + "\n")
    return path


def test_members_name_every_sample_of_an_npz_file_once(tmp_path: Path) -> None:
    splits = load_task("npz", path=write_arrays(tmp_path / "a.npz"))
    assert sorted(sum(splits.members, ())) == list(range(40))
    assert [len(rows) for rows in splits.members] == [len(getattr(splits, part)) for part in PARTS]


@pytest.mark.parametrize("seed", [0, 7])
def test_an_npz_file_is_prepared_again_by_its_members_and_not_by_its_seed(seed: int, tmp_path: Path) -> None:
    path = write_arrays(tmp_path / "a.npz")
    first = load_task("npz", path=path, seed=3)
    assert_same(load_task("npz", None, first.preparation, path=path, seed=seed), first)


@pytest.mark.parametrize("files", [1, 4])
def test_recordings_are_prepared_again_by_their_members_and_not_by_their_seed(
    files: int, tmp_path: Path
) -> None:
    for number in range(files):
        write_log(tmp_path / f"{number}.csv", rows=400 + 30 * number, first=1000 * number)
    first = load_task("recordings", path=tmp_path, window=10, seed=1)
    assert first.options["group"] == ("time" if files == 1 else "file")

    again = load_task("recordings", None, first.preparation, path=tmp_path, seed=2, **first.options)

    assert_same(again, first)


def test_stored_classes_and_scaling_are_used_and_not_computed_again(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.csv")
    first = load_task("recordings", path=path, window=10)
    stored = replace(first.preparation, class_names=("walk", "sit"), offset=(1.0,), scale=(2.0,))

    again = load_task("recordings", None, stored, path=path, window=10)

    assert again.class_names == ("walk", "sit") and again.preparation == stored
    assert first.train.y is not None and again.train.y is not None
    assert torch.equal(again.train.y, 1 - first.train.y)


def test_changed_data_are_refused_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    arrays, log = write_arrays(tmp_path / "a.npz"), write_log(folder / "log.csv")
    npz = load_task("npz", path=arrays).preparation
    recordings = load_task("recordings", path=folder, window=10).preparation
    write_arrays(arrays, scale=2.0)
    write_log(folder / "more.csv")

    with pytest.raises(InputError, match=r"a\.npz has changed since\. .* hadamrnn eval RUN FILE"):
        load_task("npz", None, npz, path=arrays)
    with pytest.raises(InputError, match="logs has changed since"):
        load_task("recordings", None, recordings, path=folder, window=10)
    with pytest.raises(InputError, match=r"log\.csv has changed since"):
        load_task("recordings", None, recordings, path=write_log(log, label="run"), window=10)


def test_a_generated_task_has_the_fingerprint_of_its_samples() -> None:
    first = load_task("copy", delay=5, train_size=3, seed=1)
    again = load_task("copy", None, first.preparation, delay=5, train_size=3, seed=1)

    assert again.preparation == first.preparation and len(first.fingerprint) == 64
    with pytest.raises(InputError, match="task copy has changed since"):
        load_task("copy", None, first.preparation, delay=5, train_size=3, seed=2)


@pytest.mark.parametrize("is_standardised", [False, True])
@pytest.mark.parametrize("change", ["one value", "all values"])
def test_float_inputs_count_by_their_values(
    is_standardised: bool, change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    x = torch.randn(12, 5, 2, generator=torch.Generator().manual_seed(0))

    def load(values: torch.Tensor, preparation: Preparation | None = None) -> Splits:
        parts = [Split(values[rows], torch.arange(4) % 2) for rows in torch.arange(12).split(4)]
        make = standardised if is_standardised else in_parts
        task = Task(lambda: make("mine", parts, class_names=("a", "b")))
        monkeypatch.setattr(tasks, "find_task", lambda name: task)
        return load_task("mine", None, preparation)

    first = load(x)
    assert load(x, first.preparation).fingerprint == first.fingerprint
    changed = 2 * x
    if change == "one value":
        changed = x.clone()
        changed[7, 3, 1] += 0.5
    with pytest.raises(InputError, match="task mine has changed since"):
        load(changed, first.preparation)
