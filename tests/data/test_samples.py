from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hadamrnn.data.samples import group_parts, stratified_parts
from hadamrnn.errors import InputError


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


def test_groups_are_drawn_until_every_part_has_every_class() -> None:
    groups = np.repeat(np.arange(12), 2)
    labels: NDArray[np.int64] = np.repeat(np.arange(12) % 3, 2)  # one class a group
    for seed in range(20):
        parts = group_parts(groups, labels, seed)
        assert set(labels[parts[0]]) == {0, 1, 2}
        assert not any(set(groups[a]) & set(groups[b]) for a, b in itertools.combinations(parts, 2))
