"""Bjorck's iteration: the nearest orthogonal matrix, and its gradient."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn_paper.baselines.orthogonal import bjorck, spectral_bound
from reproduction.tests.baselines.conftest import orthogonal


@given(st.integers(1, 24), st.floats(0.01, 100.0))
@settings(max_examples=40)
def test_bjorck_gives_the_polar_factor(size: int, scale: float) -> None:
    matrix = (
        orthogonal(size) @ torch.diag(torch.logspace(-2, 1, size, dtype=torch.float64)) @ orthogonal(size)
    )
    left, _, right = torch.linalg.svd(matrix)

    torch.testing.assert_close(bjorck(scale * matrix, 1e-10), left @ right, atol=1e-6, rtol=0)
    assert spectral_bound(matrix) >= torch.linalg.matrix_norm(matrix, 2) * (1 - 1e-12)


def test_the_gradient_flows_through_bjorck() -> None:
    # The number of iterations depends on the data but the limit does not, so a tight tolerance makes it
    # smooth.
    matrix = (orthogonal(4) + 0.1 * torch.randn(4, 4, dtype=torch.float64)).requires_grad_()

    assert torch.autograd.gradcheck(lambda matrix: bjorck(matrix, 1e-13), matrix, atol=1e-4)
