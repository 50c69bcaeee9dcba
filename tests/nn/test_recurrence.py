"""The recurrence: the paper's facts about it, and its gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.kernels.methods import run as run_recurrence
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.nn.weight import recurrent_weight
from tests.strategies import Weight, weights

TIME, INPUT_SIZE, BATCH = 6, 3, 2


def run(drawn: Weight, x: Tensor, weight: Tensor, bias: Tensor | None, recurrence: str = "linear") -> Tensor:
    relu = recurrence == "relu"
    return every_state(drawn.signs, drawn.block_size, x=x, weight=weight, bias=bias, relu=relu)


def every_state(signs: Tensor, block_size: int, **fields: Any) -> Tensor:
    output, _ = run_recurrence(Recurrence(signs, block_size, every_output=True, **fields))
    assert output is not None
    return output


def draw_network(drawn: Weight, output_size: int = 4) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return x, U, b_i, V, b_o."""
    hidden_size = drawn.hidden_size
    shapes = ((BATCH, TIME, INPUT_SIZE), (hidden_size, INPUT_SIZE), (hidden_size,))
    x, weight, bias = (torch.randn(*shape, dtype=torch.float64) for shape in shapes)
    readout = torch.randn(output_size, hidden_size, dtype=torch.float64)
    return x, weight, bias, readout, torch.randn(output_size, dtype=torch.float64)


@given(weights())
def test_the_loop_is_the_papers_equation_written_out(drawn: Weight) -> None:
    x, weight, bias, _, _ = draw_network(drawn)
    w = recurrent_weight(drawn.signs, drawn.block_size)
    h = torch.zeros(BATCH, drawn.hidden_size, dtype=torch.float64)
    output = run(drawn, x, weight, bias)
    for t in range(TIME):
        h = h @ w.T + x[:, t] @ weight.T + bias
        torch.testing.assert_close(output[:, t], h)


@given(weights(), st.floats(0.01, 100), st.sampled_from(["linear", "relu"]))
def test_outputs_do_not_depend_on_the_scale_of_the_state(
    drawn: Weight, scale: float, recurrence: str
) -> None:
    """(W, b_i, U, V, b_o) and (W, lambda b_i, lambda U, V / lambda, b_o) are one network."""
    x, weight, bias, readout, readout_bias = draw_network(drawn)

    def logits(scale: float) -> Tensor:
        states = run(drawn, x, scale * weight, scale * bias, recurrence)
        return torch.relu(states) @ (readout / scale).T + readout_bias

    torch.testing.assert_close(logits(scale), logits(1.0))


@given(weights(), st.integers(0, TIME - 1))
def test_a_perturbation_of_any_input_moves_the_last_state_by_its_own_norm(drawn: Weight, t: int) -> None:
    """g_T = h_T + W^(T-t) U z_t, so ||g_T - h_T|| = ||U z_t|| whatever t."""
    x, weight, bias, _, _ = draw_network(drawn)
    z_t = torch.randn(BATCH, INPUT_SIZE, dtype=torch.float64)
    perturbed = x.clone()
    perturbed[:, t] += z_t
    moved = run(drawn, perturbed, weight, bias)[:, -1] - run(drawn, x, weight, bias)[:, -1]
    power = torch.linalg.matrix_power(recurrent_weight(drawn.signs, drawn.block_size), TIME - 1 - t)

    torch.testing.assert_close(moved, z_t @ weight.T @ power.T)
    torch.testing.assert_close(moved.norm(dim=1), (z_t @ weight.T).norm(dim=1))


@given(weights())
def test_switching_columns_instead_of_rows_only_changes_signs_of_the_state(drawn: Weight) -> None:
    """The row/column proposition: h'_t = diag(u) h_t."""
    x, weight, bias, _, _ = draw_network(drawn)
    u = drawn.signs
    switched = {"x": x, "weight": u[:, None] * weight, "bias": u * bias}
    output = every_state(torch.ones_like(u), drawn.block_size, column_signs=u, **switched)

    torch.testing.assert_close(output, u * run(drawn, x, weight, bias))


@given(weights())
def test_switching_rows_and_columns_is_switching_rows(drawn: Weight) -> None:
    """W(u, v) with (U, b_i) has the states diag(v) h_t of W(v u) with (v U, v b_i)."""
    x, weight, bias, _, _ = draw_network(drawn)
    u, v = drawn.signs, drawn.column_signs
    both = every_state(u, drawn.block_size, column_signs=v, x=x, weight=weight, bias=bias)
    rows = every_state(u * v, drawn.block_size, x=x, weight=v[:, None] * weight, bias=v * bias)

    torch.testing.assert_close(both, v * rows)


@given(
    weights(st.sampled_from([1, 2, 4, 12]), max_blocks=2),
    st.booleans(),
    st.booleans(),
    st.sampled_from(["linear", "relu"]),
)
@settings(max_examples=20)
def test_gradients_of_the_recurrence_in_all_its_arguments(
    drawn: Weight, columns: bool, lengths: bool, recurrence: str
) -> None:
    x, weight, bias, _, _ = draw_network(drawn)
    h_0 = torch.randn(BATCH, drawn.hidden_size, dtype=torch.float64)
    row_lengths = torch.tensor([TIME, TIME // 2]) if lengths else None
    if recurrence == "relu":
        # Away from the kink: everything positive, then everything of one row negative.
        x, weight, bias, h_0 = (value.abs() + 0.1 for value in (x, weight, bias, h_0))

    def states(x: Tensor, weight: Tensor, bias: Tensor, h_0: Tensor, u: Tensor, v: Tensor) -> Tensor:
        output, last = run_recurrence(
            Recurrence(
                u,
                drawn.block_size,
                column_signs=v if columns else None,
                relu=recurrence == "relu",
                x=x,
                weight=weight,
                bias=bias,
                h_0=h_0,
                lengths=row_lengths,
                every_output=True,
            )
        )
        assert output is not None
        return torch.cat([output.flatten(1), last], dim=1)

    values = states(x, weight, bias, h_0, drawn.signs, drawn.column_signs)
    if recurrence == "relu" and bool((values.abs() < 1e-3).logical_and(values != 0).any()):
        return
    arguments = (x, weight, bias, h_0, drawn.signs, drawn.column_signs)
    inputs = tuple(argument.clone().requires_grad_() for argument in arguments)
    assert torch.autograd.gradcheck(states, inputs)


@given(weights())
def test_one_hot_tokens_are_dense_one_hot_vectors(drawn: Weight) -> None:
    weight = torch.randn(drawn.hidden_size, INPUT_SIZE, dtype=torch.float64)
    bias = torch.randn(drawn.hidden_size, dtype=torch.float64)
    ids = torch.randint(INPUT_SIZE, (BATCH, TIME))
    dense = torch.nn.functional.one_hot(ids, INPUT_SIZE).double()
    tokens = Recurrence(drawn.signs, drawn.block_size, ids=ids, weight=weight.T + bias)
    output, last = run_recurrence(replace(tokens, every_output=True))

    assert output is not None
    torch.testing.assert_close(output, run(drawn, dense, weight, bias))
    torch.testing.assert_close(last, output[:, -1])


def test_no_time_steps_leave_the_initial_state() -> None:
    h_0 = torch.randn(2, 4)
    nothing = Recurrence(torch.ones(4), 4, x=torch.zeros(2, 0, 1), weight=torch.ones(4, 1), h_0=h_0)
    output, last = run_recurrence(replace(nothing, every_output=True))

    assert output is not None and output.shape == (2, 0, 4)
    assert torch.equal(last, h_0)
