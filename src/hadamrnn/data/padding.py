"""Rows of ids brought to one length: the last ones are kept, id 0 fills up on the left."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def pad_left(rows: Sequence[Sequence[int] | NDArray[np.int64]], length: int, vocabulary_size: int) -> Tensor:
    """Return the last `length` ids of each row, zeros before them: `(n, length)`, int16 if ids fit.

    >>> pad_left([[7, 8], [1, 2, 3, 4]], length=3, vocabulary_size=10)
    tensor([[0, 7, 8],
            [2, 3, 4]], dtype=torch.int16)
    """
    padded = np.zeros((len(rows), length), np.int16 if vocabulary_size <= 2**15 else np.int32)
    for target, row in zip(padded, rows, strict=True):
        kept = row[-length:]
        target[length - len(kept) :] = kept
    return torch.from_numpy(padded)
