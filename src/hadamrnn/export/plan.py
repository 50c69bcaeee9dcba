"""How the C of one model computes its step: where each butterfly runs, in how many bits, how it rounds.

A block H = F_1 kron ... kron F_r kron S_{2^k} is applied axis by axis, in any order (the integers are exact):

    state   passes over the whole state, in place: the widest strides first
    work    passes of one chunk in a 32-bit buffer, where 16 bits no longer hold the sums
    last    the last three stages of eight neighbours, in registers, fused with signs, input and rounding

The state is int16 where the passes over it fit 16 bits: k stages of p-bit numbers take p + k bits. Start
reading at `make_plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.overflow import recurrence_bound
from hadamrnn.hadamard.factors import Factor, make_factor
from hadamrnn.hadamard.orders import order_factors

GROUP = 8  # rows that are finished together: eight codes of p bits are p whole bytes
SLACK_BYTES = 128  # of work buffer that a small state may take beyond 4 bytes an entry
COUNTER_BYTES = 4


@dataclass(frozen=True)
class Pass:
    """One pass of butterflies (radix 2 or 4) or of a larger factor (then radix is its order)."""

    radix: int
    stride: int


@dataclass(frozen=True)
class Rounding:
    """round(acc m / 2^s): a shift when m is 1, else a product."""

    multiplier: int
    shift: int
    half_fits: bool  # acc + 2^(shift-1) stays in int32
    narrow: bool  # the product by halves, in 32 bits, is exact

    @property
    def high_multiplier(self) -> int | None:
        """m 2^(32-s), so that the result is the high word of a 64-bit product; None when it does not fit."""
        scaled = self.multiplier << 32 - self.shift if self.shift <= 32 else 1 << 32
        return scaled if scaled < 1 << 31 else None


@dataclass(frozen=True)
class Plan:
    """Everything the templates need to know beyond the model itself."""

    cell_bits: int  # of one state entry, 16 or 32
    rows: int  # hidden_size, rounded up to whole groups
    state: tuple[Pass, ...]
    work: tuple[Pass, ...]
    chunk: int  # entries that `work` passes and the last stages see together
    last: int  # 8, or 1 when no stage is left for the registers
    factors: tuple[Factor, ...]  # the larger factors that `state` names by their order
    rounding: Rounding

    @property
    def work_bytes(self) -> int:
        """The work buffers a step needs besides the state."""
        column = max((factor.order for factor in self.factors), default=0)
        return 4 * max(self.chunk if self.work else 0, column)

    @property
    def state_bytes(self) -> int:
        """sizeof the state struct, saturation counter included."""
        return self.rows * self.cell_bits // 8 + COUNTER_BYTES

    @property
    def groups(self) -> int:
        return self.rows // GROUP


def make_plan(model: IntegerModel) -> Plan:
    """Return the plan with the least memory, then the least work."""
    factors = order_factors(model.block_size)
    large = tuple(factor for factor in factors if factor != 2)
    stages = len(factors) - len(large)
    last = GROUP if stages >= 3 else 1
    outer = stages - 3 if last == GROUP else stages
    narrow = 0 if large else min(outer, _headroom(model))
    chunk = last << max(outer - narrow, 0)
    wide = large or narrow < 0 or (last == 1 and narrow < outer)
    if wide or 4 * chunk > 2 * model.hidden_size + SLACK_BYTES - COUNTER_BYTES:
        cell_bits, narrow, chunk = 32, outer, last
    else:
        cell_bits = 16
    two = 1 << stages
    large_passes, stride = [], model.block_size
    for factor in large:
        stride //= factor
        large_passes.append(Pass(factor, stride))
    return Plan(
        cell_bits=cell_bits,
        rows=-(-model.hidden_size // GROUP) * GROUP,
        state=(*large_passes, *_butterflies(two, narrow)),
        work=_butterflies(two >> narrow, outer - narrow),
        chunk=max(chunk, GROUP),
        last=last,
        factors=tuple(make_factor(order) for order in sorted(set(large))),
        rounding=_rounding(model),
    )


def _headroom(model: IntegerModel) -> int:
    """Return the stages that 16 bits hold; column signs may turn -2^(p-1) into 2^(p-1), which costs one."""
    return 16 - model.activation_bits - (model.only_layer.column_signs is not None)


def _butterflies(size: int, stages: int) -> tuple[Pass, ...]:
    """Return passes for the `stages` widest strides of S_size: radix 4 as long as two stages are left."""
    passes = []
    while stages > 0:
        radix = 4 if stages >= 2 else 2
        size //= radix
        stages -= 2 if radix == 4 else 1
        passes.append(Pass(radix, size))
    return tuple(passes)


def _rounding(model: IntegerModel) -> Rounding:
    multiplier, shift = model.only_layer.round_multiplier, model.only_layer.round_shift
    bound = sum(recurrence_bound(model.only_layer))
    half = 1 << shift >> 1
    # The narrow product sums bound m / 2^16 and half / 2^16 in 32 bits.
    narrow = multiplier > 1 and (bound * multiplier + half >> 16) + 1 < 1 << 31
    return Rounding(multiplier, shift, half_fits=bound + half < 1 << 31, narrow=narrow)


def has_input(model: IntegerModel) -> bool:
    """Whether U is not zero; a zero U may have any shift, so it is left out."""
    return bool(np.any(model.only_layer.input_weight_int))
