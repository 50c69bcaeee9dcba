"""A compressed weight matrix: low rank, sparse, quantized (Kusupati et al. 2018)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from hadamrnn.bits import WeightBits, check_weight_bits
from hadamrnn.errors import InputError
from hadamrnn.nn.straight_through import quantize

# Shares of a run: dense at first, then thresholded after every step, then with a fixed support.
THRESHOLD_FROM, FREEZE_FROM = 1 / 3, 2 / 3


class FactoredWeight(nn.Module):
    """A `(rows, columns)` matrix q(A), or q(A) q(B) with A `(rows, rank)`, B `(rank, columns)`.

    Args:
        rank: None for a single factor.
        density: share of each factor's entries that may differ from 0. Training is iterative hard
            thresholding: dense for a third of the run, then only the largest entries survive a step, and in
            the last third the support is fixed. Outside training the matrix is always sparse.
        weight_bits: of q, as everywhere.
    """

    def __init__(
        self, rows: int, columns: int, *, rank: int | None, density: float, weight_bits: WeightBits
    ) -> None:
        super().__init__()
        check_weight_bits(weight_bits)
        if rank is not None and not 1 <= rank <= min(rows, columns):
            raise InputError(
                f"The rank of a {rows} x {columns} matrix must lie in 1..{min(rows, columns)}, got {rank}."
            )
        if not 0 < density <= 1:
            raise InputError(f"A density must lie in (0, 1], got {density}.")
        self.density = density
        self.weight_bits = weight_bits
        shapes = [(rows, columns)] if rank is None else [(rows, rank), (rank, columns)]
        self.factors = nn.ParameterList(torch.empty(shape) for shape in shapes)
        for factor in self.factors:
            nn.init.xavier_uniform_(factor)
        if density < 1:
            self.supports = nn.ParameterList(
                nn.Parameter(torch.ones(shape, dtype=torch.bool), requires_grad=False) for shape in shapes
            )

    def used_factors(self) -> list[Tensor]:
        """Return the factors as the network computes with them."""
        factors = list(self.factors)
        if self.density < 1 and not self.training:
            factors = [factor * largest(factor, self.density) for factor in factors]
        return [quantize(factor, self.weight_bits) for factor in factors]

    def forward(self) -> Tensor:
        """Return the matrix, `(rows, columns)`."""
        first, *others = self.used_factors()
        return first @ others[0] if others else first

    @torch.no_grad()
    def constrain(self, progress: float) -> None:
        """Set the entries outside the support to zero."""
        if self.density == 1 or progress <= THRESHOLD_FROM:
            return
        for factor, support in zip(self.factors, self.supports, strict=True):
            if progress <= FREEZE_FROM:
                support.copy_(largest(factor, self.density))
            factor.mul_(support)


def largest(weight: Tensor, density: float) -> Tensor:
    """Return a mask of the largest entries, a share `density` of them and at least one.

    >>> largest(torch.tensor([[3.0, -1.0], [0.5, -4.0]]), 0.5)
    tensor([[ True, False],
            [False,  True]])
    """
    count = max(1, round(density * weight.numel()))
    kept = torch.zeros(weight.numel(), dtype=torch.bool, device=weight.device)
    kept[weight.detach().abs().flatten().topk(count).indices] = True
    return kept.view_as(weight)
