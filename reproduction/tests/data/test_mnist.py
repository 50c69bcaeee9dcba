from __future__ import annotations

import gzip
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError
from hadamrnn_paper.data.mnist import pixel_permutation, read_idx


def test_an_idx_file_gives_back_its_array(tmp_path: Path) -> None:
    array = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(b"\0\0\x08\x03" + struct.pack(">3I", 2, 3, 4) + array.tobytes()))

    np.testing.assert_array_equal(read_idx(path), array)


def test_a_file_without_the_idx_magic_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "images.gz"
    path.write_bytes(gzip.compress(b"\0\0\x0d\x01" + bytes(8)))

    with pytest.raises(InputError, match="idx magic 00 00 08, got 00 00 0d"):
        read_idx(path)


def test_a_truncated_file_is_refused_by_its_checksum(tmp_path: Path) -> None:
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(b"\x1f\x8b")

    with pytest.raises(InputError, match=r"published SHA-256 440fcabf.*, got "):
        load_task("smnist", tmp_path)


FINGERPRINTS = {
    "smnist": ["fcd4fc49d5faa9ca", "6e945a5890e790eb", "a0863a96c44e5666"],
    "pmnist": ["9544afb0aad4f287", "6b1f26aebb08a1c9", "586fe65d5637481d"],
}


@pytest.mark.parametrize("task", ["smnist", "pmnist"])
def test_mnist_has_its_counts(
    task: str, real_splits: Callable[[str], Splits], fingerprint: Callable[[Split], str]
) -> None:
    splits = real_splits(task)
    parts = [splits.train, splits.validation, splits.test]

    assert [tuple(part.x.shape) for part in parts] == [(50_000, 784, 1), (10_000, 784, 1), (10_000, 784, 1)]
    train, validation, test = (part.y.bincount() for part in parts if part.y is not None)
    assert test.tolist() == [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    assert (train + validation).tolist() == [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    assert [fingerprint(part) for part in parts] == FINGERPRINTS[task]
    assert all(part.x.is_contiguous() for part in parts)  # a batch copies whole rows


def test_pmnist_is_smnist_in_another_order(real_splits: Callable[[str], Splits]) -> None:
    rows = torch.tensor([7, 3])
    sequential, _, _ = real_splits("smnist").test.batch(rows)
    permuted, _, _ = real_splits("pmnist").test.batch(rows)

    order = torch.from_numpy(np.random.RandomState(92916).permutation(784))
    assert torch.equal(permuted, sequential[:, order])
    assert torch.equal(order, torch.from_numpy(pixel_permutation()))
    assert sequential.max() == 1 and sequential.min() == 0
