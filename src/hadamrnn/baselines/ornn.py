"""ORNN: a full-precision recurrent network whose weight is kept orthogonal."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from hadamrnn.baselines.dense import DenseRecurrentLayer
from hadamrnn.baselines.orthogonal import bjorck
from hadamrnn.errors import check_choice
from hadamrnn.nn.interface import Constrained

MAPS = ("cayley", "matrix_exp", "projection")


class ORNN(DenseRecurrentLayer, Constrained):
    """h_t = sigma(W h_(t-1) + U x_t + b_i), W' W = I.

    Args:
        orthogonal_map: how W stays orthogonal. "cayley" and "matrix_exp" are torch's parametrizations:
            W = B (I + A/2)(I - A/2)^-1 or B exp(A), A skew-symmetric. "projection" lets the optimizer move W
            freely and then takes the nearest orthogonal matrix, as projUNN-D does (at full rank).
        recurrence: "linear" or "relu".

    >>> W = ORNN(1, 4).recurrent_weight()
    >>> torch.allclose(W @ W.T, torch.eye(4), atol=1e-5)
    True
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, recurrence: str = "linear", orthogonal_map: str = "cayley"
    ) -> None:
        super().__init__(input_size, hidden_size, recurrence)
        check_choice("orthogonal_map", orthogonal_map, MAPS)
        self.orthogonal_map = orthogonal_map
        self.recurrent = nn.Linear(hidden_size, hidden_size, bias=False)
        nn.init.orthogonal_(self.recurrent.weight)
        if orthogonal_map != "projection":
            orthogonal(self.recurrent, orthogonal_map=orthogonal_map)

    def recurrent_weight(self) -> Tensor:
        return self.recurrent.weight

    @torch.no_grad()
    def constrain(self, progress: float) -> None:
        if self.orthogonal_map == "projection":
            self.recurrent.weight.copy_(bjorck(self.recurrent.weight))
