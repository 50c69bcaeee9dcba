"""QORNN: an orthogonal recurrent network with p-bit weights (Foucault et al. 2024)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hadamrnn.baselines.dense import DenseRecurrentLayer
from hadamrnn.baselines.orthogonal import bjorck
from hadamrnn.bits import WeightBits
from hadamrnn.nn.straight_through import quantize


class QORNN(DenseRecurrentLayer):
    """h_t = sigma(q(W) h_(t-1) + q(U) x_t + b_i), W the orthogonal matrix nearest to a free one.

    Gradients pass straight through q and through Bjorck's iteration. q(W) is only nearly orthogonal,
    less so with fewer bits.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, weight_bits: WeightBits = 8, recurrence: str = "linear"
    ) -> None:
        super().__init__(input_size, hidden_size, recurrence, weight_bits)
        self.free_weight = nn.Parameter(torch.empty(hidden_size, hidden_size))
        nn.init.orthogonal_(self.free_weight)

    def orthogonal_weight(self) -> Tensor:
        """Return W, before it is quantized."""
        return bjorck(self.free_weight)

    def recurrent_weight(self) -> Tensor:
        return quantize(self.orthogonal_weight(), self.weight_bits)
