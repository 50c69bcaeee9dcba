"""Compute the fast Hadamard transform over the last axis.

`hadamard_transform(x, b)` equals `x @ (I_q kron H_b)'`: the product of x with every block of the recurrent
weight, without the signs and the scale. It consists of two small matrix products, because for
H_b = H_m kron H_n and x read as an m-by-n matrix X,

    (H_m kron H_n) vec(X) = vec(H_m X H_n')

This costs b (m + n) multiply-adds instead of b^2, in fast GEMMs.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import hadamard_matrix, split_order
from hadamrnn.kernels.backend import constant_tensor, constant_when_traced

# Below this block size one dense product is faster than two smaller ones.
_DENSE_BLOCK_SIZE = 32


def hadamard_transform(x: Tensor, block_size: int, *, transpose: bool = False) -> Tensor:
    """Return x (I_q kron H_b)' over the last axis, or x (I_q kron H_b) if `transpose`.

    Args:
        x: real, shape `(..., hidden_size)`, any leading shape.
        block_size: b, divides `hidden_size`; an order that `hadamard_matrix` can build.

    Returns:
        An array with the shape of x. Applying the transform and then its transpose multiplies by
        `block_size`.

    >>> import torch
    >>> x = torch.randn(3, 24, dtype=torch.float64)
    >>> y = hadamard_transform(hadamard_transform(x, 12), 12, transpose=True)
    >>> torch.allclose(y, 12 * x)
    True
    """
    num_blocks = count_blocks(x.shape[-1], block_size)
    rows, columns = (1, block_size) if block_size <= _DENSE_BLOCK_SIZE else split_order(block_size)
    right = hadamard_tensor(columns, x.dtype, x.device)
    blocks = x.reshape(*x.shape[:-1], num_blocks, rows, columns) @ (right if transpose else right.T)
    if rows > 1:
        left = hadamard_tensor(rows, x.dtype, x.device)
        blocks = (left.T if transpose else left) @ blocks
    return blocks.reshape(x.shape)


def count_blocks(hidden_size: int, block_size: int) -> int:
    """Return q = hidden_size / block_size, which must be a whole number."""
    if block_size < 1 or hidden_size % block_size:
        raise InputError(
            f"block_size must divide the hidden size, got {block_size} for hidden size {hidden_size}. "
            "Choose block_size = hidden_size / num_blocks with num_blocks a divisor of the hidden size."
        )
    return hidden_size // block_size


@constant_when_traced
def hadamard_tensor(order: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return `hadamard_matrix(order)` as a tensor, a constant for torch.compile and torch.export."""
    return constant_tensor(hadamard_matrix, (order,), dtype, device)
