"""Normalise between layers and before the read-out, at the cost of a scale and a bias on a device.

Training uses the batch's statistics and updates running statistics; evaluation uses the running statistics as
constants, which `folded()` returns. Steps past a row's length are ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import widen
from hadamrnn.kernels.norm import counted as counted
from hadamrnn.kernels.norm import normalized
from hadamrnn.kernels.norm import valid_rows as valid_rows

EPSILON = 1e-5
MOMENTUM = 0.1
# An exponent changes only if its feature's spread changes by more than this many powers of two, so that it
# does not alternate between two values.
HYSTERESIS = 0.75
# A spread below this fraction of the mean is rounding error. A nearly constant feature must not dominate when
# it does vary, so its exponent is at most this far below the median.
LEAST_SPREAD = 1 / 256
DEEPEST = 6


class RunningMoments(nn.Module):
    """Running mean and variance of each unit, initialised by the first batch."""

    running_mean: Tensor
    running_var: Tensor
    batches: Tensor

    def __init__(
        self, size: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(size, device=device, dtype=dtype))
        self.register_buffer("running_var", torch.ones(size, device=device, dtype=dtype))
        self.register_buffer("batches", torch.zeros((), device=device, dtype=torch.int64))
        self.settling = False  # see `fresh_statistics`

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        self.running_mean.zero_()
        self.running_var.fill_(1)
        self.batches.zero_()

    @torch.no_grad()
    def track(self, mean: Tensor, var: Tensor) -> None:
        """Update the running statistics with the mean and variance of one batch."""
        least = 0.0 if self.settling else MOMENTUM
        share = torch.clamp(1 / (self.batches + 1), min=least).to(mean.dtype)
        for running, new in ((self.running_mean, mean), (self.running_var, var)):
            running.copy_(torch.lerp(running.to(new.dtype), new, share))
        self.batches += 1


@contextmanager
def fresh_statistics(model: nn.Module) -> Iterator[bool]:
    """Replace the running statistics by the statistics of the batches that the model reads in this block.

    All batches have equal weight. Exponents of features do not change, because V was trained with them.
    Yields whether the model has any statistics.
    """
    moments = [module for module in model.modules() if isinstance(module, RunningMoments)]
    for module in moments:
        module.batches.zero_()
        module.settling = True
    try:
        yield bool(moments)
    finally:
        for module in moments:
            module.settling = False


@torch.no_grad()
def refresh_statistics(
    model: nn.Module, batches: Iterable[Any], call: Callable[[Any], object] | None = None
) -> None:
    """Replace the running statistics of normalised layers by those of `batches`, with equal weights.

    The weights change after every batch, so running statistics lag behind, and an evaluation may be wrong by
    ten points. Call this before each evaluation; a few hundred training sequences suffice. Parameters and
    training modes do not change, and dropout is off.

    Args:
        model: any module that contains a normalised `HadamRNN` or `SequenceModel`.
        batches: inputs, or tuples whose first item is the input, as a DataLoader yields them.
        call: runs the model on a batch, if `model(x)` does not:
            `lambda batch: model(batch[0], batch[1])` for `(x, lengths)`.
    """
    modes = {module: module.training for module in model.modules()}
    count = 0
    try:
        with fresh_statistics(model.eval()):
            for module in modes:
                module.training = isinstance(module, RunningMoments)
            for batch in batches:
                count += 1
                is_tuple = isinstance(batch, (tuple, list)) and not isinstance(batch, PackedSequence)
                _ = model(batch[0] if is_tuple else batch) if call is None else call(batch)
    finally:
        for module, mode in modes.items():
            module.training = mode
    if count == 0:
        raise InputError("refresh_statistics needs at least one batch, got none.")


class UnitNorm(RunningMoments):
    """y = a (h - m) / s + c for each unit, with mean m and standard deviation s of its states."""

    def __init__(
        self, size: int, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> None:
        super().__init__(size, device, dtype)
        self.weight = nn.Parameter(torch.ones(size, device=device, dtype=dtype))
        self.bias = nn.Parameter(torch.zeros(size, device=device, dtype=dtype))

    def reset_parameters(self) -> None:
        """Set a = 1 and c = 0 and reset the running statistics."""
        self.reset_running_stats()
        nn.init.ones_(self.weight)
        nn.init.zeros_(self.bias)

    def folded(self) -> tuple[Tensor, Tensor]:
        """Return the scale and bias, each `(size,)`, of y = scale h + bias in evaluation."""
        scale = widen(self.weight) / (widen(self.running_var) + EPSILON).sqrt()
        return scale, widen(self.bias) - widen(self.running_mean) * scale

    def step(self, h: Tensor) -> Tensor:
        """Normalise one step `(..., size)` by the running statistics."""
        scale, bias = self.folded()
        return h * scale + bias

    def forward(self, h: Tensor, lengths: Tensor | None = None, skip: Tensor | None = None) -> Tensor:
        """Return ReLU(y) + skip for states `(batch, time, size)`; past a row's length, only the skip."""
        if self.training and h.numel() and (lengths is None or bool(lengths.any())):
            weight, bias = widen(self.weight), widen(self.bias)
            y, mean, var = normalized(h, weight, bias, lengths, skip, EPSILON)
            self.track(mean, var)
            return y
        y = h if self.training else self.step(h)
        y = y.relu() if lengths is None else y.relu() * counted(h, lengths)[:, :, None]
        return y if skip is None else y + skip


class FeatureScale(RunningMoments):
    """f -> 2^-e (f - m), which centres all features of a read-out and gives them about the same spread.

    The exponents e are integers that follow the running standard deviations. On a device they are shifts, and
    V 2^-e m becomes part of the output's bias. The largest is at most 15 above the smallest.
    """

    exponents: Tensor

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.register_buffer("exponents", torch.zeros(size))

    def reset_parameters(self) -> None:
        """Set e = 0 and reset the running statistics."""
        self.reset_running_stats()
        self.exponents.zero_()

    def folded(self) -> tuple[Tensor, Tensor]:
        """Return 2^-e and m, `(size,)` each."""
        return torch.exp2(-widen(self.exponents)), widen(self.running_mean)

    def step(self, features: Tensor) -> Tensor:
        """Scale features `(..., size)` by the running statistics."""
        scale, mean = self.folded()
        return ((features - mean) * scale).to(features.dtype)

    def forward(self, features: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Scale features `(batch, size)`, or `(batch, time, size)` with the lengths of the rows."""
        if not self.training:
            return self.step(features)
        rows = valid_rows(features, lengths)
        if rows.shape[0] == 0:
            return features
        var, mean = torch.var_mean(rows, 0, correction=0)
        self.track(mean.detach(), var.detach())
        if not self.settling:
            self._follow()
        return (features - mean) * self.folded()[0].to(features.dtype)

    @torch.no_grad()
    def _follow(self) -> None:
        """Update the exponents that are wrong by more than `HYSTERESIS`."""
        spread = torch.maximum(self.running_var.sqrt(), self.running_mean.abs() * LEAST_SPREAD)
        alive = spread > 0
        wanted = torch.where(alive, spread, torch.ones_like(spread)).log2()
        median = wanted[alive].median() if bool(alive.any()) else wanted.new_zeros(())
        wanted = torch.where(alive, wanted, median).clamp(min=median - DEEPEST)
        off = ((wanted - self.exponents).abs() > HYSTERESIS) | ~self.exponents.any()
        exponents = torch.where(off, wanted.round(), self.exponents)
        self.exponents.copy_(exponents.clamp(min=float(exponents.max()) - (2**EXPONENT_BITS - 1)))
