from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from hadamrnn.data.har import CHANNELS, PEOPLE, SLOW, STILL, read_compact, read_original
from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn.training.evaluate import accuracy_of, confusion, evaluate

ACTIVITY = {"train": [1, 2, 3, 4, 5, 6], "test": [6, 5]}
SUBJECT = {"train": [1, 1, 3, 27, 28, 30], "test": [2, 4]}


def write_original(folder: Path) -> dict[str, NDArray[np.float32]]:
    """Write UCI's text files with random signals; return these."""
    rng = np.random.default_rng(0)
    signals = {}
    for part in ("train", "test"):
        (folder / part / "Inertial Signals").mkdir(parents=True)
        x = signals[part] = rng.normal(size=(len(ACTIVITY[part]), 128, 9)).astype(np.float32)
        for channel, name in enumerate(CHANNELS):
            np.savetxt(folder / part / f"Inertial Signals/{name}_{part}.txt", x[:, :, channel], fmt="%16.7e")
        np.savetxt(folder / part / f"y_{part}.txt", ACTIVITY[part], fmt="%d")
        np.savetxt(folder / part / f"subject_{part}.txt", SUBJECT[part], fmt="%d")
    return signals


@pytest.mark.parametrize("name", ["UCI HAR Dataset", "uci_har/UCI HAR Dataset"])
def test_har2_is_read_from_ucis_folder(name: str, tmp_path: Path) -> None:
    signals = write_original(tmp_path / name)

    splits = load_task("har2", tmp_path)

    assert splits.offset is not None and splits.scale is not None
    assert [
        split.y.tolist() for split in (splits.train, splits.validation, splits.test) if split.y is not None
    ] == [
        [0, 1, 0],
        [1, 0, 1],
        [1, 0],
    ]
    raw = splits.validation.x * splits.scale + splits.offset
    torch.testing.assert_close(raw, torch.from_numpy(signals["train"][3:]), atol=1e-5, rtol=1e-5)
    raw = splits.test.x * splits.scale + splits.offset
    torch.testing.assert_close(raw, torch.from_numpy(signals["test"]), atol=1e-5, rtol=1e-5)
    steps = splits.train.x.reshape(-1, 9)
    torch.testing.assert_close(steps.mean(0), torch.zeros(9), atol=1e-5, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(9))


def test_the_compact_form_is_the_text_form(tmp_path: Path) -> None:
    signals = write_original(tmp_path / "text")
    arrays = {f"x_{part}": x for part, x in signals.items()}
    labels = {f"y_{part}": np.array(ACTIVITY[part], np.uint8) for part in signals}
    people = {f"subject_{part}": np.array(SUBJECT[part], np.uint8) for part in signals}
    np.savez(tmp_path / "compact.npz", allow_pickle=False, **arrays, **labels, **people)

    for text, compact in zip(
        read_original(tmp_path / "text"), read_compact(tmp_path / "compact.npz"), strict=True
    ):
        np.testing.assert_allclose(text.x, compact.x, rtol=1e-6)
        np.testing.assert_array_equal(text.activity, compact.activity)
        np.testing.assert_array_equal(text.subject, compact.subject)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("y_train.txt", "1\n2\n", "n windows of 128 steps"),
        ("y_train.txt", "1\n2\n3\n4\n5\n7\n", "activities 1 to 6"),
        ("subject_train.txt", "1\n1\n1\n1\n1\n1\n", "must hold people .* and others"),
        ("subject_train.txt", "1\n1\n1\n1\n1\nx\n", "not a readable table of numbers"),
        ("Inertial Signals/body_acc_x_train.txt", "", r"must have shape \(\d+, 128\)"),
        ("Inertial Signals/body_acc_x_train.txt", "1 2 3\n", r"must have shape \(\d+, 128\)"),
        ("Inertial Signals/body_acc_x_train.txt", ("nan " * 128 + "\n") * 6, "all finite"),
        ("Inertial Signals/body_acc_x_train.txt", None, "body_acc_x_train.txt cannot be read"),
    ],
)
def test_malformed_files_are_refused(file: str, text: str | None, message: str, tmp_path: Path) -> None:
    write_original(tmp_path / "UCI HAR Dataset")
    path = tmp_path / "UCI HAR Dataset/train" / file
    path.unlink()
    if text is not None:
        path.write_text(text)

    with pytest.raises(InputError, match=message):
        load_task("har2", tmp_path)


