"""Every method equals the plain loop: values, gradients, precision, memory."""

from __future__ import annotations

import itertools
import logging
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.kernels import backend as kernels_backend
from hadamrnn.kernels import methods, recurrence
from hadamrnn.kernels.methods import choose_method, kernel_form, power_form, run
from hadamrnn.kernels.recurrence import MAX_KEPT_POWERS, Recurrence, dense_powers, loop, plain_scan
from hadamrnn.nn.rnn import HadamRNN
from tests.kernels.problems import cases, leaves, make_case

METHODS = ("auto", "loop", "plain", "scan", "kernel", "powers")


def run_by(method: str, case: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Run the recurrence by one of `METHODS`."""
    if method == "loop":
        return loop(case)
    if method == "plain":
        return plain_scan(case)
    if method == "kernel":
        return None, kernel_form(case)
    if method == "powers":
        return None, power_form(case)
    with patch.object(methods, "choose_method", choose_method if method == "auto" else lambda *_: "scan"):
        return run(case)


def possible(case: Recurrence, every_output: bool) -> list[str]:
    """Return the methods that can compute the case."""
    has_kernel = not (case.relu or every_output or case.x is None)
    missing = {*(() if has_kernel else ("kernel", "powers")), *(() if case.h_0 is None else ("powers",))}
    return [name for name in METHODS if name not in missing]


def weighted_sum(*tensors: Tensor | None) -> Tensor:
    """Return a weighted sum in which every entry has a different weight."""
    total = torch.zeros((), dtype=torch.float64, requires_grad=True)  # even if all tensors are empty
    for tensor in tensors:
        if tensor is not None and tensor.numel():
            weights = torch.linspace(-1, 1, tensor.numel(), dtype=torch.float64).reshape(tensor.shape)
            total = total + (tensor.double() * weights).sum()
    return total


@pytest.fixture(params=["native", "torch"])
def backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with the native library and again without it."""
    name: str = request.param
    if name == "torch":
        monkeypatch.setattr(kernels_backend, "native_is_loaded", lambda: False)
    elif not kernels_backend.native_is_loaded():
        pytest.skip("the native library is not built")
    return name


def check_against_the_loop(case: Recurrence, every_output: bool) -> None:
    case = replace(case, every_output=every_output)
    expected = loop(case)
    expected_gradients = torch.autograd.grad(
        weighted_sum(*expected), leaves(case), allow_unused=True, materialize_grads=True
    )
    for method in possible(case, every_output):
        found = run_by(method, case)
        assert (found[0] is None) == (not every_output)
        torch.testing.assert_close(found, expected)
        gradients = torch.autograd.grad(
            weighted_sum(*found), leaves(case), allow_unused=True, materialize_grads=True
        )
        torch.testing.assert_close(gradients, expected_gradients, msg=f"{method} differs")


@settings(max_examples=60)
@given(case=cases(), every_output=st.booleans())
def test_every_method_is_the_loop(case: Recurrence, every_output: bool) -> None:
    check_against_the_loop(case, every_output)


@pytest.mark.parametrize("every_output", [False, True])
@pytest.mark.parametrize(
    "options", [{}, {"relu": True}, {"columns": True, "with_h_0": True, "with_lengths": True}]
)
def test_the_fallback_in_torch_is_the_loop(
    options: dict[str, bool], every_output: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernels_backend, "native_is_loaded", lambda: False)
    for kind in ("dense", "wide", "tokens"):
        check_against_the_loop(make_case(24, 12, kind=kind, **options), every_output)  # type: ignore[arg-type]


@settings(max_examples=30)
@given(case=cases(), sigma=st.booleans(), output_size=st.integers(1, 7), with_bias=st.booleans())
def test_the_fused_read_out_is_the_loop_then_v(
    case: Recurrence, sigma: bool, output_size: int, with_bias: bool
) -> None:
    hidden_size = case.signs.shape[0]
    weight = torch.randn(output_size, hidden_size, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(output_size, dtype=torch.float64, requires_grad=True) if with_bias else None
    case = replace(case, output_weight=weight, output_bias=bias, sigma=sigma)
    expected, _ = loop(case)
    expected_gradients = torch.autograd.grad(
        weighted_sum(expected), leaves(case), allow_unused=True, materialize_grads=True
    )
    logits, _ = run_by("scan", case)
    torch.testing.assert_close(logits, expected)
    gradients = torch.autograd.grad(
        weighted_sum(logits), leaves(case), allow_unused=True, materialize_grads=True
    )
    torch.testing.assert_close(gradients, expected_gradients)


@pytest.mark.parametrize("kind", ["dense", "wide", "tokens"])
def test_the_last_state_beside_a_fused_read_out_has_its_gradient(kind: str) -> None:
    weight, bias = (torch.randn(*shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 12), (3,)))
    case = replace(make_case(12, 4, kind=kind), output_weight=weight, output_bias=bias, sigma=True)

    def gradients(method: str) -> tuple[Tensor, ...]:
        _, last = run_by(method, case)
        return torch.autograd.grad(
            weighted_sum(last), leaves(case), allow_unused=True, materialize_grads=True
        )

    torch.testing.assert_close(gradients("scan"), gradients("loop"))


GRADCHECK_OPTIONS = [
    {"kind": "dense"},
    {"kind": "tokens"},
    {"kind": "wide", "with_h_0": True},
    {"columns": True, "with_lengths": True, "with_h_0": True},
    {"relu": True, "columns": True, "with_lengths": True, "with_h_0": True},
]


@pytest.mark.parametrize("options", GRADCHECK_OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize(("hidden_size", "block_size"), [(4, 4), (8, 2), (12, 12)])
def test_gradients_pass_gradcheck(
    hidden_size: int, block_size: int, options: dict[str, bool], backend: str
) -> None:
    case = make_case(hidden_size, block_size, batch=2, time=4, **options)  # type: ignore[arg-type]
    for every_output, method in itertools.product((False, True), METHODS):
        if method in possible(case, every_output)[1:]:
            # The leaves are shared by reference, so gradcheck perturbs what `run` reads.
            assert torch.autograd.gradcheck(
                lambda *_, name=method, every=every_output: weighted_sum(
                    *run_by(name, replace(case, every_output=every))
                ),
                leaves(case),
                fast_mode=hidden_size > 4,  # entry by entry if they are few, else along a random direction
            )


@pytest.mark.parametrize("method", METHODS)
def test_padding_may_hold_anything(method: str) -> None:
    case = replace(make_case(8, 8, batch=3, input_size=2), lengths=torch.tensor([7, 2, 0]))
    assert case.x is not None
    padded = case.x.detach().clone()
    padded[1, 2:], padded[2] = torch.nan, torch.inf

    torch.testing.assert_close(run_by(method, replace(case, x=padded)), run_by(method, case))


def test_the_kernel_form_takes_an_empty_batch() -> None:
    assert kernel_form(make_case(8, 8, batch=0)).shape == (0, 8)
    assert power_form(make_case(8, 8, batch=0)).shape == (0, 8)


@pytest.mark.parametrize("time", [0, 1, 31, 32, 33, 70])
@pytest.mark.parametrize("with_lengths", [False, True])
def test_powers_by_doubling_give_the_last_state_of_any_length(time: int, with_lengths: bool) -> None:
    case = make_case(24, 12, time=time, leak=True, with_lengths=with_lengths)
    torch.testing.assert_close(power_form(case), plain_scan(case)[1])


def test_powers_are_kept_of_signs_that_rest_alone() -> None:
    case = make_case(8, 8)
    resting = replace(case, signs=case.signs.detach())
    assert dense_powers(case)[0] is not dense_powers(case)[0]
    assert dense_powers(resting)[0] is dense_powers(resting)[0]
    turned = replace(resting, signs=-resting.signs)
    torch.testing.assert_close(dense_powers(turned)[0], -dense_powers(resting)[0])
    for hidden_size in range(8, 8 + 4 * MAX_KEPT_POWERS, 4):
        dense_powers(replace(make_case(hidden_size, 4), signs=torch.ones(hidden_size)))
    assert len(recurrence._kept_powers) == MAX_KEPT_POWERS


@pytest.mark.parametrize("relu", [False, True])
@pytest.mark.parametrize("block_size", [4, 12])
def test_an_input_that_is_not_a_number_shows_in_every_result(
    block_size: int, relu: bool, backend: str
) -> None:
    case = make_case(24, block_size, batch=2, relu=relu)
    assert case.x is not None
    x = case.x.detach().clone()
    x[0, 1] = torch.nan
    case = replace(case, x=x)
    for asked in (
        replace(case, every_output=True),
        replace(case, output_weight=torch.ones(3, 24).double(), sigma=not relu),
    ):
        output, last = run(asked)
        assert output is not None
        assert output[0, 1:].isnan().all() and last[0].isnan().all()
        assert output[0, 0].isfinite().all() and output[1].isfinite().all()


@pytest.mark.parametrize(
    "options",
    [{}, {"kind": "tokens"}, {"kind": "wide"}, {"relu": True}, {"with_h_0": True, "with_lengths": True}],
)
def test_float32_gradients_are_the_float64_loops_within_1e_4(options: dict[str, bool]) -> None:
    shape = {"batch": 8, "time": 784, **options}
    wide, narrow = (make_case(64, 64, dtype=dtype, **shape) for dtype in (torch.float64, torch.float32))  # type: ignore[arg-type]
    for case in (wide, narrow):  # true signs: the state of 784 steps neither grows nor fades
        with torch.no_grad():
            case.signs.sign_()
    expected = torch.autograd.grad(weighted_sum(loop(wide)[1]), leaves(wide))
    for method in possible(narrow, every_output=False):
        gradients = torch.autograd.grad(weighted_sum(run_by(method, narrow)[1]), leaves(narrow))
        for gradient, exact in zip(gradients, expected, strict=True):
            assert (gradient - exact).norm() <= 1e-4 * exact.norm(), method


@pytest.mark.slow
def test_constant_memory_gradients_are_within_1e_3_after_10_000_steps() -> None:
    wide, narrow = (
        make_case(64, 64, batch=2, time=10_000, dtype=dtype) for dtype in (torch.float64, torch.float32)
    )
    for case in (wide, narrow):
        with torch.no_grad():
            case.signs.sign_()
    expected = torch.autograd.grad(weighted_sum(loop(wide)[1]), leaves(wide))
    gradients = torch.autograd.grad(weighted_sum(run_by("scan", narrow)[1]), leaves(narrow))
    for gradient, exact in zip(gradients, expected, strict=True):
        assert (gradient - exact).norm() <= 1e-3 * exact.norm()


def test_torch_compile_takes_the_layer_whole() -> None:
    layer = HadamRNN(3, 16, batch_first=True, train_signs=True)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    x = torch.randn(2, 9, 3)
    torch.testing.assert_close(compiled(x), layer(x))
    gradient = torch.autograd.grad(compiled(x)[0].square().sum(), layer.cells[0].latent_signs)  # type: ignore[arg-type]
    expected = torch.autograd.grad(layer(x)[0].square().sum(), layer.cells[0].latent_signs)  # type: ignore[arg-type]
    torch.testing.assert_close(gradient, expected)


def test_the_choice_is_by_cost_and_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def chosen(
        batch: int = 64, time: int = 784, input_size: int = 1, native: bool = True, **changes: object
    ) -> str:
        def empty(*shape: int) -> Tensor:
            return torch.empty(*shape, device="meta")

        shape = Recurrence(
            signs=empty(512), block_size=512, x=empty(batch, time, input_size), weight=empty(512, input_size)
        )
        return choose_method(replace(shape, **changes), native)  # type: ignore[arg-type]

    assert chosen() == chosen(native=False) == "kernel"
    assert chosen(native=False, time=20) == "scan"  # six squares of W would cost more than its steps
    assert chosen(every_output=True) == chosen(relu=True) == "scan"
    assert chosen(x=None, ids=torch.empty(64, 784, device="meta")) == "scan"
    assert chosen(input_size=300) == "scan"  # the powers W^j U would cost more than the batch
    assert chosen(h_0=torch.empty(64, 512, device="meta")) == "scan"
    assert chosen(batch=1, time=10_000) == chosen(time=1_000_000) == "scan"

    with caplog.at_level(logging.DEBUG, logger="hadamrnn"):
        run(make_case(8, 8))
    assert "for batch 3, time 7, hidden size 8" in caplog.text


def test_the_cost_of_a_step_knows_factors_that_are_no_powers_of_two() -> None:
    """One factor of order 124 costs a hundred multiplications where Sylvester's matrix costs seven."""

    def cost(order: int) -> float:
        empty = torch.empty(1, 1, 1, device="meta")
        return methods.scan_cost(Recurrence(torch.empty(order, device="meta"), order, x=empty)) / order

    assert cost(496) > 3 * cost(480) > 3 * cost(512)
