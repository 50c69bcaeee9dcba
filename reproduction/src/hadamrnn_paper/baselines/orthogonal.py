"""Networks with a dense W: orthogonal (ORNN), orthogonal and quantized (QORNN), or with unconstrained signs.

`bjorck` finds the orthogonal matrix nearest to a given one.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import orthogonal

from hadamrnn.architecture import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.nn.interface import Constrained
from hadamrnn.nn.straight_through import quantize, sign
from hadamrnn_paper.baselines.dense import DenseRecurrentLayer

MAX_ITERATIONS = 60


def bjorck(matrix: Tensor, tolerance: float = 1e-6) -> Tensor:
    """Return the orthogonal polar factor of a square matrix, differentiably.

        A <- A (3 I - A' A) / 2      until |A' A - I| <= tolerance, entry by entry

    Singular values in (0, sqrt 3) go to 1, quadratically near it, so A starts as matrix / sigma with
    sigma >= |matrix|_2. The gradient flows through every iteration; sigma is treated as a constant, since
    the polar factor does not depend on it.

    >>> Q = bjorck(torch.tensor([[2.0, 1.0], [0.0, 1.0]]))
    >>> torch.allclose(Q @ Q.T, torch.eye(2), atol=1e-5)
    True
    """
    identity = torch.eye(matrix.shape[0], dtype=matrix.dtype, device=matrix.device)
    factor = matrix / spectral_bound(matrix.detach())
    for _ in range(MAX_ITERATIONS):
        defect = identity - factor.T @ factor
        if float(defect.detach().abs().amax()) <= tolerance:
            return factor
        factor = factor + 0.5 * factor @ defect
    raise InputError(
        f"Bjorck's iteration needs a matrix of full rank: it is not orthogonal after {MAX_ITERATIONS} steps. "
        "Try a smaller learning_rate, or a gradient_clip."
    )


def spectral_bound(matrix: Tensor) -> Tensor:
    """Return an upper bound of |A|_2, tight to a few per cent for nearly orthogonal A.

    |A|_2 <= sqrt(|A' A|_2) <= sqrt(|A' A|_inf) and |A|_2 <= |A|_F
    """
    gram = matrix.T @ matrix
    return torch.minimum(gram.abs().sum(1).amax(), gram.trace()).sqrt()


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


class QORNN(DenseRecurrentLayer):
    """h_t = sigma(q(W) h_(t-1) + q(U) x_t + b_i), the network of Foucault et al. (2024).

    W is the orthogonal matrix nearest to an unconstrained parameter. The gradient of q is the identity, and
    Bjorck's iteration is differentiated. q(W) is only nearly orthogonal, less so with fewer bits.
    """

    def __init__(
        self, input_size: int, hidden_size: int, *, weight_bits: WeightBits = 8, recurrence: str = "linear"
    ) -> None:
        super().__init__(input_size, hidden_size, recurrence, weight_bits)
        self.free_weight = nn.Parameter(torch.empty(hidden_size, hidden_size))
        nn.init.orthogonal_(self.free_weight)

    def orthogonal_weight(self) -> Tensor:
        """Return W before quantization."""
        return bjorck(self.free_weight)

    def recurrent_weight(self) -> Tensor:
        return quantize(self.orthogonal_weight(), self.weight_bits)


class NaiveBinaryRNN(DenseRecurrentLayer):
    """The binary network without Hadamard's structure, which "never worked" (Ott et al. 2016).

    HadamRNN with W = sign(A) / sqrt(d_h) and unconstrained signs: d_h^2 bits, and orthogonal only by chance.

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
