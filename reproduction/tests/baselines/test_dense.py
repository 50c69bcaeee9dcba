"""The dense recurrences: every fast form equals the loop, and so do its gradients."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn_paper.baselines.dense import (
    dense_states,
    folded_end_state,
    kernel_end_state,
    right_aligned,
    states_loop,
)
from reproduction.tests.baselines.conftest import orthogonal


@given(st.integers(0, 40), st.integers(1, 5), st.integers(1, 6), st.integers(1, 3))
@settings(max_examples=60)
def test_a_linear_network_ends_where_the_loop_ends(time: int, batch: int, hidden: int, inputs: int) -> None:
    x = torch.randn(batch, time, inputs, dtype=torch.float64)
    weight, projection = orthogonal(hidden), torch.randn(hidden, inputs, dtype=torch.float64)
    z = x @ projection.T
    states = states_loop(z, weight, "linear")
    expected = states[:, -1] if time else torch.zeros(batch, hidden, dtype=torch.float64)

    torch.testing.assert_close(kernel_end_state(x, weight, projection), expected)
    torch.testing.assert_close(folded_end_state(z, weight), expected)


@pytest.mark.parametrize("recurrence", ["linear", "relu"])
@given(st.integers(0, 20), st.integers(1, 5), st.integers(1, 6))
@settings(max_examples=30)
def test_the_written_out_adjoint_is_autograds(recurrence: str, time: int, batch: int, hidden: int) -> None:
    z = torch.randn(batch, time, hidden, dtype=torch.float64, requires_grad=True)
    weight = orthogonal(hidden).requires_grad_()
    pull = torch.randn(batch, time, hidden, dtype=torch.float64)
    plain, fast = states_loop(z, weight, recurrence), dense_states(z, weight, recurrence)

    torch.testing.assert_close(fast, plain)
    if time:
        expected = torch.autograd.grad(plain, (z, weight), pull)
        torch.testing.assert_close(torch.autograd.grad(fast, (z, weight), pull), expected)


@pytest.mark.parametrize("recurrence", ["linear", "relu"])
def test_input_and_incoming_gradient_are_left_alone(recurrence: str) -> None:
    # A single row is contiguous in both layouts: the only case in which a transposed copy could be a view.
    z = torch.randn(1, 4, 3, dtype=torch.float64, requires_grad=True)
    pull, weight = torch.randn(1, 4, 3, dtype=torch.float64), orthogonal(3)
    before = z.detach().clone(), pull.clone()
    torch.autograd.grad(dense_states(z, weight, recurrence), z, pull)

    assert torch.equal(z, before[0]) and torch.equal(pull, before[1])
    assert torch.autograd.gradcheck(lambda z: dense_states(z, weight, recurrence), z)


def test_kernel_and_folded_forms_have_the_loops_gradients() -> None:
    x = torch.randn(3, 11, 2, dtype=torch.float64, requires_grad=True)
    weight = orthogonal(4).requires_grad_()
    projection = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    leaves = (x, weight, projection)
    pull = torch.randn(3, 4, dtype=torch.float64)
    expected = torch.autograd.grad(states_loop(x @ projection.T, weight, "linear")[:, -1], leaves, pull)

    kernel = kernel_end_state(x, weight, projection)
    torch.testing.assert_close(torch.autograd.grad(kernel, leaves, pull), expected)
    folded = folded_end_state(x @ projection.T, weight)
    torch.testing.assert_close(torch.autograd.grad(folded, leaves, pull), expected)


def test_rows_are_moved_to_the_end_behind_zeros() -> None:
    x = torch.arange(1.0, 9.0).reshape(2, 4, 1)

    moved = right_aligned(x, torch.tensor([3, 0]))

    assert moved.squeeze(-1).tolist() == [[0, 1, 2, 3], [0, 0, 0, 0]]
