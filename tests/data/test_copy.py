from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data.splits import Split
from hadamrnn.data.tasks import load_task
from hadamrnn.errors import InputError


def plain_copy_sample(sentence: list[int], delay: int) -> tuple[list[int], list[int]]:
    """Write one sample as the paper's text does."""
    length = len(sentence)
    x = sentence + [0] * delay + [9] + [0] * (length - 1)
    y = [0] * (delay + length) + sentence
    return x, y


@given(st.integers(1, 12), st.integers(1, 30), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=30)
def test_a_batch_is_the_papers_sequences(sentence_length: int, delay: int, seed: int) -> None:
    splits = load_task("copy", sentence_length=sentence_length, delay=delay, train_size=4, seed=seed)
    index = torch.tensor([3, 1])

    x, y, _ = splits.train.batch(index)

    assert y is not None and x.shape == y.shape == (2, splits.seq_length)
    for row, sample in enumerate(index):
        assert plain_copy_sample(splits.train.x[sample].tolist(), delay) == (x[row].tolist(), y[row].tolist())


def test_the_defaults_are_the_papers(fingerprint: Callable[[Split], str]) -> None:
    splits = load_task("copy")

    assert [len(split) for split in (splits.train, splits.validation, splits.test)] == [512_000, 2_000, 2_000]
    assert (splits.seq_length, splits.input_size, splits.output_size) == (1020, 10, 9)
    assert splits.one_hot and splits.every_output and splits.metric == "cross_entropy"
    share = torch.bincount(splits.train.x.flatten(), minlength=10) / splits.train.x.numel()
    torch.testing.assert_close(share[1:9], torch.full((8,), 1 / 8), atol=1e-3, rtol=0)
    assert share[0] == share[9] == 0
    assert [fingerprint(split) for split in (splits.train, splits.validation, splits.test)] == [
        "3fd5981959b4e32e",
        "13618fc3d3d7032b",
        "f5d4689b908eb86f",
    ]


def test_a_part_depends_on_the_seed_and_not_on_the_other_sizes() -> None:
    one = load_task("copy", train_size=10, seed=5)
    other = load_task("copy", train_size=20, seed=5)

    assert torch.equal(one.test.x, other.test.x) and torch.equal(one.train.x, other.train.x[:10])
    assert not torch.equal(one.test.x, one.validation.x)
    assert not torch.equal(one.test.x, load_task("copy", train_size=10, seed=6).test.x)


@pytest.mark.parametrize("option", ["sentence_length", "delay", "train_size", "validation_size", "test_size"])
def test_sizes_are_positive(option: str) -> None:
    options: dict[str, Any] = {option: 0}
    with pytest.raises(InputError, match=f"{option} must lie in 1\\.\\."):
        load_task("copy", **options)


def test_a_seed_is_what_the_generator_takes() -> None:
    with pytest.raises(InputError, match="got -1"):
        load_task("copy", seed=-1)
