"""Fused normalisation: the native form equals the plain one, and only valid steps count."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.kernels.norm import normalized, plain_normalized

EPSILON = 1e-5
Case = tuple[Tensor, Tensor, Tensor, Tensor | None, Tensor | None]


def make_case(
    batch: int,
    time: int,
    size: int,
    *,
    with_lengths: bool = False,
    with_skip: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Case:
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    h = draw(batch, time, size) * 3 + 5 * draw(size)
    lengths = None
    if with_lengths:
        lengths = torch.randint(time + 1, (batch,), generator=generator)
        lengths[0] = time
        h = h * (torch.arange(time) < lengths[:, None])[:, :, None]
    skip = draw(batch, time, size).requires_grad_() if with_skip else None
    return h.requires_grad_(), draw(size).requires_grad_(), draw(size).requires_grad_(), lengths, skip


def gradients(case: Case, y: Tensor) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    asking = [tensor for tensor in case if tensor is not None and tensor.requires_grad]
    return torch.autograd.grad((y * weights).sum(), asking)


@settings(max_examples=40)
@given(
    batch=st.integers(1, 40),
    time=st.integers(2, 90),
    size=st.integers(1, 40),
    with_lengths=st.booleans(),
    with_skip=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_the_native_normalisation_is_the_plain_one(
    batch: int, time: int, size: int, with_lengths: bool, with_skip: bool, seed: int
) -> None:
    case = make_case(batch, time, size, with_lengths=with_lengths, with_skip=with_skip, seed=seed)
    found, expected = normalized(*case, EPSILON), plain_normalized(*case, EPSILON)

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(case, found[0]), gradients(case, expected[0]))


@pytest.mark.parametrize("with_lengths", [False, True])
def test_the_normalisation_passes_gradcheck_and_gradgradcheck(with_lengths: bool) -> None:
    case = make_case(3, 4, 3, with_lengths=with_lengths, with_skip=True)
    asking = [tensor for tensor in case if tensor is not None and tensor.requires_grad]
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(lambda *_: normalized(*case, EPSILON)[0], asking)


def test_a_mean_far_above_the_spread_loses_no_digits() -> None:
    h, weight, bias, _, _ = make_case(64, 500, 8, dtype=torch.float32)
    h = (h.detach() - h.detach().mean((0, 1))) / h.detach().std((0, 1)) + 1000
    _, mean, var = normalized(h, weight, bias, None, None, EPSILON)
    exact = h.double().flatten(0, 1)

    torch.testing.assert_close(mean.double(), exact.mean(0), rtol=1e-7, atol=0)
    torch.testing.assert_close(var.double(), exact.var(0, correction=0), rtol=1e-5, atol=0)


@pytest.mark.usefixtures("native")
def test_the_bits_of_the_normalisation_do_not_depend_on_the_threads() -> None:
    case = make_case(70, 40, 33, with_lengths=True, with_skip=True, dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        results = normalized(*case, EPSILON)
        found.append((*results, *gradients(case, results[0])))
    torch.set_num_threads(before)

    for others in found[1:]:
        assert all(map(torch.equal, others, found[0]))


def test_a_state_that_is_not_a_number_stays_one() -> None:
    h, weight, bias, _, _ = make_case(2, 3, 2)
    h = h.detach()
    h[0, 0, 0] = torch.nan

    assert normalized(h, weight, bias, None, None, EPSILON)[0][:, :, 0].isnan().all()
