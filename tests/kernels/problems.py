"""Scan problems of every kind: drawn shapes, options and values."""

from __future__ import annotations

from typing import Any

import torch
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.kernels.recurrence import DIFFERENTIABLE, Recurrence

# (hidden_size, block_size): one block and many, below and above a vector, Paley factors, odd multiples.
BLOCKS = (
    (1, 1),
    (2, 2),
    (12, 4),
    (16, 16),
    (20, 4),
    (24, 12),
    (56, 28),
    (64, 2),
    (64, 64),
    (96, 48),
    (128, 128),
    (288, 144),
    (512, 512),
)


def leaves(recurrence: Recurrence) -> list[Tensor]:
    """Return every tensor that may get a gradient."""
    values = (getattr(recurrence, name) for name in (*DIFFERENTIABLE, "column_signs"))
    return [value for value in values if value is not None]


def make_case(
    hidden_size: int,
    block_size: int,
    *,
    kind: str = "dense",
    batch: int = 3,
    time: int = 7,
    input_size: int = 2,
    columns: bool = False,
    leak: bool = False,
    relu: bool = False,
    with_h_0: bool = False,
    with_lengths: bool = False,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Recurrence:
    """Return a recurrence with its input; signs are real numbers near +-1, to check their gradients."""
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()

    def near_signs() -> Tensor:
        drawn = torch.randn(hidden_size, generator=generator, dtype=torch.float64)
        return (drawn.sign() * (1 + 0.01 * drawn.abs())).to(dtype).requires_grad_()

    if kind == "tokens":
        ids = torch.randint(5, (batch, time), generator=generator)
        inputs: dict[str, Any] = {"ids": ids, "weight": draw(5, hidden_size)}
    else:
        width = 20 if kind == "wide" else input_size
        inputs = {
            "x": draw(batch, time, width),
            "weight": draw(hidden_size, width),
            "bias": draw(hidden_size),
        }
    lengths = torch.randint(time + 1, (batch,), generator=generator) if with_lengths else None
    return Recurrence(
        signs=near_signs(),
        block_size=block_size,
        column_signs=near_signs() if columns else None,
        decay=0.5 + torch.rand(hidden_size, generator=generator).to(dtype) / 2 if leak else None,
        relu=relu,
        **inputs,
        h_0=draw(batch, hidden_size) if with_h_0 else None,
        lengths=lengths,
        segment=3,
    )


@st.composite
def cases(draw: st.DrawFn) -> Recurrence:
    hidden_size, block_size = draw(st.sampled_from(BLOCKS))
    return make_case(
        hidden_size,
        block_size,
        kind=draw(st.sampled_from(("dense", "wide", "tokens"))),
        batch=draw(st.integers(1, 4)),
        time=draw(st.integers(0, 40)),
        input_size=draw(st.integers(1, 3)),
        columns=draw(st.booleans()),
        leak=draw(st.booleans()),
        relu=draw(st.booleans()),
        with_h_0=draw(st.booleans()),
        with_lengths=draw(st.booleans()),
        seed=draw(st.integers(0, 2**31)),
    )