def test_har2_has_its_counts(real_splits: Callable[[str], Splits]) -> None:
    splits = real_splits("har2")
    parts = [splits.train, splits.validation, splits.test]

    assert [tuple(part.x.shape) for part in parts] == [(5_867, 128, 9), (1_485, 128, 9), (2_947, 128, 9)]
    balance = [part.y.bincount().tolist() for part in parts if part.y is not None]
    assert balance == [[2_874, 2_993], [712, 773], [1_448, 1_499]]
    steps = splits.train.x.reshape(-1, 9)
    torch.testing.assert_close(steps.mean(0), torch.zeros(9), atol=1e-4, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(9), atol=1e-4, rtol=0)


def test_uci_hars_compact_form_has_its_bytes(real_data: str) -> None:
    path = Path(real_data, "uci_har/uci_har.npz")
    if not path.exists():
        pytest.skip("uci_har.npz is not at hand")
    train, test = read_compact(path)

    assert np.bincount(train.activity).tolist() == [0, 1226, 1073, 986, 1286, 1374, 1407]
    assert np.bincount(test.activity).tolist() == [0, 496, 471, 420, 491, 532, 537]
    assert sorted(sum(PEOPLE, ())) == sorted(set(train.subject.tolist()))
    assert not set(train.subject.tolist()) & set(test.subject.tolist())
    digests = [
        hashlib.sha256(part.x.tobytes() + part.activity.tobytes() + part.subject.tobytes()).hexdigest()[:16]
        for part in (train, test)
    ]
    assert digests == ["acfcb957e5065563", "76f51bab046d971e"]


def test_har6_has_the_published_counts_and_no_person_twice(real_splits: Callable[[str], Splits]) -> None:
    splits = real_splits("har6")
    counts = [
        part.y.bincount() for part in (splits.train, splits.validation, splits.test) if part.y is not None
    ]

    assert (counts[0] + counts[1]).tolist() == [1226, 1073, 986, 1286, 1374, 1407]
    assert counts[2].tolist() == [496, 471, 420, 491, 532, 537]
    two = real_splits("har2")
    assert torch.equal(two.train.x, splits.train.x) and len(splits.class_names) == splits.output_size == 6


def test_every_group_of_people_can_be_left_out_and_none_trains_on_all(tmp_path: Path) -> None:
    write_original(tmp_path / "UCI HAR Dataset")

    sizes = [
        (len(splits.train), len(splits.validation))
        for splits in (load_task("har6", tmp_path, left_out=left_out) for left_out in (1, 5, None))
    ]

    assert sizes == [(3, 3), (3, 3), (6, 3)]
    with pytest.raises(InputError, match=r"people \(7, 8, 11, 14\) and others"):
        load_task("har6", tmp_path, left_out=2)
    with pytest.raises(InputError, match=r"left_out must lie in 1\.\.5"):
        load_task("har6", tmp_path, left_out=6)


def test_har2_by_activity_asks_for_the_right_group_alone(tmp_path: Path) -> None:
    write_original(tmp_path / "UCI HAR Dataset")
    two, six = load_task("har2", tmp_path), load_task("har2", tmp_path, activities=True, left_out=None)
    assert two.train.y is not None and six.output_size == len(six.class_names) == 6

    for activity, group in enumerate((0, 1, 0, 1, 0, 1)):

        def always(x: torch.Tensor, lengths: torch.Tensor | None, activity: int = activity) -> torch.Tensor:
            return torch.eye(6)[activity].expand(len(x), 6)

        counts = confusion(always, six.train, 6)  # every activity once, in order

        assert counts.diagonal().tolist() == [int(i == activity) for i in range(6)]
        assert evaluate(always, six.train, "accuracy") == accuracy_of(counts, six.train) == 1 / 2
        right = six.train.same(torch.full((6,), activity), torch.arange(6))
        assert right[:3].tolist() == (two.train.y == group).tolist()


@pytest.mark.parametrize("task", ["har2", "har6"])
def test_fine_channels_are_the_movements_and_their_changes_clipped(task: str, tmp_path: Path) -> None:
    signals = write_original(tmp_path / "UCI HAR Dataset")

    splits = load_task(task, tmp_path, fine=True)

    assert splits.offset is not None and splits.scale is not None
    assert splits.input_size == splits.device_channels == 21
    x = signals["test"]
    movement, change = x[:, :, :6], np.diff(x[:, :, :6], axis=1, prepend=x[:, :1, :6])
    wanted = [x, np.clip(movement, np.negative(STILL), STILL), np.clip(change, np.negative(SLOW), SLOW)]
    raw = splits.test.x * splits.scale + splits.offset
    torch.testing.assert_close(
        raw, torch.from_numpy(np.concatenate(wanted, -1)).float(), atol=1e-5, rtol=1e-5
    )
