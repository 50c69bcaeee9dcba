"""The LSTM's equations, for the variants that torch's own cannot express.

    i, f, g, o = split(gates)
    c_t = sigmoid(f) c_(t-1) + sigmoid(i) tanh(g)      h_t = sigmoid(o) tanh(c_t)

Gates are in torch's order.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn


def lstm_step(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """Return h_t and c_t from the gates' inputs `(batch, 4 hidden_size)` and c_(t-1)."""
    i, f, g, o = gates.chunk(4, dim=-1)
    cell = f.sigmoid() * cell + i.sigmoid() * g.tanh()
    return o.sigmoid() * cell.tanh(), cell


def open_forget_bias(hidden_size: int) -> nn.Parameter:
    """Return the gates' bias: 1 for the forget gates, so that an untrained cell remembers, else 0."""
    bias = torch.zeros(4 * hidden_size)
    bias[hidden_size : 2 * hidden_size] = 1.0
    return nn.Parameter(bias)
