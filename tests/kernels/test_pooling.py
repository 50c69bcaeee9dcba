"""Pooled read-outs: what they are, whose steps count, and their gradients."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from hadamrnn.errors import InputError
from hadamrnn.kernels.plain import plain_scan
from hadamrnn.kernels.pooling import KINDS, pooled
from tests.kernels.problems import make_case


def test_pooled_features_are_their_definitions() -> None:
    case = make_case(12, 4, batch=4, time=9, with_h_0=True)
    theta = torch.randn(2, 12, dtype=torch.float64)
    features, last = pooled(case, KINDS, theta)
    states, expected_last = plain_scan(replace(case, every_output=True))

    assert states is not None
    above = states[:, :, None] - theta
    expected = (
        last.relu(),
        above.relu().mean(1).flatten(1),
        (above > 0).double().mean(1).flatten(1),
        states.amax(1),
    )
    torch.testing.assert_close(last, expected_last)
    torch.testing.assert_close(features, torch.cat(expected, dim=1))


def test_padding_never_counts_and_an_empty_row_gives_zeros() -> None:
    case = make_case(8, 8, batch=3, time=6)
    theta = torch.full((1, 8), -1.0, dtype=torch.float64)
    lengths = torch.tensor([6, 2, 0])
    assert case.x is not None
    features, last = pooled(replace(case, lengths=lengths), KINDS, theta)

    for row, length in enumerate(lengths[:2].tolist()):
        alone = replace(case, x=case.x[row : row + 1, :length])
        torch.testing.assert_close(features[row : row + 1], pooled(alone, KINDS, theta)[0])
    assert not features[2].any() and not last[2].any()


def test_a_leaky_recurrence_multiplies_what_it_carries_over() -> None:
    case = make_case(4, 4, batch=2, time=3)
    decay = torch.tensor([0.5, 0.75, 0.875, 1.0], dtype=torch.float64)
    states, _ = plain_scan(replace(case, decay=decay, every_output=True))
    assert states is not None and case.x is not None
    _, never_forgetting = plain_scan(replace(case, h_0=states[:, 0], x=case.x[:, 1:2]))
    z = case.projected()[:, 1]

    torch.testing.assert_close(states[:, 1], decay * (never_forgetting - z) + z)


@pytest.mark.parametrize("kinds", [(), ("median",), ("mean", "mean")])
def test_unknown_and_repeated_read_outs_are_refused(kinds: tuple[str, ...]) -> None:
    with pytest.raises(InputError, match="Read-outs must be some of last, mean, positive, max"):
        pooled(make_case(4, 4), kinds, None)


def test_thresholds_of_another_width_are_refused() -> None:
    with pytest.raises(InputError, match=r"thresholds must have the shape \(count, 4\), got \(1, 5\)"):
        pooled(make_case(4, 4), ("mean",), torch.zeros(1, 5))
