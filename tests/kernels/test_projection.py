"""The dense products between layers: the native form is torch's."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn.functional import linear

from hadamrnn.errors import InputError
from hadamrnn.kernels.projection import project, project_operator
from hadamrnn.kernels.recurrence import NARROW_INPUT, Recurrence
from hadamrnn.kernels.scan import scan

Case = tuple[Tensor, Tensor, Tensor | None]


def make_case(
    positions: int, inputs: int, outputs: int, *, with_bias: bool = True, dtype: torch.dtype = torch.float64
) -> Case:
    generator = torch.Generator().manual_seed(positions)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    return draw(positions, inputs), draw(outputs, inputs), draw(outputs) if with_bias else None


def gradients(case: Case, z: Tensor) -> tuple[Tensor, ...]:
    weights = torch.linspace(-1, 1, z.numel(), dtype=z.dtype).reshape(z.shape)
    return torch.autograd.grad((z * weights).sum(), [tensor for tensor in case if tensor is not None])


@settings(max_examples=40)
@given(
    positions=st.integers(0, 1300),
    inputs=st.integers(0, 70),
    outputs=st.integers(1, 70),
    with_bias=st.booleans(),
)
def test_the_native_projection_is_the_linear_map(
    positions: int, inputs: int, outputs: int, with_bias: bool
) -> None:
    case = make_case(positions, inputs, outputs, with_bias=with_bias)
    found, expected = project(*case), linear(*case)

    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(case, found), gradients(case, expected))


def test_the_projection_passes_gradcheck_and_gradgradcheck() -> None:
    case = make_case(5, 4, 3)
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        assert check(project, case)


@pytest.mark.usefixtures("native")
def test_the_bits_of_the_projection_do_not_depend_on_the_threads() -> None:
    case = make_case(3000, 33, 70, dtype=torch.float32)
    before = torch.get_num_threads()
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        z = project(*case)
        found.append((z, *gradients(case, z)))
    torch.set_num_threads(before)

    for others in found[1:]:
        assert all(map(torch.equal, others, found[0]))


@pytest.mark.usefixtures("native")
def test_the_projection_passes_opcheck() -> None:
    torch.library.opcheck(project_operator, make_case(5, 7, 3))


@pytest.mark.usefixtures("native")
def test_a_weight_of_another_width_is_refused() -> None:
    x, weight, bias = make_case(5, 7, 3)
    with pytest.raises(InputError, match=r"x must be .* of shape \(5, 7\), got .* \(5, 6\)"):
        project(x[:, :6], weight, bias)


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("with_readout", [False, True])
def test_a_wide_input_gives_what_its_projected_rows_give(relu: bool, with_readout: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    batch, time, inputs, units = 5, 70, NARROW_INPUT + 19, 24

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_()

    x, weight, bias = draw(batch, time, inputs), draw(units, inputs), draw(units)
    signs = draw(units).detach().sign().requires_grad_()
    readout = {"output_weight": draw(3, units), "output_bias": draw(3), "sigma": True} if with_readout else {}
    lengths = torch.tensor([70, 0, 33, 69, 1])
    common: dict[str, Any] = {
        "block_size": 12,
        "relu": relu,
        "lengths": lengths,
        "every_output": True,
        **readout,
    }
    wide = scan(Recurrence(signs, x=x, weight=weight, bias=bias, **common))
    rows = scan(Recurrence(signs, x=linear(x, weight, bias), **common))

    torch.testing.assert_close(wide, rows)
    assert wide[0] is not None and rows[0] is not None
    asking = (x, weight, bias, signs, *(value for value in readout.values() if isinstance(value, Tensor)))
    found, expected = (
        torch.autograd.grad((output, last), asking, (torch.ones_like(output), torch.ones_like(last)))
        for output, last in ((wide[0], wide[1]), (rows[0], rows[1]))
    )
    torch.testing.assert_close(found, expected)
