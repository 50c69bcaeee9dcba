"""How the C of one model computes its step: where each butterfly runs, in how many bits, how it rounds.

A block H = F_1 kron ... kron F_r kron S_{2^k} is applied axis by axis, in any order (the integers are exact):

    state   passes over the whole state, in place: the widest strides first
    work    passes of one chunk in a 32-bit buffer, where 16 bits no longer hold the sums
    last    the last two stages of four neighbours, in registers, fused with signs, input and rounding

The state is int16 where the passes over it fit 16 bits: k stages of p-bit numbers take p + k bits. Start
reading at `make_plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.fixedpoint.overflow import recurrence_bound
from hadamrnn.hadamard.orders import Factor, make_factor, order_factors
from hadamrnn.network import COUNTED

GROUP = 8  # rows that are finished together: eight codes of p bits are p whole bytes
LAST = 4  # entries of the last two stages: more would not stay in the registers of a Cortex-M
SLACK_BYTES = 128  # of work buffer that a small state may take beyond 4 bytes an entry
COUNTER_BYTES = 4


@dataclass(frozen=True)
class Pass:
    """One pass of butterflies (radix 2, 4 or 8) or of a larger factor (then radix is its order)."""

    radix: int
    stride: int
    kind: str  # pass (in place), pairs (in place, two lanes a word), widen (16 bits to 32), factor
    bits: int = 16  # of an entry

    @property
    def function(self) -> str:
        """The function that runs it, behind the prefix of the model."""
        return f"{self.kind}{self.radix}" + ("_wide" if self.kind == "pass" and self.bits == 32 else "")


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
class LayerPlan:
    """What the templates need to know of one layer beyond the layer itself."""

    cell_bits: int  # of one state entry, 16 or 32
    rows: int  # hidden_size, rounded up to whole groups
    state: tuple[Pass, ...]
    work: tuple[Pass, ...]
    chunk: int  # entries that `work` passes and the last stages see together
    last: int  # 4, or 1 when no stage is left for the registers
    factors: tuple[Factor, ...]  # the larger factors that `state` names by their order
    rounding: Rounding

    @property
    def groups(self) -> int:
        return self.rows // GROUP

    @property
    def work_bytes(self) -> int:
        """The work buffers that its step takes besides the state."""
        column = max((factor.order for factor in self.factors), default=0)
        return 4 * max(self.chunk if self.work else 0, column)


@dataclass(frozen=True)
class Plan:
    """The layers of a model, and the memory that it takes as a whole."""

    layers: tuple[LayerPlan, ...]
    codes: int  # entries of the buffer for what a layer reads: 16 bits each, none where none is needed
    strided: bool  # layers keep the sums of what the layer above reads, between steps
    counters: int  # 32-bit sums and counters of the read-outs
    maxima: int  # 16-bit maxima of the read-outs
    limited: bool  # the steps of a sequence are counted, since its sums have a limit

    @property
    def pool_bytes(self) -> int:
        """sizeof what the read-outs keep: sums, counters, maxima and the number of steps."""
        pooled = self.counters or self.maxima
        return _aligned(4 * self.counters + 2 * self.maxima + 2) if pooled else 0

    @property
    def state_bytes(self) -> int:
        """sizeof the state struct, saturation counter included."""
        cells = sum(layer.rows * layer.cell_bits // 8 for layer in self.layers)
        kept = [2 * layer.rows + 2 for layer in self.layers[:-1]] if self.strided else []
        return _aligned(cells + sum(kept) + self.pool_bytes + COUNTER_BYTES + 2 * self.limited)

    @property
    def work_bytes(self) -> int:
        """The buffers that a step takes from the stack."""
        return max(layer.work_bytes for layer in self.layers) + 2 * self.codes

    @property
    def factors(self) -> tuple[Factor, ...]:
        """The larger factors of all layers, each once."""
        found = {factor.order: factor for layer in self.layers for factor in layer.factors}
        return tuple(found[order] for order in sorted(found))

    @property
    def passes(self) -> tuple[Pass, ...]:
        """One pass for every function that the layers call."""
        found = {p.function: p for layer in self.layers for p in (*layer.state, *layer.work)}
        return tuple(found[name] for name in sorted(found) if found[name].kind != "factor")


def make_plan(model: IntegerModel) -> Plan:
    """Return the plan with the least memory, then the least work."""
    network, layers = model.network, tuple(plan_layer(layer) for layer in model.layers)
    strided = network.stride > 1 and len(layers) > 1
    kinds, rows = network.readouts, layers[-1].rows
    counted = sum(kind in COUNTED for kind in kinds) * max(network.thresholds, 1)
    return Plan(
        layers=layers,
        codes=max([saturated_codes(model), *(0 if strided else layer.rows for layer in layers[:-1])]),
        strided=strided,
        counters=counted * rows,
        maxima=rows if "max" in kinds else 0,
        limited=model.longest > 0,
    )


def saturated_codes(model: IntegerModel) -> int:
    """Return how many input codes a step saturates into a buffer: one alone needs none."""
    lowest = model.layers[0]
    read = (has_input(lowest) and lowest.input_size > 1) or lowest.skip_shift is not None
    return lowest.input_size if model.input_kind == "dense" and read and lowest.input_bits < 16 else 0


def plan_layer(layer: IntegerLayer) -> LayerPlan:
    """Return the plan of one layer."""
    factors = order_factors(layer.block_size)
    large = tuple(factor for factor in factors if factor != 2)
    stages = len(factors) - len(large)
    last = LAST if stages >= 2 else 1
    outer = stages - 2 if last == LAST else stages
    narrow = 0 if large else min(outer, 16 - layer.activation_bits)  # what 16 bits hold
    chunk = last << max(outer - narrow, 0)
    wide = large or narrow < 0 or (last == 1 and narrow < outer)
    if wide or 4 * chunk > 2 * layer.hidden_size + SLACK_BYTES - COUNTER_BYTES:
        cell_bits, narrow, chunk = 32, outer, last
    else:
        cell_bits = 16
    two = 1 << stages
    large_passes, stride = [], layer.block_size
    for factor in large:
        stride //= factor
        large_passes.append(Pass(factor, stride, "factor", cell_bits))
    return LayerPlan(
        cell_bits=cell_bits,
        rows=-(-layer.hidden_size // GROUP) * GROUP,
        state=(*large_passes, *_butterflies(two, narrow, cell_bits)),
        work=_widened(two >> narrow, outer - narrow),
        chunk=max(chunk, GROUP),
        last=last,
        factors=tuple(make_factor(order) for order in sorted(set(large))),
        rounding=_rounding(layer),
    )


def _butterflies(size: int, stages: int, bits: int) -> tuple[Pass, ...]:
    """Return passes for the `stages` widest strides of S_size, radix 4 as long as two stages are left."""
    passes = []
    while stages > 0:
        taken = min(stages, 2)
        size >>= taken
        stages -= taken
        kind = "pairs" if bits == 16 and size % 2 == 0 else "pass"
        passes.append(Pass(1 << taken, size, kind, bits))
    return tuple(passes)


def _widened(size: int, stages: int) -> tuple[Pass, ...]:
    """Return passes over a chunk of S_size; the first one reads 16 bits, radix 8 for an odd number."""
    if stages == 0:
        return ()
    taken = min(stages, 3 if stages % 2 else 2)
    first = Pass(1 << taken, size >> taken, "widen", 32)
    return (first, *_butterflies(first.stride, stages - taken, 32))


def _rounding(layer: IntegerLayer) -> Rounding:
    multiplier, shift = layer.round_multiplier, layer.round_shift
    bound = sum(recurrence_bound(layer))
    half = 1 << shift >> 1
    # The narrow product sums bound m / 2^16 and half / 2^16 in 32 bits.
    narrow = multiplier > 1 and (bound * multiplier + half >> 16) + 1 < 1 << 31
    return Rounding(multiplier, shift, half_fits=bound + half < 1 << 31, narrow=narrow)


def has_input(layer: IntegerLayer) -> bool:
    """Whether U is not zero; a zero U may have any shift, so it is left out."""
    return bool(np.any(layer.input_weight_int))


def _aligned(size: int) -> int:
    return -(-size // 4) * 4
