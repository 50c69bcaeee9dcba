"""Cross-entropy: equal to torch's where torch is exact, and positive where torch rounds to zero."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn.functional import cross_entropy as torch_cross_entropy

from hadamrnn.errors import InputError
from hadamrnn.kernels import backend
from hadamrnn.kernels.loss import cross_entropy, cross_entropy_reference
from hadamrnn.nn.model import target_loss


@given(
    positions=st.integers(1, 700),
    classes=st.integers(2, 40),
    scale=st.sampled_from((0.1, 1.0, 30.0)),
    dtype=st.sampled_from((torch.float32, torch.float64)),
    seed=st.integers(0, 999),
)
def test_it_is_torchs_cross_entropy(
    positions: int, classes: int, scale: float, dtype: torch.dtype, seed: int
) -> None:
    torch.manual_seed(seed)
    logits = (scale * torch.randn(positions, classes, dtype=torch.float64)).to(dtype).requires_grad_()
    targets = torch.randint(classes, (positions,))
    exact = logits.detach().double().requires_grad_()
    expected = torch_cross_entropy(exact, targets)
    (expected_gradient,) = torch.autograd.grad(expected, exact)
    for function in (cross_entropy, cross_entropy_reference):
        loss = function(logits, targets)
        (gradient,) = torch.autograd.grad(loss, logits)
        rtol, atol = (1e-5, 1e-7) if dtype == torch.float32 else (1e-10, 1e-12)
        torch.testing.assert_close(loss.double(), expected, rtol=rtol, atol=atol)
        torch.testing.assert_close(gradient.double(), expected_gradient, rtol=rtol, atol=atol)


@pytest.mark.parametrize("native", [True, False])
@pytest.mark.parametrize("gap", [5.0, 20.0, 60.0])
def test_a_tiny_loss_keeps_its_digits_in_float32(
    gap: float, native: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not native:
        monkeypatch.setattr(backend, "native_is_loaded", lambda: False)
    logits = torch.tensor([[0.0, gap, 0.0]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([1]))
    (gradient,) = torch.autograd.grad(loss, logits)
    small = torch.tensor(-gap, dtype=torch.float64).exp()
    torch.testing.assert_close(loss.double(), torch.log1p(2 * small), rtol=1e-5, atol=0)
    torch.testing.assert_close(gradient[0, 1].double(), -2 * small / (1 + 2 * small), rtol=1e-5, atol=0)


def test_a_hopeless_loss_stays_finite() -> None:
    logits = torch.tensor([[0.0, 500.0, -500.0]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([2]))
    assert loss.item() == 1000.0
    (gradient,) = torch.autograd.grad(loss, logits)
    torch.testing.assert_close(gradient, torch.tensor([[0.0, 1.0, -1.0]]))


def test_a_leading_shape_is_flattened() -> None:
    logits, targets = torch.randn(4, 5, 3), torch.randint(3, (4, 5))
    flat = torch_cross_entropy(logits.flatten(0, 1), targets.flatten())
    torch.testing.assert_close(cross_entropy(logits, targets), flat)


@pytest.mark.filterwarnings("ignore")  # torch's compiler uses a deprecated part of itself
@pytest.mark.parametrize("factor", [1.0, 3.0])
def test_a_multiple_of_the_loss_has_that_multiple_of_its_gradient_compiled_too(factor: float) -> None:
    logits, targets = torch.randn(50, 5, requires_grad=True), torch.randint(5, (50,))
    (expected,) = torch.autograd.grad(cross_entropy_reference(logits, targets), logits)

    def scaled_loss(rows: torch.Tensor) -> torch.Tensor:
        return factor * cross_entropy(rows, targets)

    for function in (scaled_loss, torch.compile(scaled_loss, fullgraph=True, backend="aot_eager")):
        (gradient,) = torch.autograd.grad(function(logits), logits)
        torch.testing.assert_close(gradient, factor * expected)


def test_a_gradient_that_the_caller_changes_is_right_again_from_a_retained_graph() -> None:
    logits, targets = torch.randn(50, 5, requires_grad=True), torch.randint(5, (50,))
    loss = cross_entropy(logits, targets)
    (first,) = torch.autograd.grad(loss, logits, retain_graph=True)
    expected = first.clone()
    first.zero_()

    for factor in (1.0, 2.0):
        (again,) = torch.autograd.grad(loss, logits, torch.tensor(factor), retain_graph=True)
        torch.testing.assert_close(again, factor * expected)


def test_many_gradients_are_taken_at_once() -> None:
    """is_grads_batched runs the backward pass under vmap, where a gradient has no single value."""
    logits, targets = torch.randn(50, 5, requires_grad=True), torch.randint(5, (50,))
    (expected,) = torch.autograd.grad(cross_entropy_reference(logits, targets), logits)
    factors = torch.tensor([1.0, 0.0, -2.0])

    (gradients,) = torch.autograd.grad(cross_entropy(logits, targets), logits, factors, is_grads_batched=True)

    torch.testing.assert_close(gradients, factors[:, None, None] * expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_nan_among_the_logits_gives_a_loss_of_nan(dtype: torch.dtype, position: int) -> None:
    logits, targets = torch.zeros(5, 3, dtype=dtype), torch.ones(5, dtype=torch.int64)
    logits[2, position] = float("nan")

    assert cross_entropy(logits, targets).isnan()
    assert cross_entropy_reference(logits, targets).isnan()


@pytest.mark.parametrize("native", [True, False])
def test_targets_of_another_shape_are_refused(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(backend, "native_is_loaded", lambda: False)
    logits, transposed = torch.randn(3, 4, 5), torch.zeros(4, 3, dtype=torch.int64)
    rule = r"targets must have shape \(3, 4\) on cpu to fit the logits, got \(4, 3\) on cpu"
    with pytest.raises(InputError, match=rule):
        cross_entropy(logits, transposed)
    with pytest.raises(InputError, match=rule):
        target_loss(logits[..., :1], transposed)
    with pytest.raises(InputError, match=rule):
        target_loss(logits[..., :1], transposed.float())
    with pytest.raises(InputError, match=r"must have shape \(3, 4, 5\) .*, got \(5, 4, 3\)"):
        target_loss(logits, torch.zeros(5, 4, 3))
    with pytest.raises(InputError, match=r"got \(3, 4\) on meta"):
        cross_entropy(logits, torch.zeros(3, 4, dtype=torch.int64, device="meta"))


def test_binary_targets_other_than_0_and_1_are_refused() -> None:
    with pytest.raises(InputError, match=r"Binary targets must lie in 0\.\.1, got -100"):
        target_loss(torch.zeros(3, 1), torch.tensor([0, 1, -100]))
