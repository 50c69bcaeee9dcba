"""Plan how the runtime computes and stores a model: the stages of each transform, and the memory layout.

A block F_1 kron ... kron F_r kron S_{2^stages} is applied factor by factor (`runtime/hadamrnn.h`). Stages run
in pairs in the state's own 16 bits as long as these suffice (k stages of p-bit numbers take p + k bits), and
the rest in a 32-bit buffer. Start reading at `make_plan`.
"""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.fixedpoint.layer import IntegerLayer
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.network import COUNTED
from hadamrnn.settings import check_int

GROUP = 8  # rows processed together, because eight codes of p bits fill p bytes
IN_REGISTERS = 2  # transform stages computed in registers, together with the rest of a row's step
MAX_FACTORS = 4
COUNTER_BYTES = 8


@dataclass(frozen=True)
class LayerPlan:
    """The transform stages of one layer and the location of its state."""

    layer: IntegerLayer
    stages: int  # log2 of the power of two in the block
    in_place: int  # number of stages computed in the state's own cells, always even
    factors: tuple[tuple[int, int], ...]  # order and stride of each factor that is not a power of two
    cells: int  # offset of the state among the narrow cells
    sums: int  # offset of the stride sums among the narrow cells

    @property
    def rows(self) -> int:
        """The number of units of the layer, rounded up to whole groups."""
        return whole_groups(self.layer.hidden_size)

    @property
    def work_cells(self) -> int:
        """The number of 32-bit buffer cells that a step of the layer needs."""
        if self.factors:
            return self.rows + 2 * max(order for order, _ in self.factors)
        buffered = max(self.stages - IN_REGISTERS, 0) - self.in_place
        return 1 << IN_REGISTERS + buffered if buffered else 0


@dataclass(frozen=True)
class Plan:
    """The layers of a model and the memory of a stream, in cells."""

    layers: tuple[LayerPlan, ...]
    counts: int  # offset of the counters among the wide cells, after the sums
    pool_wide: int  # cells for sums and counters of the read-outs
    pool_narrow: int  # cells for maxima of the read-outs
    phases: int  # offset of the stride counters among the narrow cells
    narrow_cells: int
    code_cells: int  # cells of the buffer for a layer's input, 16 bits each

    @property
    def work_cells(self) -> int:
        return max(layer.work_cells for layer in self.layers)

    @property
    def state_bytes(self) -> int:
        """The sizeof of the state struct; C has no empty arrays."""
        narrow = -(-max(self.narrow_cells, 1) // 2) * 2
        return COUNTER_BYTES + 4 * max(self.pool_wide, 1) + 2 * narrow

    @property
    def work_bytes(self) -> int:
        """The bytes of the buffers that a step has on the stack."""
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
    pool_wide = sum(entries for kind in network.readouts if kind in COUNTED)
    narrow = pool_narrow = rows if "max" in network.readouts else 0
    layers = []
    for layer in model.layers:
        layers.append(plan_layer(layer, narrow))
        narrow += layers[-1].rows * (2 if strided and not layer.is_last else 1)
    between = [0 if strided else layer.rows for layer in layers[:-1]]
    read = 1 if model.input_kind == "one_hot" else model.input_size
    return Plan(
        layers=tuple(layers),
        counts=counts,
        pool_wide=pool_wide,
        pool_narrow=pool_narrow,
        phases=narrow,
        narrow_cells=narrow + (len(layers) - 1 if strided else 0),
        code_cells=max([read, *between]),
    )


def plan_layer(layer: IntegerLayer, cells: int) -> LayerPlan:
    """Return the plan of a layer whose state begins at `cells`."""
    orders = order_factors(layer.block_size)
    large = [order for order in orders if order != 2]
    check_int(f"The number of factors beside 2 of a block of {layer.block_size}", len(large), 0, MAX_FACTORS)
    stages = len(orders) - len(large)
    in_place = 0 if large else min(max(stages - IN_REGISTERS, 0), 16 - layer.activation_bits) // 2 * 2
    factors, stride = [], layer.block_size
    for order in large:
        stride //= order
        factors.append((order, stride))
    return LayerPlan(
        layer=layer,
        stages=stages,
        in_place=in_place,
        factors=tuple(factors),
        cells=cells,
        sums=cells + whole_groups(layer.hidden_size),
    )


def whole_groups(units: int) -> int:
    return -(-units // GROUP) * GROUP
