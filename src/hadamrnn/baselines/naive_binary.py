"""The binary recurrent network without Hadamard's structure, which "never worked" (Ott et al. 2016)."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from hadamrnn.baselines.dense import DenseRecurrentLayer
from hadamrnn.bits import WeightBits
from hadamrnn.nn.straight_through import sign


class NaiveBinaryRNN(DenseRecurrentLayer):
    """HadamRNN with W = sign(A) / sqrt(d_h), every sign free: d_h^2 bits, and orthogonal only by chance.

    >>> sorted(NaiveBinaryRNN(1, 4).recurrent_weight().unique().tolist())
    [-0.5, 0.5]
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, weight_bits: WeightBits = 4, recurrence: str = "linear"
    ) -> None:
        super().__init__(input_size, hidden_size, recurrence, weight_bits)
        self.latent_signs = nn.Parameter(torch.empty(hidden_size, hidden_size))
        nn.init.xavier_uniform_(self.latent_signs)

    def recurrent_weight(self) -> Tensor:
        return sign(self.latent_signs) / math.sqrt(self.hidden_size)
