"""Load IMDB movie reviews as Keras's word ids, labelled positive or negative.

Keras's encoding: 0 padding, 1 start of a review, 2 a word outside the vocabulary, word w is w + 3.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.files import DataFile, fetch, present
from hadamrnn.data.splits import Split, Splits, in_parts
from hadamrnn.data.tasks import Task
from hadamrnn.settings import Range

START, UNKNOWN, INDEX_FROM = 1, 2, 3
SHUFFLE_SEED = 113

FILES = {
    "original": DataFile(
        paths=("imdb/imdb.npz", "imdb.npz"),
        home="https://keras.io/api/datasets/imdb/",
        url="https://storage.googleapis.com/tensorflow/tf-keras-datasets/imdb.npz",
        sha256="69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f",
    ),
    "compact": DataFile(
        paths=("imdb/imdb_ids.npz", "imdb_ids.npz"),
        home="https://keras.io/api/datasets/imdb/",
        sha256="e898e59a43a7b8c4f3aca6fcfeb36ebe53f982eefa20be4a2f16b2803de3feb1",
        obtain="the ids of the original without pickles, which is read if this file is missing",
    ),
}


class Reviews(NamedTuple):
    """One part of the data in file order, with ids as Keras stores them (no start mark, no offset)."""

    words: Sequence[NDArray[np.int64]]
    labels: NDArray[np.int64]


def load_imdb(
    data_dir: str | Path | None = None,
    *,
    vocabulary_size: Annotated[int, Range(INDEX_FROM + 1, 100_000)] = 10_000,
    seq_length: Annotated[int, Range(1, 10_000)] = 500,
) -> Splits:
    """Return the 25,000 training reviews; Keras's test set, in its order, is halved into test and validation.

    A review keeps its last `seq_length` ids and is padded on the left with 0, so there are no `lengths`.
    """
    compact = present(FILES["compact"], data_dir)
    # Keras's file contains pickled lists: it is opened only after its checksum has been verified.
    train, test = read_compact(compact) if compact else read_keras(fetch(FILES["original"], data_dir))
    rng = np.random.RandomState(SHUFFLE_SEED)
    train_rows, test_rows = rng.permutation(len(train.words)), rng.permutation(len(test.words))
    half = len(test_rows) // 2

    def split(reviews: Reviews, rows: NDArray[np.int64]) -> Split:
        ids = [keras_ids(reviews.words[row], vocabulary_size) for row in rows]
        return Split(pad_left(ids, seq_length, vocabulary_size), torch.from_numpy(reviews.labels[rows]))

    return in_parts(
        "imdb",
        (split(train, train_rows), split(test, test_rows[half:]), split(test, test_rows[:half])),
        input_size=512,
        output_size=1,
        vocabulary_size=vocabulary_size,
        class_names=("negative", "positive"),
    )


def pad_left(rows: Sequence[Sequence[int] | NDArray[np.int64]], length: int, vocabulary_size: int) -> Tensor:
    """Return the last `length` ids of each row, left-padded with 0: `(n, length)`, int16 if the ids fit.

    >>> pad_left([[7, 8], [1, 2, 3, 4]], length=3, vocabulary_size=10)
    tensor([[0, 7, 8],
            [2, 3, 4]], dtype=torch.int16)
    """
    padded = np.zeros((len(rows), length), np.int16 if vocabulary_size <= 2**15 else np.int32)
    for target, row in zip(padded, rows, strict=True):
        kept = row[-length:]
        target[length - len(kept) :] = kept
    return torch.from_numpy(padded)


def keras_ids(words: NDArray[np.int64], vocabulary_size: int) -> NDArray[np.int64]:
    """Return Keras's encoding of one review.

    >>> keras_ids(np.array([4, 99, 5]), vocabulary_size=10)
    array([1, 7, 2, 8])
    """
    ids = np.concatenate(([START], words + INDEX_FROM))
    return np.where(ids < vocabulary_size, ids, UNKNOWN)


def read_compact(path: Path) -> tuple[Reviews, Reviews]:
    """Read the unpickled form: for each part all words concatenated, the lengths and the labels."""

    def part(name: str) -> Reviews:
        ends = np.cumsum(arrays[f"{name}_lengths"].astype(np.int64))
        words = arrays[f"{name}_tokens"].astype(np.int64)
        return Reviews(np.split(words, ends[:-1]), arrays[f"{name}_labels"].astype(np.int64))

    with np.load(path) as arrays:
        return part("train"), part("test")


def read_keras(path: Path) -> tuple[Reviews, Reviews]:
    """Read Keras's `imdb.npz`, whose checksum the caller has verified: unpickling runs code."""

    def part(name: str) -> Reviews:
        words = [np.asarray(review, np.int64) for review in arrays[f"x_{name}"]]
        return Reviews(words, arrays[f"y_{name}"].astype(np.int64))

    with np.load(path, allow_pickle=True) as arrays:
        return part("train"), part("test")


PAPER_TEXT: dict[str, Any] = {"learning_rate": 0.0005, "decay_factor": 0.99}
# Words matter more than their positions here: without negative signs W^2 = I, so half of the states sum words
# at any position. Embeddings start near zero so that rare words add no noise, and some words are dropped out.
# A bias would accumulate over the padding, by less than half a code per step, which integers round away.
WORDS: dict[str, Any] = {
    "negative_signs": 0.0,
    "input_bias": False,
    "embedding_scale": 0.02,
    "input_dropout": 0.3,
    "epochs": 3,
    "batch_size": 100,
    "learning_rate": 0.0005,
}
IMDB = Task(
    load_imdb,
    {
        "paper": {**PAPER_TEXT, "hidden_size": 512, "epochs": 30, "batch_size": 100},
        "quick": {**WORDS, "hidden_size": 128, "epochs": 1},
        "best": {**WORDS, "hidden_size": 512},
    },
    "film reviews as word ids: positive?",
    FILES,
)
