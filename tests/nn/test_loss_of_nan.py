from __future__ import annotations

import pytest
import torch

from hadamrnn.kernels.loss import cross_entropy_reference
from hadamrnn.nn.loss import cross_entropy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_nan_among_the_logits_gives_a_loss_of_nan(dtype: torch.dtype, position: int) -> None:
    logits, targets = torch.zeros(5, 3, dtype=dtype), torch.ones(5, dtype=torch.int64)
    logits[2, position] = float("nan")

    assert cross_entropy(logits, targets).isnan()
    assert cross_entropy_reference(logits, targets).isnan()
