"""Instructions of one step on a Cortex-M4: an estimate that needs no tools, and the count in the emulator.

    step     = d_h (16.4 + 1.32 k + [2.5 if k is odd] + [3.75 + c_p d_in])     blocks of 2^k
    read-out = d_out (15.6 + r_p d_h)                                          added if every step is read out

The last term is for two dense channels or more; an odd k rounds by a product. The constants were fitted to
counts (`gcc -O2`, packed weights, QEMU, as in docs/edge.md) of 80 networks with 16 to 1024 units, blocks of 4
to 1024, 1 to 45 channels. From 16 units on the estimate is within 10 % of the count.
"""

from __future__ import annotations

from hadamrnn.bits import WeightBits
from hadamrnn.export.report import try_measure
from hadamrnn.export.targets import target_named
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network

BOARD = "cortex-m4"
PER_UNIT, PER_STAGE, PER_PRODUCT_ROUNDING, PER_DENSE_UNIT, PER_OUTPUT = 16.4, 1.32, 2.5, 3.75, 15.6
PER_CHANNEL: dict[WeightBits, float] = {"ternary": 3.1, 2: 3.1, 3: 4.2, 4: 3.83, 6: 5.1, 8: 2.7}  # c_p
PER_PRODUCT: dict[WeightBits, float] = {"ternary": 3.82, 2: 3.82, 3: 4.2, 4: 4.07, 6: 4.43, 8: 3.33}  # r_p


def estimate(network: Network) -> int:
    """Return the estimated instructions of a step."""
    stages = network.block_size.bit_length() - 1
    unit = PER_UNIT + PER_STAGE * stages + PER_PRODUCT_ROUNDING * (stages % 2)
    if network.input_kind != "one_hot" and network.input_size > 1:
        unit += PER_DENSE_UNIT + PER_CHANNEL[network.weight_bits] * network.input_size
    step = network.hidden_size * unit
    if network.every_output:
        row = PER_OUTPUT + PER_PRODUCT[network.weight_bits] * network.hidden_size
        step += network.output_size * row
    return round(step)


def count(network: Network, model: IntegerModel | None = None) -> int | str:
    """Return the counted instructions of a step, or why there is no count; by default of a drawn model."""
    found = try_measure(model or draw_model(network), target_named(BOARD))
    if isinstance(found, str):
        return found
    return found.step + (found.readout if network.every_output else 0)
