"""W is orthogonal over a million steps, in float32 too."""

from __future__ import annotations

import platform

import pytest
import torch

from hadamrnn.kernels.library import native_status
from hadamrnn.kernels.methods import run, run_pooled
from hadamrnn.kernels.recurrence import Recurrence, fast_product
from hadamrnn.nn.rnn import HadamRNN

MILLION = 1_000_000
SIZES = [(512, 512), (128, 128), (24, 12), (32, 32)]
SHORT_CYCLES = [(72, 36), (2, 2), (16, 8)]


@pytest.fixture
def multiply_add(native: None) -> None:
    """Skip where a product and a sum are two instructions: there, roundings of short cycles do not cancel."""
    if native_status().isa == "baseline" and platform.machine() in ("x86_64", "AMD64"):
        pytest.skip("SSE2 has no multiply-add")


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(("hidden_size", "block_size"), SIZES)
def test_the_norm_of_a_state_stands_still_for_a_million_steps(hidden_size: int, block_size: int) -> None:
    check_norm(hidden_size, block_size)


@pytest.mark.usefixtures("multiply_add")
@pytest.mark.parametrize(("hidden_size", "block_size"), SHORT_CYCLES)
def test_it_stands_still_where_states_repeat_after_a_few_steps(hidden_size: int, block_size: int) -> None:
    check_norm(hidden_size, block_size)


def check_norm(hidden_size: int, block_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (hidden_size,), generator=generator) * 2.0 - 1
    h_0 = torch.randn(4, hidden_size, generator=generator)
    silence, weight = torch.empty(4, MILLION, 0), torch.empty(hidden_size, 0)
    with torch.no_grad():
        _, last = run(Recurrence(signs, block_size, x=silence, weight=weight, h_0=h_0))

    torch.testing.assert_close(last.norm() / h_0.norm(), torch.tensor(1.0), rtol=0, atol=1e-4)


@pytest.mark.usefixtures("multiply_add")
@pytest.mark.parametrize(("hidden_size", "block_size"), [(8, 8), (32, 8)])
def test_pools_see_a_state_of_the_same_norm_after_a_million_steps(hidden_size: int, block_size: int) -> None:
    signs = torch.ones(hidden_size)
    signs[::3] = -1
    impulse = torch.zeros(2, MILLION, 1)
    impulse[:, 0] = torch.tensor([[1.0], [-1.0]])
    weight = torch.randn(hidden_size, 1, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        up, down = run_pooled(Recurrence(signs, block_size, x=impulse, weight=weight), ("last", "max"))
    last = up[:hidden_size] - down[:hidden_size]  # ReLU(h) - ReLU(-h)

    torch.testing.assert_close(last.norm() / weight.norm(), torch.tensor(1.0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("hidden_size", "block_size"), SIZES + SHORT_CYCLES)
def test_plain_torch_rounds_its_scale_by_less_than_one_digit_over_all_units(
    hidden_size: int, block_size: int, dtype: torch.dtype
) -> None:
    signs = torch.ones(hidden_size, dtype=dtype)
    product = fast_product(Recurrence(signs, block_size, x=torch.zeros(1, 1, hidden_size, dtype=dtype)))
    rows = product(torch.eye(hidden_size, dtype=dtype)).double()

    assert abs(float(rows.square().sum(1).log().sum())) < 2 * torch.finfo(dtype).eps + 1e-11


def test_a_streaming_step_uses_the_same_rounding() -> None:
    rnn = HadamRNN(1, 512, bias=False)
    with torch.no_grad():
        rows = rnn.step(torch.zeros(512, 1), torch.eye(512)[None])[1][0].double()

    assert abs(float(rows.square().sum(1).log().sum())) < 2 * torch.finfo(torch.float32).eps + 1e-11
