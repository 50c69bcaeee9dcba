"""W is orthogonal over a million steps, in float32 too."""

from __future__ import annotations

import pytest
import torch

from hadamrnn.kernels.methods import run
from hadamrnn.kernels.recurrence import Recurrence, fast_product

MILLION = 1_000_000


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize(("hidden_size", "block_size"), [(512, 512), (128, 128), (24, 12)])
def test_the_norm_of_a_state_stands_still_for_a_million_steps(hidden_size: int, block_size: int) -> None:
    generator = torch.Generator().manual_seed(0)
    signs = torch.randint(2, (hidden_size,), generator=generator) * 2.0 - 1
    h_0 = torch.randn(4, hidden_size, generator=generator)
    silence, weight = torch.empty(4, MILLION, 0), torch.empty(hidden_size, 0)
    with torch.no_grad():
        _, last = run(Recurrence(signs, block_size, x=silence, weight=weight, h_0=h_0))

    torch.testing.assert_close(last.norm() / h_0.norm(), torch.tensor(1.0), rtol=0, atol=1e-4)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("hidden_size", "block_size"), [(512, 512), (128, 128), (24, 12)])
def test_plain_torch_rounds_its_scale_by_less_than_one_digit_over_all_units(
    hidden_size: int, block_size: int, dtype: torch.dtype
) -> None:
    signs = torch.ones(hidden_size, dtype=dtype)
    product = fast_product(Recurrence(signs, block_size, x=torch.zeros(1, 1, hidden_size, dtype=dtype)))
    rows = product(torch.eye(hidden_size, dtype=dtype)).double()

    assert abs(float(rows.square().sum(1).log().sum())) < 2 * torch.finfo(dtype).eps + 1e-11
