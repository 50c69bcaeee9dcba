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
    labels: NDArray[np.int64] = np.repeat(np.arange(12) % 3, 2)  # one class per group
    for seed in range(20):
        parts = group_parts(groups, labels, seed)
        assert set(labels[parts[0]]) == {0, 1, 2}
        assert not any(set(groups[a]) & set(groups[b]) for a, b in itertools.combinations(parts, 2))


@pytest.mark.parametrize(
    ("groups", "classes", "shares", "held"),
    [
        (5, 2, (0.15, 0.15), [[2], [4]]),
        (7, 3, (0.15, 0.15), [[2], [3]]),
        (13, 4, (0.15, 0.15), [[5, 9], [10, 12]]),
        (40, 2, (0.15, 0.15), [[6, 9, 11, 12, 15, 26, 34], [2, 5, 8, 19, 25, 30, 38]]),
        (130, 3, (0.05, 0.03), [[6, 42, 78, 82, 110, 114, 129], [18, 46, 60, 83, 127, 128]]),
        (9, 3, (0.0, 0.2), [[], [1, 2, 7]]),
        (12, 3, (0.3, 0.0), [[6, 7, 10, 11], []]),
    ],
)
def test_a_seed_gives_the_groups_that_the_published_figures_held_out(
    groups: int, classes: int, shares: tuple[float, float], held: list[list[int]]
) -> None:
    rng = np.random.RandomState(groups)
    group, label = rng.randint(groups, size=5 * groups), rng.randint(classes, size=5 * groups)

    _, *parts = group_parts(group, label, 3, weights=1 + label, shares=shares)

    assert [np.unique(group[part.numpy()]).tolist() for part in parts] == held


def test_a_seed_gives_the_samples_that_the_published_figures_held_out() -> None:
    labels = np.random.RandomState(0).randint(3, size=30)

    _, validation, test = stratified_parts(labels, seed=5)

    assert validation.tolist() == [4, 5, 10, 18, 20]
    assert test.tolist() == [6, 13, 21, 23, 24]
