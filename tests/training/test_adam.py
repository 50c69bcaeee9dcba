"""Adam in one thread is torch's AdamW."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from hadamrnn.training.schedule import LARGEST, Adam


def parameters(dtype: torch.dtype, *shapes: tuple[int, ...]) -> list[nn.Parameter]:
    generator = torch.Generator().manual_seed(0)
    return [nn.Parameter(torch.randn(shape, generator=generator, dtype=dtype)) for shape in shapes]


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 2e-6), (torch.float64, 1e-13)])
def test_it_is_torchs_adamw(dtype: torch.dtype, tolerance: float) -> None:
    """Groups, decay, falling rates, a gradient that appears late, gradients of all sizes."""
    mine, theirs = (parameters(dtype, (3, 5), (7,), (), (2, 0)) for _ in range(2))
    settings: dict[str, Any] = {"lr": 0.01, "betas": (0.9, 0.95)}
    optimizers: list[torch.optim.AdamW] = []
    for kind, some in ((Adam, mine), (torch.optim.AdamW, theirs)):
        decays = ((some[:2], 0.1), (some[2:], 0.0))
        groups = [{"params": part, "weight_decay": decay, "eps": 1e-6} for part, decay in decays]
        optimizers.append(kind(groups, **settings))
    generator = torch.Generator().manual_seed(1)

    for step in range(30):
        for index, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            gradient = torch.randn(one.shape, generator=generator, dtype=dtype) * 10.0 ** (step % 7 - 4)
            waits = index == 1 and step < 4
            one.grad, other.grad = (None, None) if waits else (gradient, gradient.clone())
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.01 / (step + 1)
            optimizer.step()

    for one, other in zip(mine, theirs, strict=True):
        torch.testing.assert_close(one, other, rtol=tolerance, atol=tolerance)
        for name in ("step", "exp_avg", "exp_avg_sq"):
            states = [o.state[p][name] for o, p in zip(optimizers, (one, other), strict=True)]
            torch.testing.assert_close(*states, rtol=tolerance, atol=1e-30)


@pytest.mark.parametrize("kinds", [(Adam, torch.optim.AdamW), (torch.optim.AdamW, Adam)])
def test_a_state_goes_on_in_the_other_optimizer(kinds: tuple[type[torch.optim.AdamW], ...]) -> None:
    (one,), (other,) = (parameters(torch.float64, (4, 4)) for _ in range(2))
    groups = ([{"params": [parameter], "weight_decay": 0.1}] for parameter in (one, other))
    first, second = (kind(group, lr=0.1) for kind, group in zip(kinds, groups, strict=True))
    one.grad, other.grad = torch.ones_like(one), torch.ones_like(other)
    first.step()
    other.data.copy_(one)
    second.load_state_dict(first.state_dict())

    first.step()
    second.step()

    torch.testing.assert_close(one, other, rtol=1e-13, atol=0)


@pytest.mark.parametrize(("size", "dtype"), [(LARGEST + 1, torch.float32), (4, torch.bfloat16)])
def test_large_parameters_and_other_types_are_left_to_torch(size: int, dtype: torch.dtype) -> None:
    """Sizes and types alone decide, so the bits of a run do not depend on the threads."""
    mine, theirs = (parameters(dtype, (size,), (3,)) for _ in range(2))
    for optimizer, some in (
        (Adam(mine, lr=0.1), mine),
        (torch.optim.AdamW(theirs, lr=0.1, weight_decay=0.0, fused=True), theirs),
    ):
        for parameter in some:
            parameter.grad = parameter.detach().clone()
        optimizer.step()

    assert all(torch.equal(one, other) for one, other in zip(mine, theirs, strict=True))


def test_a_closure_is_evaluated_with_gradients() -> None:
    (weight,) = parameters(torch.float32, (3,))
    adam = Adam([weight], lr=0.1)

    def closure() -> float:
        adam.zero_grad()
        loss = weight.square().sum()
        loss.backward()
        return loss.item()

    first, _, third = (adam.step(closure) for _ in range(3))
    assert first is not None and third is not None and third < first


def test_a_parameter_that_is_added_later_decides_too() -> None:
    small, large = parameters(torch.float32, (3,), (LARGEST + 1,))
    adam = Adam([small], lr=0.1)
    adam.add_param_group({"params": [large]})
    large.grad = torch.ones_like(large)
    before = large.detach().clone()

    adam.step()

    torch.testing.assert_close(large, before - 0.1)
