from __future__ import annotations

from collections.abc import Callable

import torch

from hadamrnn.data.splits import Split
from hadamrnn.data.tasks import load_task


def test_digits_are_scikit_learns_cut_in_proportion(fingerprint: Callable[[Split], str]) -> None:
    splits = load_task("digits")
    parts = (splits.train, splits.validation, splits.test)

    assert [len(part) for part in parts] == [1259, 269, 269]
    assert (splits.seq_length, splits.input_size, splits.output_size) == (64, 1, 10)
    counts = torch.tensor([178, 182, 177, 183, 181, 182, 181, 179, 174, 180])
    held_out = (0.15 * counts).round().long()
    for part, balance in zip(parts, (counts - 2 * held_out, held_out, held_out), strict=True):
        x, y, _ = part.batch(slice(None))
        assert y is not None and torch.equal(y.bincount(), balance)
        assert x.min() == 0 and x.max() == 1 and torch.equal(x * 16, (x * 16).round())
    assert [fingerprint(part) for part in parts] == [
        "f7a58f44f0e3dd04",
        "cd05742a0e3e8857",
        "030bf925fa1b8743",
    ]
