"""Fixtures of the tests of the baselines."""

from __future__ import annotations

import torch
from torch import Tensor


def orthogonal(size: int) -> Tensor:
    return torch.as_tensor(torch.linalg.qr(torch.randn(size, size, dtype=torch.float64))[0])
