"""Orthogonal recurrent weights built from Hadamard matrices.

Pure functions of tensors: no modules, no parameters, no state. They follow
Section 3.2 (Propositions 3.2, 3.3) and equations (3) and (4) of the paper.
Start reading at `recurrent_weight`; the rest of the file serves it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hadamrnn.kernels.transform import count_blocks, hadamard_tensor


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
