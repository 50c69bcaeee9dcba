"""HadamCell: the initial signs, and leaks."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.nn.weight import recurrent_weight


@pytest.mark.parametrize("negative", [0, 1, 5, 8])
def test_few_negative_signs_leave_states_that_add_up_their_input(negative: int) -> None:
    """k negative signs leave at least d_h/2 - k eigenvalues 1; without any, W is its own inverse."""
    cell = HadamRNN(1, 32).cells[0]
    assert isinstance(cell, HadamCell)
    magnitudes = cell.latent_signs.detach().abs()
    cell.draw_signs(negative / 32)
    weight = recurrent_weight(cell.signs(), 32).detach().double()
    eigenvalues = torch.linalg.eigvals(weight)

    assert int((cell.signs() < 0).sum()) == negative
    assert torch.equal(cell.latent_signs.abs(), magnitudes)
    assert int(((eigenvalues - 1).abs() < 1e-6).sum()) >= 16 - negative
    if negative == 0:
        torch.testing.assert_close(weight @ weight, torch.eye(32, dtype=torch.float64), atol=1e-6, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_slow_leak_forgets_whatever_the_type_of_the_weights(dtype: torch.dtype) -> None:
    cell = HadamRNN(1, 4, leak=(15,), dtype=dtype).cell(0)

    assert cell.decay is not None
    assert cell.decay.tolist() == [1 - 2.0**-15] * 4


def test_a_leak_needs_no_file_after_construction_on_the_meta_device() -> None:
    with torch.device("meta"):
        layer = HadamRNN(1, 4, num_blocks=2, leak=(1, 0))
    decay = layer.to_empty(device="cpu").cell(0).decay

    assert decay is not None
    assert decay.tolist() == [0.5, 0.5, 1.0, 1.0]


@pytest.mark.parametrize("leak", [(), (1, 2)])
@pytest.mark.parametrize(
    "options", [{}, {"recurrence": "relu"}, {"switches": "rows+columns"}, {"bias": False}]
)
def test_a_step_without_gradients_sees_every_change_of_the_parameters(
    options: dict[str, Any], leak: tuple[int, ...]
) -> None:
    """It caches dense matrices, and must notice an optimizer that bypasses torch's version counters."""
    rnn = HadamRNN(3, 8, num_blocks=2, leak=leak, dtype=torch.float64, **options)
    x, h = torch.randn(4, 3, dtype=torch.float64), torch.randn(1, 4, 8, dtype=torch.float64)

    def both_agree() -> None:
        with torch.no_grad():
            found = rnn.step(x, h)
        torch.testing.assert_close(found, rnn.step(x, h))

    for _ in range(2):
        both_agree()
        for parameter in rnn.parameters():
            parameter.detach().numpy()[...] = torch.randn_like(parameter).numpy()
    both_agree()
    copied = copy.deepcopy(rnn).float()
    with torch.no_grad():
        assert copied.step(x.float(), h.float())[0].dtype == torch.float32
    assert rnn.cell(0).__getstate__()["_kept"] is None
