"""Pooled read-outs: their definition, the steps that count, and their gradients."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.kernels import backend, methods
from hadamrnn.kernels.methods import run_pooled
from hadamrnn.kernels.recurrence import Recurrence, plain_scan
from hadamrnn.network import READOUTS
from tests.kernels.problems import cases, leaves, make_case


def pooled(case: Recurrence, kinds: tuple[str, ...], theta: Tensor | None) -> Tensor:
    return run_pooled(replace(case, thresholds=theta, h_0=None), kinds)


def plain_pooled(case: Recurrence, kinds: tuple[str, ...], theta: Tensor | None) -> Tensor:
    with patch.object(backend, "native_is_loaded", lambda: False):
        return pooled(case, kinds, theta)


def gradients(case: Recurrence, features: Tensor) -> tuple[Tensor, ...]:
    """Return all requested gradients of a sum in which each entry has a different weight."""
    weights = torch.linspace(-1, 1, features.numel(), dtype=features.dtype).reshape(features.shape)
    asking = [leaf for leaf in leaves(case) if leaf.requires_grad]
    total = (features * weights).sum() + sum(0 * leaf.sum() for leaf in asking)  # even if no step counts
    return torch.autograd.grad(total, asking, allow_unused=True, materialize_grads=True)


@settings(max_examples=60)
@given(
    case=cases(),
    kinds=st.lists(st.sampled_from(READOUTS), min_size=1, max_size=4, unique=True),
    count=st.integers(1, 3),
    rows=st.integers(0, 20),
    held=st.booleans(),
    kept=st.booleans(),
)
def test_the_native_pools_are_the_plain_ones(
    case: Recurrence, kinds: list[str], count: int, rows: int, held: bool, kept: bool
) -> None:
    generator = torch.Generator().manual_seed(count)
    repeated: dict[str, Any] = {  # more rows than a vector has lanes, too
        name: _leaf(value.detach()[torch.randint(case.batch, (rows,), generator=generator)])
        for name in ("x", "ids", "h_0", "lengths")
        if (value := getattr(case, name)) is not None
    }
    case = replace(case, **repeated)
    if held:
        case = replace(case, signs=case.signs.detach())
    theta = torch.randn(count, case.hidden_size, dtype=torch.float64, generator=generator)
    expected = plain_pooled(case, tuple(kinds), theta)
    with patch.object(methods, "BITS_BYTES", methods.BITS_BYTES if kept else 0):
        found = pooled(case, tuple(kinds), theta)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(case, found), gradients(case, expected))


def _leaf(value: Tensor) -> Tensor:
    return value.requires_grad_() if value.is_floating_point() else value


def test_pooled_features_are_their_definitions() -> None:
    case = make_case(12, 4, batch=4, time=9)
    theta = torch.randn(2, 12, dtype=torch.float64)
    features = pooled(case, READOUTS, theta)
    states, last = plain_scan(replace(case, every_output=True))

    assert states is not None
    above = states[:, :, None] - theta
    expected = (
        last.relu(),
        above.relu().mean(1).flatten(1),
        (above > 0).double().mean(1).flatten(1),
        states.amax(1),
    )
    torch.testing.assert_close(features, torch.cat(expected, dim=1))


def test_padding_never_counts_and_an_empty_row_gives_zeros() -> None:
    case = make_case(8, 8, batch=3, time=6)
    theta = torch.full((1, 8), -1.0, dtype=torch.float64)
    lengths = torch.tensor([6, 2, 0])
    assert case.x is not None
    features = pooled(replace(case, lengths=lengths), READOUTS, theta)

    for row, length in enumerate(lengths[:2].tolist()):
        alone = replace(case, x=case.x[row : row + 1, :length])
        torch.testing.assert_close(features[row : row + 1], pooled(alone, READOUTS, theta))
    assert not features[2].any()


def test_a_leaky_recurrence_multiplies_what_it_carries_over() -> None:
    case = make_case(4, 4, batch=2, time=3)
    decay = torch.tensor([0.5, 0.75, 0.875, 1.0], dtype=torch.float64)
    states, _ = plain_scan(replace(case, decay=decay, every_output=True))
    assert states is not None and case.x is not None
    _, never_forgetting = plain_scan(replace(case, h_0=states[:, 0], x=case.x[:, 1:2]))
    z = case.projected()[:, 1]

    torch.testing.assert_close(states[:, 1], decay * (never_forgetting - z) + z)


def test_thresholds_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match=r"\(count, 4\), got \(1, 5\)"):
        pooled(make_case(4, 4), ("mean",), torch.zeros(1, 5))


OPTIONS = [
    {},
    {"leak": True, "with_lengths": True},
    {"relu": True, "columns": True, "leak": True},
]


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(options))
@pytest.mark.parametrize("kinds", [("mean",), ("max", "last")])
def test_pools_pass_gradcheck_and_gradgradcheck(options: dict[str, bool], kinds: tuple[str, ...]) -> None:
    case = make_case(4, 4, batch=2, time=3, **options)  # type: ignore[arg-type]
    theta = torch.randn(1, 4, dtype=torch.float64)
    for check in (torch.autograd.gradcheck, torch.autograd.gradgradcheck):
        # The leaves are shared by reference, so the check perturbs what `pooled` reads.
        assert check(lambda *_: pooled(case, kinds, theta), leaves(case), fast_mode=True)


def test_the_slope_of_positive_is_that_of_a_ramp() -> None:
    x = torch.tensor([[[-1.5], [-0.5], [0.25], [3.0]]], requires_grad=True)
    still = Recurrence(torch.ones(1), block_size=1, x=x, decay=torch.tensor([1e-30]))
    features = pooled(still, ("positive",), None)
    (slope,) = torch.autograd.grad(features.sum(), x)

    assert features.item() == 0.5
    torch.testing.assert_close(slope.flatten(), torch.tensor([0.0, 0.5, 0.5, 0.0]) / 4)


@pytest.mark.usefixtures("native")
@pytest.mark.parametrize("relu", [False, True])
def test_the_pools_pass_opcheck(relu: bool) -> None:
    case = make_case(12, 12, relu=relu, leak=True, with_lengths=True)
    theta = torch.randn(2, 12, dtype=torch.float64)
    for keep in (True, False):
        asked = replace(case, pools=READOUTS[1:], thresholds=theta, keep_bits=keep)
        torch.library.opcheck(torch.ops.hadamrnn.scan.default, asked.arguments())


@pytest.mark.usefixtures("native")
def test_the_bits_of_the_pools_do_not_depend_on_the_threads() -> None:
    case = make_case(64, 64, batch=70, time=40, leak=True, with_lengths=True, dtype=torch.float32)
    theta = torch.randn(1, 64)
    before = torch.get_num_threads()
    found = []
    for count in (1, 2, 5):
        torch.set_num_threads(count)
        features = pooled(case, READOUTS, theta)
        found.append((features, *gradients(case, features)))
    torch.set_num_threads(before)

    for others in found[1:]:
        assert all(map(torch.equal, others, found[0]))


@pytest.mark.parametrize("kind", READOUTS)
@pytest.mark.parametrize("relu", [False, True])
def test_a_state_that_is_not_a_number_is_seen_by_every_read_out(relu: bool, kind: str) -> None:
    case = make_case(8, 4, batch=3, time=6, relu=relu)
    assert case.x is not None
    x = case.x.detach().clone()
    x[1, 2] = torch.nan
    features = pooled(replace(case, x=x, lengths=torch.tensor([6, 5, 2])), (kind,), None)

    assert features[1].isnan().all() and features[[0, 2]].isfinite().all()
