"""The orthogonal matrix nearest to a given one, by Bjorck's iteration."""

from __future__ import annotations

import torch
from torch import Tensor

from hadamrnn.errors import InputError

MAX_ITERATIONS = 60


def bjorck(matrix: Tensor, tolerance: float = 1e-6) -> Tensor:
    """Return the orthogonal polar factor of a square matrix, differentiably.

        A <- A (3 I - A' A) / 2      until |A' A - I| <= tolerance, entry by entry

    Singular values in (0, sqrt 3) go to 1, quadratically near it, so A starts as matrix / sigma with
    sigma >= |matrix|_2. The gradient flows through every iteration; sigma counts as a constant, since
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
