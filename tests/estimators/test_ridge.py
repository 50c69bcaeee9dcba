"""Ridge by its definition: left-out answers, weights as repetitions, moments that add up."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge
from torch import Tensor

from hadamrnn.estimators.goals import Values
from hadamrnn.estimators.ridge import Moments, solve


def draw_rows(count: int, width: int, seed: int = 0) -> tuple[Tensor, Values]:
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(count, width)) @ rng.normal(size=(width, width)) + rng.normal(size=width)
    targets = features[:, :2] + rng.normal(size=(count, 2))
    weights = torch.from_numpy(rng.integers(1, 4, count).astype(np.float64))
    return torch.from_numpy(features), Values(torch.from_numpy(targets), weights, weights.clamp(max=1.0))


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_left_out_answers_are_those_of_fits_without_the_row(count: int, width: int, penalty: float) -> None:
    features, goal = draw_rows(count, width)
    found = solve(features, goal, (penalty,))
    z = (features - found.mean) / found.spread
    for i in range(count):
        weights = goal.weights.clone()
        weights[i] -= 1
        ridge = Ridge(alpha=penalty * goal.weight).fit(z.numpy(), goal.targets.numpy(), weights.numpy())
        torch.testing.assert_close(
            found.left_out[i], torch.from_numpy(ridge.predict(z[i : i + 1].numpy())[0]), rtol=1e-7, atol=1e-8
        )


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
@pytest.mark.parametrize("penalty", [1e-3, 1.0])
def test_answers_to_a_fold_are_those_of_fits_without_it(count: int, width: int, penalty: float) -> None:
    features, goal = draw_rows(count, width)
    found = solve(features, goal, (penalty,), folds=torch.arange(count) % 3)
    z = ((features - found.mean) / found.spread).numpy()
    for fold in range(3):
        left, kept = (torch.arange(count) % 3 == fold).numpy(), (torch.arange(count) % 3 != fold).numpy()
        ridge = Ridge(alpha=penalty * goal.weight)
        ridge.fit(z[kept], goal.targets[kept].numpy(), goal.weights[kept].numpy())
        torch.testing.assert_close(
            found.left_out[left], torch.from_numpy(ridge.predict(z[left])), rtol=1e-7, atol=1e-7
        )


@pytest.mark.parametrize(("count", "width"), [(12, 30), (30, 12)])
def test_a_weight_of_two_is_the_row_twice(count: int, width: int) -> None:
    features, goal = draw_rows(count, width)
    times = goal.weights.long()
    ones = torch.ones(int(times.sum()), dtype=torch.float64)
    repeated = Values(goal.targets.repeat_interleave(times, 0), ones, ones)
    once, again = solve(features, goal), solve(features.repeat_interleave(times, 0), repeated)

    assert once.penalty == again.penalty
    torch.testing.assert_close(once.coefficients, again.coefficients, rtol=1e-6, atol=1e-9)
    torch.testing.assert_close(once.error, again.error, rtol=1e-9, atol=0.0)


def test_moments_of_parts_add_up() -> None:
    features, goal = draw_rows(50, 8)
    parts = [
        Moments.of(features[part], goal.at(part))
        for part in (torch.arange(0, 7), torch.arange(7, 30), torch.arange(30, 50))
    ]
    total = parts[0] + parts[1] + parts[2]
    whole = Moments.of(features, goal)
    found = solve(features, goal, moments=total)

    torch.testing.assert_close(total.covariance, whole.covariance)
    torch.testing.assert_close(found.coefficients, solve(features, goal).coefficients)
