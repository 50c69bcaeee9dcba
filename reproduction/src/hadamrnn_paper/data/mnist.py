"""Load MNIST one pixel per step: row by row (`smnist`), or in one fixed random order (`pmnist`)."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.files import DataFile, fetch
from hadamrnn.data.splits import Image, Split, Splits, in_parts
from hadamrnn.data.tasks import Task
from hadamrnn.errors import InputError

PIXELS = 28 * 28
VALIDATION = 10_000  # the last of the 60,000 training images
PERMUTATION_SEED = 92916  # the permutation of Kiani et al. (2022), which the paper uses

FILES = {
    "train-images-idx3-ubyte.gz": DataFile(
        paths=(
            "mnist/train-images-idx3-ubyte.gz",
            "MNIST/raw/train-images-idx3-ubyte.gz",
            "train-images-idx3-ubyte.gz",
        ),
        home="http://yann.lecun.com/exdb/mnist/",
        url="https://ossci-datasets.s3.amazonaws.com/mnist/train-images-idx3-ubyte.gz",
        sha256="440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    ),
    "train-labels-idx1-ubyte.gz": DataFile(
        paths=(
            "mnist/train-labels-idx1-ubyte.gz",
            "MNIST/raw/train-labels-idx1-ubyte.gz",
            "train-labels-idx1-ubyte.gz",
        ),
        home="http://yann.lecun.com/exdb/mnist/",
        url="https://ossci-datasets.s3.amazonaws.com/mnist/train-labels-idx1-ubyte.gz",
        sha256="3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    ),
    "t10k-images-idx3-ubyte.gz": DataFile(
        paths=(
            "mnist/t10k-images-idx3-ubyte.gz",
            "MNIST/raw/t10k-images-idx3-ubyte.gz",
            "t10k-images-idx3-ubyte.gz",
        ),
        home="http://yann.lecun.com/exdb/mnist/",
        url="https://ossci-datasets.s3.amazonaws.com/mnist/t10k-images-idx3-ubyte.gz",
        sha256="8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    ),
    "t10k-labels-idx1-ubyte.gz": DataFile(
        paths=(
            "mnist/t10k-labels-idx1-ubyte.gz",
            "MNIST/raw/t10k-labels-idx1-ubyte.gz",
            "t10k-labels-idx1-ubyte.gz",
        ),
        home="http://yann.lecun.com/exdb/mnist/",
        url="https://ossci-datasets.s3.amazonaws.com/mnist/t10k-labels-idx1-ubyte.gz",
        sha256="f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    ),
}


def load_smnist(data_dir: str | Path | None = None) -> Splits:
    """Return MNIST as sequences of 784 steps, one pixel k / 255 each, row by row."""
    return _load("smnist", data_dir, np.arange(PIXELS))


def load_pmnist(data_dir: str | Path | None = None) -> Splits:
    """Return `load_smnist`'s sequences with their steps permuted, all in the same way."""
    return _load("pmnist", data_dir, pixel_permutation())


def pixel_permutation() -> NDArray[np.int64]:
    """Return pi: step t of a pMNIST sequence is pixel pi_t of the image.

    >>> pixel_permutation()[:5].tolist()
    [319, 576, 323, 107, 355]
    """
    return np.random.RandomState(PERMUTATION_SEED).permutation(PIXELS)


def _load(task: str, data_dir: str | Path | None, order: NDArray[np.int64]) -> Splits:
    arrays = {name: read_idx(fetch(file, data_dir)) for name, file in FILES.items()}

    def split(part: str, rows: slice) -> Split:
        pixels = arrays[f"{part}-images-idx3-ubyte.gz"][rows].reshape(-1, PIXELS)
        # np.take keeps rows contiguous, as batches read them; pixels[:, order] would transpose
        sequences = np.take(pixels, order, axis=1)[..., None]
        labels = arrays[f"{part}-labels-idx1-ubyte.gz"][rows].astype(np.int64)
        return Split(torch.from_numpy(sequences), torch.from_numpy(labels), levels=255)

    train, validation = split("train", slice(None, -VALIDATION)), split("train", slice(-VALIDATION, None))
    parts = (train, validation, split("t10k", slice(None)))
    image = Image(28, 17.5, 1.25, by_mass=True, order=None if task == "smnist" else order)
    return in_parts(task, parts, class_names=tuple("0123456789"), image=image)


def read_idx(path: Path) -> NDArray[np.uint8]:
    """Return the array of a gzipped idx file of bytes.

    Format, big-endian: 0, 0, type (8: uint8), number of axes; one 32-bit size per axis; the bytes.
    """
    with gzip.open(path) as stream:
        content = stream.read()
    if content[:3] != b"\0\0\x08":
        raise InputError(f"{path} must start with the idx magic 00 00 08, got {content[:3].hex(' ')}.")
    axes = content[3]
    shape = struct.unpack_from(f">{axes}I", content, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)


RECIPES: dict[str, dict[str, Any]] = {
    "paper": {"hidden_size": 512, "epochs": 200},
    "quick": {"hidden_size": 512, "epochs": 8},
    # Four times the paper's batch costs little more per step and allows a higher learning rate. Averaged
    # weights stay steady while the quantized ones jump. A few hidden pixels keep 40 epochs from overfitting.
    "best": {
        "hidden_size": 512,
        "epochs": 40,
        "batch_size": 256,
        "learning_rate": 0.003,
        "weight_average": 0.995,
        "input_dropout": 0.05,
    },
}
SMNIST = Task(load_smnist, RECIPES, "handwritten digits, 784 pixels one by one", FILES)
PMNIST = Task(load_pmnist, RECIPES, "the same, pixels in a fixed random order", FILES)
