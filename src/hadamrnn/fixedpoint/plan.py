"""How the runtime computes and stores one model: the stages of each transform, and where its memory lies.

A block F_1 kron ... kron F_r kron S_{2^stages} is applied factor by factor (`runtime/hadamrnn.h`). A layer
keeps its state in cells of 16 bits if the stages that these hold leave little enough for the buffer of 32
bits: k stages of p-bit numbers take p + k bits. Start reading at `make_plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.network import COUNTED

GROUP = 8  # rows that are finished together: eight codes of p bits are p whole bytes
IN_REGISTERS = 2  # stages of the transform that are made with the rest of a row
TOGETHER = 4  # columns that a larger factor takes at once
SLACK_BYTES = 112  # of buffer that a small state may take beyond 4 bytes an entry
MAX_FACTORS = 4
COUNTER_BYTES = 8


@dataclass(frozen=True)
class LayerPlan:
    """The transform of one layer and the place of its state."""

    layer: IntegerLayer
    wide: bool  # its state has cells of 32 bits
    stages: int  # log2 of the power of two in the block
    in_place: int  # how many stages are made in the cells of the state
    factors: tuple[tuple[int, int], ...]  # order and stride of the factors that are no power of two
    cells: int  # where the state begins, among the wide or the narrow cells
    sums: int  # where the sums for the layer above begin, among the narrow cells

    @property
    def rows(self) -> int:
        """The units of the layer, rounded up to whole groups."""
        return whole_groups(self.layer.hidden_size)

    @property
    def work_cells(self) -> int:
        """Numbers of 32 bits that a step of the layer buffers."""
        buffered = max(self.stages - IN_REGISTERS, 0) - self.in_place
        chunk = 1 << IN_REGISTERS + buffered if buffered else 0
        return max([chunk, *(2 * TOGETHER * order for order, _ in self.factors)])


@dataclass(frozen=True)
class Plan:
    """The layers of a model and the memory of a stream, in cells."""

    layers: tuple[LayerPlan, ...]
    counts: int  # where the counters begin, among the wide cells; the sums come before them
    pool_wide: int  # sums and counters of the read-outs
    pool_narrow: int  # maxima of the read-outs
    phases: int  # where the layers' steps since the layer above made one begin, among the narrow cells
    wide_cells: int
    narrow_cells: int
    code_cells: int  # of the buffer for what a layer reads, 16 bits each

    @property
    def work_cells(self) -> int:
        return max(layer.work_cells for layer in self.layers)

    @property
    def state_bytes(self) -> int:
        """sizeof the state struct: no array of C is empty."""
        narrow = -(-max(self.narrow_cells, 1) // 2) * 2
        return COUNTER_BYTES + 4 * max(self.wide_cells, 1) + 2 * narrow

    @property
    def work_bytes(self) -> int:
        """The buffers that a step takes from the stack."""
        return 4 * max(self.work_cells, 1) + 2 * self.code_cells

    @property
    def is_pooled(self) -> bool:
        return self.pool_wide + self.pool_narrow > 0


def make_plan(model: IntegerModel) -> Plan:
    """Return the plan with the least memory, then the least work."""
    network = model.network
    strided = network.stride > 1 and len(model.layers) > 1
    rows = whole_groups(model.hidden_size)
    entries = rows * max(network.thresholds, 1)
    counts = entries if "mean" in network.readouts else 0
    wide = pool_wide = sum(entries for kind in network.readouts if kind in COUNTED)
    narrow = pool_narrow = rows if "max" in network.readouts else 0
    layers = []
    for layer in model.layers:
        planned = plan_layer(layer, wide, narrow)
        layers.append(planned)
        wide += planned.rows if planned.wide else 0
        narrow += 0 if planned.wide else planned.rows
        if strided and not layer.is_last:
            narrow += planned.rows
    between = [0 if strided else layer.rows for layer in layers[:-1]]
    read = 1 if model.input_kind == "one_hot" else model.input_size
    return Plan(
        layers=tuple(layers),
        counts=counts,
        pool_wide=pool_wide,
        pool_narrow=pool_narrow,
        phases=narrow,
        wide_cells=wide,
        narrow_cells=narrow + (len(layers) - 1 if strided else 0),
        code_cells=max([read, *between]),
    )


def plan_layer(layer: IntegerLayer, wide_cells: int, narrow_cells: int) -> LayerPlan:
    """Return the plan of a layer whose state follows the cells that are taken."""
    orders = order_factors(layer.block_size)
    large = [order for order in orders if order != 2]
    if len(large) > MAX_FACTORS:
        raise InputError(
            f"A block has at most {MAX_FACTORS} factors beside 2, {layer.block_size} has {large}."
        )
    stages = len(orders) - len(large)
    outer = max(stages - IN_REGISTERS, 0)
    narrow = min(outer, 16 - layer.activation_bits)
    chunk = 1 << IN_REGISTERS + outer - narrow if outer > narrow else 0
    wide = bool(large) or 4 * chunk > 2 * layer.hidden_size + SLACK_BYTES
    factors, stride = [], layer.block_size
    for order in large:
        stride //= order
        factors.append((order, stride))
    cells = wide_cells if wide else narrow_cells
    return LayerPlan(
        layer=layer,
        wide=wide,
        stages=stages,
        in_place=outer if wide else narrow,
        factors=tuple(factors),
        cells=cells,
        sums=narrow_cells + (0 if wide else whole_groups(layer.hidden_size)),
    )


def whole_groups(units: int) -> int:
    return -(-units // GROUP) * GROUP
