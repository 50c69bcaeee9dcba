from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn_paper.data import imdb
from hadamrnn_paper.data.imdb import keras_ids, pad_left, read_compact, read_keras


def plain_encoding(review: list[int], vocabulary_size: int, length: int) -> list[int]:
    """Encode one review as Keras's load_data and pad_sequences do, in plain Python."""
    ids = [1] + [word + 3 for word in review]
    ids = [word if word < vocabulary_size else 2 for word in ids]
    ids = ids[-length:]
    return [0] * (length - len(ids)) + ids


@given(
    st.lists(st.lists(st.integers(1, 40), max_size=12), min_size=1), st.integers(4, 50), st.integers(1, 15)
)
@settings(deadline=None, max_examples=100)
def test_encoding_is_kerass(reviews: list[list[int]], vocabulary_size: int, length: int) -> None:
    ids = [keras_ids(np.array(review, np.int64), vocabulary_size) for review in reviews]
    padded = pad_left(ids, length, vocabulary_size)

    assert padded.tolist() == [plain_encoding(review, vocabulary_size, length) for review in reviews]


@pytest.mark.parametrize("size", [10_000, 2**15, 2**15 + 1])
def test_padded_ids_hold_the_largest_of_the_vocabulary(size: int) -> None:
    assert pad_left([[size - 1]], length=2, vocabulary_size=size).tolist() == [[0, size - 1]]


TRAIN, TEST = [[5, 6], [7], [8, 9, 10], [11]], [[1], [2, 2], [3], [4, 4, 4]]
LABELS = {"train": [1, 1, 0, 0], "test": [1, 0, 1, 0]}


def write_keras(path: Path) -> None:
    ragged: dict[str, Any] = {}
    for name, reviews in (("x_train", TRAIN), ("x_test", TEST)):
        ragged[name] = np.empty(len(reviews), object)
        ragged[name][:] = reviews
    np.savez(path, y_train=np.array(LABELS["train"]), y_test=np.array(LABELS["test"]), **ragged)


def write_compact(path: Path) -> None:
    arrays: dict[str, Any] = {}
    for name, reviews in (("train", TRAIN), ("test", TEST)):
        arrays[f"{name}_tokens"] = np.concatenate(reviews).astype(np.int32)
        arrays[f"{name}_lengths"] = np.array([len(review) for review in reviews], np.int16)
        arrays[f"{name}_labels"] = np.array(LABELS[name], np.uint8)
    np.savez(path, **arrays)


def test_both_forms_hold_the_same_reviews(tmp_path: Path) -> None:
    write_keras(tmp_path / "imdb.npz")
    write_compact(tmp_path / "imdb_ids.npz")

    for keras, compact in zip(
        read_keras(tmp_path / "imdb.npz"), read_compact(tmp_path / "imdb_ids.npz"), strict=True
    ):
        assert [words.tolist() for words in keras.words] == [words.tolist() for words in compact.words]
        np.testing.assert_array_equal(keras.labels, compact.labels)


def test_shuffle_and_halves_are_kerass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_keras(tmp_path / "imdb.npz")
    sha256 = hashlib.sha256((tmp_path / "imdb.npz").read_bytes()).hexdigest()
    monkeypatch.setitem(imdb.FILES, "original", replace(imdb.FILES["original"], sha256=sha256))

    splits = load_task("imdb", tmp_path, seq_length=4)

    rng = np.random.RandomState(113)
    train_rows, test_rows = np.arange(4), np.arange(4)
    rng.shuffle(train_rows)
    rng.shuffle(test_rows)
    for split, reviews, rows in (
        (splits.train, TRAIN, train_rows),
        (splits.test, TEST, test_rows[:2]),
        (splits.validation, TEST, test_rows[2:]),
    ):
        assert split.x.tolist() == [plain_encoding(reviews[row], 10_000, 4) for row in rows]


def test_a_pickle_is_not_opened_before_its_checksum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_keras(tmp_path / "imdb.npz")
    opened: list[Path] = []
    monkeypatch.setattr(imdb, "read_keras", opened.append)

    with pytest.raises(InputError, match="published SHA-256 69664113"):
        load_task("imdb", tmp_path)
    assert not opened


@pytest.mark.parametrize("option", ["vocabulary_size", "seq_length"])
def test_options_have_a_lower_bound(option: str) -> None:
    options: dict[str, Any] = {option: 0}
    with pytest.raises(InputError, match=f"{option} must lie in .*got 0"):
        load_task("imdb", **options)


def test_imdb_has_kerass_known_values(
    real_splits: Callable[[str], Splits], fingerprint: Callable[[Split], str]
) -> None:
    splits = real_splits("imdb")
    parts = [splits.train, splits.validation, splits.test]

    assert [tuple(part.x.shape) for part in parts] == [(25_000, 500), (12_500, 500), (12_500, 500)]
    assert splits.train.y is not None and splits.train.y[:10].tolist() == [1, 0, 0, 1, 0, 0, 1, 0, 1, 0]
    balance = [part.y.bincount().tolist() for part in parts if part.y is not None]
    assert balance == [[12_500, 12_500], [6_184, 6_316], [6_316, 6_184]]
    lengths = [218, 189, 141, 500, 147, 43, 123, 500, 233, 130]  # 550 and 562 are truncated
    assert (splits.train.x[:10] != 0).sum(1).tolist() == lengths
    lengths = [68, 260, 500, 181, 108, 132, 500, 180, 134, 370]
    assert (splits.test.x[:10] != 0).sum(1).tolist() == lengths
    first = splits.train.x[0][splits.train.x[0] != 0]
    assert first[:9].tolist() == [1, 14, 22, 16, 43, 530, 973, 1622, 1385]
    assert splits.train.x.max() == 9_999 and splits.train.x.dtype == torch.int16
    assert [fingerprint(part) for part in parts] == [
        "49c3ffc5e3a53877",
        "90f0df1a2d623784",
        "cc31f9d4fb771f47",
    ]
