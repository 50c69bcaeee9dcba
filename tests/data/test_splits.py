from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data import Split
from hadamrnn.data.samples import pad_left, stratified_parts
from hadamrnn.data.splits import standardise
from hadamrnn.errors import InputError


@pytest.mark.parametrize("index", [torch.tensor([2, 0]), slice(1, 3)])
def test_a_batch_is_the_rows_at_the_index(index: torch.Tensor | slice) -> None:
    x = torch.randn(3, 5, 2)
    split = Split(x, torch.tensor([4, 5, 6]), lengths=torch.tensor([1, 5, 3]))

    batch_x, y, lengths = split.batch(index)

    assert len(split) == 3
    assert torch.equal(batch_x, x[index])
    assert y is not None and torch.equal(y, torch.tensor([4, 5, 6])[index])
    assert lengths is not None and torch.equal(lengths, torch.tensor([1, 5, 3])[index])


def test_codes_become_their_share_of_the_levels_and_ids_stay_integers() -> None:
    codes = torch.arange(256, dtype=torch.uint8).reshape(1, 256, 1)

    dense, _, _ = Split(codes, None, levels=255).batch(slice(None))
    ids, y, lengths = Split(codes.squeeze(-1), None).batch(slice(None))

    assert torch.equal(dense.squeeze(), torch.arange(256) / 255)
    assert ids.dtype == torch.int64 and torch.equal(ids.squeeze(), torch.arange(256))
    assert y is None and lengths is None


def test_regression_targets_stay_floats() -> None:
    _, y, _ = Split(torch.zeros(1, 2, 1), torch.tensor([[0.5]])).batch(slice(None))
    assert y is not None and y.dtype == torch.float32


@given(st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=20)
def test_standardised_channels_have_mean_zero_and_variance_one(seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(20, 7, 3, generator=generator) * torch.tensor([1e-3, 1.0, 50.0]) + torch.tensor(
        [5.0, 0, -9]
    )

    offset, scale = standardise(x)
    steps = ((x.double() - offset) / scale).reshape(-1, 3)

    # offset is rounded to float32: relative to a scale of 1e-3 at 5.0 that is 2.4e-4
    torch.testing.assert_close(steps.mean(0), torch.zeros(3).double(), atol=3e-4, rtol=0)
    torch.testing.assert_close(steps.std(0, unbiased=False), torch.ones(3).double(), atol=1e-6, rtol=0)


def test_standardising_skips_invalid_steps_and_leaves_constants_finite() -> None:
    x = torch.tensor([[[1.0, 0.1], [3.0, 0.1], [99.0, 7.0]]])

    offset, scale = standardise(x, valid=torch.tensor([[True, True, False]]))

    torch.testing.assert_close(offset, torch.tensor([2.0, 0.1]))
    assert scale.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("size", [10_000, 2**15, 2**15 + 1])
def test_padded_ids_hold_the_largest_of_the_vocabulary(size: int) -> None:
    assert pad_left([[size - 1]], length=2, vocabulary_size=size).tolist() == [[0, size - 1]]


@given(st.lists(st.integers(3, 40), min_size=1, max_size=6), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=50)
def test_stratified_parts_are_a_partition_with_every_class_in_each(counts: list[int], seed: int) -> None:
    labels = np.random.RandomState(seed).permutation(np.repeat(np.arange(len(counts)), counts))

    parts = stratified_parts(labels, seed)

    assert sorted(torch.cat(parts).tolist()) == list(range(len(labels)))
    for part in parts:
        assert set(torch.from_numpy(labels)[part].tolist()) == set(range(len(counts)))
    assert all(torch.equal(a, b) for a, b in zip(parts, stratified_parts(labels, seed), strict=True))


def test_a_class_of_two_cannot_be_in_three_parts() -> None:
    with pytest.raises(InputError, match="got 2 of class 1"):
        stratified_parts(np.array([0, 0, 0, 1, 1]), seed=0)
