"""Ridge by its definition: leave-one-out predictions, weights as repetitions, moments that add up."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from hadamrnn.estimators.ridge import Moments, solve
from hadamrnn.estimators.target import ValueTarget


def draw_rows(count: int, width: int, seed: int = 0) -> tuple[Tensor, ValueTarget]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, width)) @ rng.normal(size=(width, width)) + rng.normal(size=width)
    targets = features[:, :2] + rng.normal(size=(count, 2))
    weights = torch.from_numpy(rng.integers(1, 4, count).astype(np.float64))
    return torch.from_numpy(features), ValueTarget(torch.from_numpy(targets), weights, torch.arange(count))


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
@pytest.mark.parametrize("copies", [1, 2, 3])
def test_leave_one_out_is_the_fit_without_the_row_and_all_its_copies(
    count: int, width: int, penalty: float, copies: int
) -> None:
    """The row's whole weight is left out; copies of it may have other targets."""
    features, target = draw_rows(count, width)
    groups = torch.arange(count) // copies
    features, target = features[groups], replace(target, groups=groups)
    found = solve(features, target, (penalty,))
    z = ((features - found.mean) / found.spread).numpy()
    for group in groups.unique():
        left, kept = (groups == group).numpy(), (groups != group).numpy()
        ridge = Ridge(alpha=penalty * target.weight)
        ridge.fit(z[kept], target.values[kept].numpy(), target.weights[kept].numpy())
        torch.testing.assert_close(
            found.held_out[left], torch.from_numpy(ridge.predict(z[left])), rtol=1e-7, atol=1e-7
        )


def test_leave_one_out_in_a_stream_is_the_fit_to_all_other_rows() -> None:
    """Only the first 10 of 30 rows are available; the others are given as moments."""
    features, target = draw_rows(30, 12)
    some = torch.arange(10)
    found = solve(features[some], target.at(some), (1.0,), moments=Moments.of(features, target))

    torch.testing.assert_close(found.held_out, solve(features, target, (1.0,)).held_out[some])


def test_a_group_that_is_all_there_is_is_predicted_by_the_mean() -> None:
    features, target = draw_rows(1, 4)
    weights, values = target.weights.new_tensor([2.0, 1.0]), target.values.new_tensor([[1.0], [4.0]])
    target = ValueTarget(values, weights, torch.zeros(2))
    found = solve(features.expand(2, 4), target)

    torch.testing.assert_close(found.held_out, torch.full((2, 1), 2.0, dtype=torch.float64))


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_answers_to_a_fold_are_those_of_fits_without_it(count: int, width: int, penalty: float) -> None:
    features, target = draw_rows(count, width)
    found = solve(features, target, (penalty,), folds=torch.arange(count) % 3)
    z = ((features - found.mean) / found.spread).numpy()
    for fold in range(3):
        left, kept = (torch.arange(count) % 3 == fold).numpy(), (torch.arange(count) % 3 != fold).numpy()
        ridge = Ridge(alpha=penalty * target.weight)
        ridge.fit(z[kept], target.values[kept].numpy(), target.weights[kept].numpy())
        torch.testing.assert_close(
            found.held_out[left], torch.from_numpy(ridge.predict(z[left])), rtol=1e-7, atol=1e-7
        )


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
def test_a_weight_of_two_is_the_row_twice(count: int, width: int) -> None:
    features, target = draw_rows(count, width)
    times = target.weights.long()
    groups = target.groups.repeat_interleave(times)
    repeated = ValueTarget(target.values[groups], torch.ones_like(groups).double(), groups)
    once, again = solve(features, target), solve(features.repeat_interleave(times, 0), repeated)

    assert once.penalty == again.penalty
    torch.testing.assert_close(once.coefficients, again.coefficients, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(once.error, again.error, rtol=1e-9, atol=0.0)


def test_moments_of_parts_add_up() -> None:
    features, target = draw_rows(50, 8)
    parts = [
        Moments.of(features[part], target.at(part))
        for part in (torch.arange(0, 7), torch.arange(7, 30), torch.arange(30, 50))
    ]
    total = parts[0] + parts[1] + parts[2]
    whole = Moments.of(features, target)
    found = solve(features, target, moments=total)

    torch.testing.assert_close(total.covariance, whole.covariance)
    torch.testing.assert_close(found.coefficients, solve(features, target).coefficients)


def test_leave_one_out_does_not_depend_on_the_order_of_the_rows() -> None:
    """With few rows and many features 1 - h w is about 1e-5, and must not suffer from the rounding of h."""
    features, target = draw_rows(9, 1000)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    plain, shuffled = solve(features, target, (1e-3,)), solve(features[order], target.at(order), (1e-3,))

    torch.testing.assert_close(shuffled.held_out, plain.held_out[order], rtol=1e-8, atol=1e-8)
