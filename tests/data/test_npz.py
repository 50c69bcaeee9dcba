from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data.npz import GROUP_NAMES, check_groups, check_inputs, check_targets, read_npz
from hadamrnn.data.splits import Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError

X = np.random.default_rng(0).normal(3.0, 2.0, size=(30, 6, 2))
LABELS = np.arange(30) % 3


def load(folder: Path, **arrays: Any) -> Splits:
    path = folder / "mine.npz"
    path.parent.mkdir(exist_ok=True)
    np.savez(path, **arrays)
    return load_task("npz", path=path)


def test_integer_labels_are_a_classification(tmp_path: Path) -> None:
    splits = load(tmp_path, x=X, y=LABELS)
    parts = [splits.train, splits.validation, splits.test]

    assert [len(part) for part in parts] == [18, 6, 6]
    assert (splits.seq_length, splits.input_size, splits.output_size) == (6, 2, 3)
    assert splits.metric == "accuracy" and splits.class_names == ("0", "1", "2")
    assert all(part.y is not None and part.y.bincount().tolist() == [len(part) // 3] * 3 for part in parts)


def test_samples_keep_their_labels(tmp_path: Path) -> None:
    x = np.tile(LABELS[:, None, None], (1, 4, 1)).astype(np.float32)
    np.savez(tmp_path / "mine.npz", x=x, y=LABELS)

    splits = load_task("npz", path=tmp_path / "mine.npz", standardize=False)

    assert splits.offset is None and splits.scale is None
    for part in (splits.train, splits.validation, splits.test):
        assert part.y is not None and torch.equal(part.x[:, 0, 0], part.y.float())


def test_string_labels_are_numbered_in_sorted_order(tmp_path: Path) -> None:
    names = np.array(["walk", "run", "sit"])
    splits = load(tmp_path, x=np.tile(LABELS[:, None], (1, 5)), y=names[LABELS])

    assert splits.class_names == ("run", "sit", "walk") and splits.output_size == 3
    assert splits.offset is not None and splits.scale is not None and splits.train.y is not None
    original = (splits.train.x * splits.scale + splits.offset)[:, 0, 0].round().long()
    assert [names[label] for label in original] == [splits.class_names[label] for label in splits.train.y]


@pytest.mark.parametrize("shape", [(30,), (30, 1), (30, 4)])
def test_float_targets_are_a_regression(shape: tuple[int, ...], tmp_path: Path) -> None:
    splits = load(tmp_path, x=X[:, :, 0], y=np.ones(shape))

    assert splits.metric == "mse" and splits.class_names == () and splits.input_size == 1
    assert splits.output_size == (shape[1] if len(shape) == 2 else 1)
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [22, 4, 4]
    _, y, _ = splits.train.batch(slice(None))
    assert y is not None and y.dtype == torch.float32 and y.shape == (22, splits.output_size)


def test_inputs_are_standardised_over_the_training_part(tmp_path: Path) -> None:
    splits = load(tmp_path, x=X, y=LABELS)
    steps = splits.train.x.reshape(-1, 2)

    torch.testing.assert_close(steps.mean(0), torch.zeros(2), atol=1e-5, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(2))


def test_padding_does_not_enter_the_statistics(tmp_path: Path) -> None:
    padded = np.concatenate([X, np.full_like(X, 1e6)], axis=1)
    splits = load(tmp_path, x=padded, y=LABELS, lengths=np.full(30, 6))
    plain = load(tmp_path, x=X, y=LABELS)

    assert splits.offset is not None and plain.offset is not None
    assert torch.equal(splits.offset, plain.offset)
    _, _, lengths = splits.test.batch(slice(None))
    assert lengths is not None and lengths.tolist() == [6] * 6


WALK = np.random.default_rng(0).normal(size=(200, 20)).cumsum(0)  # 20 channels, step by step
RAGGED = np.empty(30, object)
RAGGED[:] = [np.zeros(length) for length in range(30)]
HOLE = np.where(np.arange(360).reshape(30, 6, 2) == 5, np.nan, X)


@pytest.mark.parametrize("name", ["groups", "person", "subject"])
def test_nobody_is_in_two_parts(name: str, tmp_path: Path) -> None:
    people = np.arange(30) // 3 % 10
    x = np.tile(people[:, None, None], (1, 6, 1)).astype(np.float32)
    arrays: dict[str, Any] = {"x": x, "y": LABELS, name: people}
    np.savez(tmp_path / "mine.npz", **arrays)

    splits = load_task("npz", path=tmp_path / "mine.npz", standardize=False)

    parts = [set(part.x.flatten().tolist()) for part in (splits.train, splits.validation, splits.test)]
    assert [len(part) for part in parts] == [6, 2, 2] and set.union(*parts) == set(range(10))
    assert splits.note == f"split by {name}"


def test_channels_first_is_turned_round_when_it_is_said(tmp_path: Path) -> None:
    plain = load(tmp_path, x=X, y=LABELS)
    np.savez(tmp_path / "mine.npz", x=X.transpose(0, 2, 1), y=LABELS)
    turned = load_task("npz", path=tmp_path / "mine.npz", layout="channels-first")

    assert torch.equal(turned.train.x, plain.train.x)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x": X.transpose(0, 2, 1), "y": LABELS}, r"\(30, 2, 6\) .* layout=time-first or"),
        ({"x": np.ones((200, 3)), "y": np.arange(200) % 2}, "200 series of 3 steps. Add --window N"),
        ({"x": WALK, "y": np.arange(200) // 50}, r"\(200, 20\) .* looks like one recording"),
        ({"x": X, "y": LABELS, "weights": LABELS}, "got 'weights'"),
        ({"x": X, "y": LABELS, "groups": LABELS[:4]}, "groups must be 30 integers"),
        ({"x": X, "y": LABELS, "groups": LABELS % 2}, "3 groups, found 2"),
        ({"x": X, "y": LABELS, "groups": LABELS}, "Training must see every class"),
        ({"x": X, "y": LABELS, "groups": LABELS, "person": LABELS}, "got groups and person"),
        ({"y": LABELS}, "x must be real numbers .* missing"),
        ({"x": X}, "y must be 30 labels .* missing"),
        ({"x": RAGGED, "y": LABELS}, r"ragged or pickled objects. Pad x"),
        ({"x": X[0, 0], "y": LABELS}, r"\(n, time, channels\) or \(n, time\), got .* \(2,\)"),
        ({"x": X[:, :0], "y": LABELS}, r"shape \(30, 0, 2\)"),
        ({"x": X.astype(str), "y": LABELS}, "real numbers .* got <U"),
        ({"x": X + 1j, "y": LABELS}, "real numbers .* got complex128"),
        ({"x": HOLE, "y": LABELS}, "finite in float32, got nan at sample 0, step 2, channel 1"),
        ({"x": X * 1e39, "y": LABELS}, "finite in float32"),
        ({"x": X, "y": LABELS[:-1]}, r"y must be 30 labels .* \(29,\)"),
        ({"x": X, "y": np.array(1)}, r"shape \(\)"),
        ({"x": X, "y": LABELS + 1}, "must be 0 ... k - 1, each present, got 1 for 0"),
        ({"x": X, "y": LABELS - 1}, "got -1 for 0"),
        ({"x": X, "y": LABELS * 2}, "got 2 for 1 .* renumbers them"),
        ({"x": X, "y": LABELS * 0}, "two classes or more, got '0' alone"),
        ({"x": X, "y": np.array(["a", "\ud800", "b"])[LABELS]}, "Labels must be printable text"),
        ({"x": X, "y": LABELS[:, None]}, r"y must be 30 labels .* \(30, 1\)"),
        ({"x": X, "y": LABELS + 1j}, "integers or strings.* got complex128"),
        (
            {"x": X, "y": np.where(LABELS == 2, np.inf, 1.0)},
            "y must be finite in float32, got inf at sample 2",
        ),
        ({"x": X, "y": np.ones((30, 2, 2))}, r"\(30, targets\), got .* \(30, 2, 2\)"),
        ({"x": X[:9], "y": LABELS[:9]}, "at least 10 samples, got 9"),
        ({"x": X, "y": np.arange(30) // 28}, "got 2 of class 1"),
        (
            {"x": X, "y": LABELS, "lengths": np.ones(29, int)},
            r"lengths must be 30 integers, got int64 of shape",
        ),
        ({"x": X, "y": LABELS, "lengths": np.ones(30)}, "lengths must be 30 integers, got float64"),
        ({"x": X, "y": LABELS, "lengths": np.full(30, 7)}, r"1 \.\.\. 6, the steps of x, got 7"),
        ({"x": X, "y": LABELS, "lengths": np.zeros(30, int)}, "got 0"),
    ],
)
def test_bad_arrays_are_refused_in_one_line(arrays: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=message) as error:
        load(tmp_path, **arrays)
    assert "\n" not in str(error.value)


def test_a_path_must_be_an_npz_archive(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="No such file"):
        load_task("npz", path=tmp_path / "none.npz")
    np.save(tmp_path / "x.npy", X)
    with pytest.raises(InputError, match=r"npz archive. .*numpy\.savez"):
        load_task("npz", path=tmp_path / "x.npy")


def test_a_damaged_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.npz"
    np.savez(path, x=X, y=LABELS)
    content = bytearray(path.read_bytes())
    content[500:600] = bytes(100)
    path.write_bytes(content)

    with pytest.raises(InputError, match="is damaged"):
        load_task("npz", path=path)


@given(st.binary(max_size=200))
@settings(deadline=None, max_examples=50)
def test_no_bytes_give_a_traceback(content: bytes) -> None:
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as scratch:
        Path(scratch, "mine.npz").write_bytes(content)
        with pytest.raises(InputError):
            load_task("npz", path=Path(scratch, "mine.npz"))


def test_checks_serve_arrays_in_memory_too() -> None:
    x, lengths = check_inputs({"x": X}, "the arrays")
    y, names = check_targets(LABELS, len(X), "the arrays")

    assert x.shape == (30, 6, 2) and lengths is None
    assert y.tolist() == LABELS.tolist() and names == ("0", "1", "2")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (b"'shape': (30, 6", b"'shape': (90000000000, 6"),
        (b"'shape': (30, 6", b"'shape': (-30, 6"),
        (b"'descr': '<f", b"'descr': '|O"),
        (b"{", b"["),
    ],
)
def test_a_header_that_lies_is_refused_before_it_takes_memory(old: bytes, new: bytes, tmp_path: Path) -> None:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, X)
    lie = buffer.getvalue().replace(old, new, 1)
    assert lie != buffer.getvalue()
    end = lie.index(b"\n")
    header = lie[10:end].rstrip() + b"\n"
    with zipfile.ZipFile(tmp_path / "x.npz", "w") as archive:
        archive.writestr("x.npy", lie[:8] + len(header).to_bytes(2, "little") + header + lie[end + 1 :])
    with pytest.raises(InputError, match=r"damaged|ragged") as caught:
        read_npz(tmp_path / "x.npz")
    assert "\n" not in str(caught.value) and "x.npz" in str(caught.value)


def test_bombs_and_encrypted_members_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        with archive.open("x.npy", "w", force_zip64=True) as member:
            for _ in range(300):
                member.write(bytes(1 << 20))
    with pytest.raises(InputError, match="20 times"):
        read_npz(path)
    np.savez(path, x=X)
    content = bytearray(path.read_bytes())
    content[content.rindex(b"PK\x01\x02") + 8] |= 1
    path.write_bytes(content)
    with pytest.raises(InputError, match="is encrypted"):
        read_npz(path)


def test_two_arrays_of_groups_are_refused() -> None:
    groups = np.arange(6)
    arrays: dict[str, Any] = {"x": np.zeros((6, 4, 1)), **dict.fromkeys(GROUP_NAMES[:2], groups)}

    with pytest.raises(InputError, match="Only one of"):
        check_groups(arrays, "mine.npz")


@pytest.mark.parametrize(("count", "notes"), [(30, 0), (31, 1)])
def test_many_integers_are_classes_with_a_note_on_values(tmp_path: Path, count: int, notes: int) -> None:
    x = np.random.default_rng(0).normal(size=(9 * count, 20, 2))
    np.savez(tmp_path / "a.npz", x=x, y=np.arange(9 * count) % count)

    splits = load_task("npz", path=tmp_path / "a.npz")

    assert len(splits.class_names) == count
    assert sum(f"{count} classes" in line and "astype(float)" in line for line in splits.assumptions) == notes
