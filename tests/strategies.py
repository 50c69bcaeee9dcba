"""Hypothesis strategies for orders, block structures and signs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.hadamard.orders import hadamard_orders

small_orders = st.sampled_from(hadamard_orders(64))
powers_of_two = st.integers(1, 7).map(lambda exponent: 2**exponent)


@dataclass(frozen=True)
class Weight:
    """The data of one W(u, v): signs, block size, and optional column signs."""

    signs: Tensor
    block_size: int
    column_signs: Tensor

    @property
    def hidden_size(self) -> int:
        return self.signs.shape[0]


@st.composite
def sign_vectors(draw: st.DrawFn, size: int) -> Tensor:
    bits = draw(st.lists(st.booleans(), min_size=size, max_size=size))
    return torch.tensor([1.0 if bit else -1.0 for bit in bits], dtype=torch.float64)


@st.composite
def weights(draw: st.DrawFn, orders: st.SearchStrategy[int] = small_orders, max_blocks: int = 4) -> Weight:
    block_size = draw(orders)
    hidden_size = block_size * draw(st.integers(1, max_blocks))
    return Weight(draw(sign_vectors(hidden_size)), block_size, draw(sign_vectors(hidden_size)))


@st.composite
def tensors(draw: st.DrawFn, *shape: int) -> Tensor:
    """Gaussian entries from a drawn seed: quick to draw, and shrinks to the seed 0."""
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**31)))
    return torch.randn(*shape, generator=generator, dtype=torch.float64)
