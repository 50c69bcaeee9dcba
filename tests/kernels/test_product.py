"""The projection of all steps at once: torch's linear layer and its derivatives, summed in a fixed order."""

from __future__ import annotations

import pytest
import torch
from torch.nn.functional import linear

from hadamrnn.kernels import product as module
from hadamrnn.kernels.call import sum_slices
from hadamrnn.kernels.product import product, project, sum_of_products

SHAPES = [(1, 1, 1), (7, 3, 5), (13, 130, 70), (40, 257, 65)]


@pytest.mark.parametrize(("rows", "depth", "columns"), SHAPES)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_both_products_are_those_of_torch(rows: int, depth: int, columns: int, dtype: torch.dtype) -> None:
    a, b = torch.randn(rows, depth, dtype=dtype), torch.randn(depth, columns, dtype=dtype)
    bias, c = torch.randn(columns, dtype=dtype), torch.randn(rows, columns, dtype=dtype)
    for found, terms, left, right in (
        (product(a, b, bias) - bias, depth, a, b),
        (sum_of_products(a, c), rows, torch.cat((a, a.new_ones(rows, 1)), dim=1).T, c),
    ):
        # A sum of n terms in any order is off by at most n eps times the sum of their magnitudes.
        bound = (terms + 2) * torch.finfo(dtype).eps * (left.abs() @ right.abs() + bias.abs().max())
        assert ((found.double() - left.double() @ right.double()).abs() <= bound).all()


@pytest.mark.parametrize("with_bias", [True, False])
def test_a_projection_has_the_derivatives_of_a_linear_layer(with_bias: bool) -> None:
    shapes = ((2, 9, 3), (5, 3)) + (((5,),) if with_bias else ())
    given = [torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in shapes]

    def function(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        return project(x, weight, bias)

    torch.testing.assert_close(function(*given), linear(*given))
    assert torch.autograd.gradcheck(function, given)
    assert torch.autograd.gradgradcheck(function, given)


def test_the_threads_do_not_change_a_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    a, b = torch.randn(100, 40), torch.randn(100, 30)
    found = []
    for threads in (1, 3):
        monkeypatch.setattr(torch, "get_num_threads", lambda threads=threads: threads)
        found.append((product(a.T, b), sum_of_products(a, b)))
    assert all(torch.equal(one, many) for one, many in zip(*found, strict=True))


def test_a_sum_is_cut_into_slices_by_its_multiplications(monkeypatch: pytest.MonkeyPatch) -> None:
    slices = []

    def add(parts: torch.Tensor) -> torch.Tensor:
        slices.append(len(parts))
        return sum_slices(parts)

    monkeypatch.setattr(module, "GRAIN", 6 * 8 * 100)
    monkeypatch.setattr(module, "sum_slices", add)
    for depth in (100, 101, 400):
        sum_of_products(torch.ones(depth, 6), torch.ones(depth, 8))

    assert slices == [1, 2, 4]
