"""Build orthogonal recurrent weights from Hadamard matrices.

They follow Section 3.2 (Propositions 3.2, 3.3) and equations (3) and (4) of the paper. Start reading at
`recurrent_weight`, a pure function of tensors.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hadamrnn.errors import InputError
from hadamrnn.kernels.transform import count_blocks, hadamard_tensor
from hadamrnn.nn.straight_through import sign


def recurrent_weight(signs: Tensor, block_size: int, column_signs: Tensor | None = None) -> Tensor:
    """Return the orthogonal matrix W(u) of eq. (4); one block gives eq. (3).

        W(u) = diag(u) (I_q kron H_b) / sqrt(b)

    H_b is Sylvester's matrix when the block size b is a power of two, and the Hadamard matrix
    `hadamrnn.hadamard.orders.hadamard_matrix(b)` otherwise. With `column_signs` v, W(u, v) = W(u) diag(v).

    Args:
        signs: u, entries +-1, shape `(hidden_size,)`.
        block_size: b, side of one block; divides `hidden_size`.
        column_signs: v, entries +-1, shape `(hidden_size,)`, or None for v = 1.

    Returns:
        Shape `(hidden_size, hidden_size)`, entries 0 or +-1/sqrt(block_size).

    >>> W = recurrent_weight(torch.tensor([1.0, -1.0, 1.0, 1.0]), block_size=4)
    >>> torch.equal(W @ W.T, torch.eye(4))
    True
    """
    num_blocks = count_blocks(signs.shape[-1], block_size)
    block = hadamard_tensor(block_size, signs.dtype, signs.device) / block_size**0.5
    blocks = torch.kron(torch.eye(num_blocks, dtype=signs.dtype, device=signs.device), block)
    weight = signs[:, None] * blocks
    return weight if column_signs is None else weight * column_signs


class HadamardWeight(nn.Module):
    """A parametrization of a square weight as W(u); the optimizer updates a vector of latent signs.

    Assigning a matrix to the weight selects the signs of the nearest W(u).

    >>> from torch.nn.utils.parametrize import register_parametrization
    >>> layer = register_parametrization(nn.Linear(8, 8, bias=False), "weight", HadamardWeight(num_blocks=2))
    >>> layer.parametrizations.weight.original.shape
    torch.Size([8])
    >>> torch.allclose(layer.weight @ layer.weight.T, torch.eye(8))
    True
    """

    def __init__(self, num_blocks: int = 1) -> None:
        super().__init__()
        self.num_blocks = num_blocks

    def forward(self, latent_signs: Tensor) -> Tensor:
        """Return W(sign(latent_signs))."""
        return recurrent_weight(sign(latent_signs), len(latent_signs) // self.num_blocks)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Return latent signs for which W(u) is nearest to a square `weight`."""
        size = weight.shape[-1]
        if weight.shape != (size, size) or size % self.num_blocks:
            raise InputError(
                f"HadamardWeight needs a square matrix whose side {self.num_blocks} blocks divide, "
                f"got shape {tuple(weight.shape)}."
            )
        return (weight * recurrent_weight(weight.new_ones(size), size // self.num_blocks)).sum(1)
