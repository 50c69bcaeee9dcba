"""Instructions of one step on a Cortex-M4: an estimate that needs no tools, and the count in the emulator.

    step     = d_h (20.7 + 1.6 k + c_p d_in)     blocks of 2^k; the last term for two dense channels or more
    read-out = d_out (20 + r_p d_h)              added if every step is read out

The constants were fitted to counts (`gcc -O2`, packed weights, QEMU, as in docs/edge.md) of 43 networks with
8 to 1024 units, blocks of 4 to 1024, 1 to 45 channels; c_p to 30 with 2 to 45. From 16 units
on the estimate is within 10 % of the count.
"""

from __future__ import annotations

from hadamrnn.bits import WeightBits
from hadamrnn.export.report import try_measure
from hadamrnn.export.targets import target_named
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network

BOARD = "cortex-m4"
PER_UNIT, PER_STAGE, PER_OUTPUT = 20.7, 1.6, 20
PER_CHANNEL: dict[WeightBits, float] = {"ternary": 3.95, 2: 3.95, 3: 4.5, 4: 4.6, 6: 4.4, 8: 3.35}  # c_p
PER_PRODUCT: dict[WeightBits, float] = {"ternary": 4.75, 2: 4.75, 3: 5.13, 4: 5.0, 6: 5.5, 8: 4.5}  # r_p


def estimate(network: Network) -> int:
    """Return the estimated instructions of a step."""
    stages = network.block_size.bit_length() - 1
    channels = network.input_size if network.input_kind != "one_hot" and network.input_size > 1 else 0
    unit = PER_UNIT + PER_STAGE * stages + PER_CHANNEL[network.weight_bits] * channels
    step = network.hidden_size * unit
    if network.every_output:
        row = PER_OUTPUT + PER_PRODUCT[network.weight_bits] * network.hidden_size
        step += network.output_size * row
    return round(step)


def count(network: Network, model: IntegerModel | None = None) -> int | str:
    """Return the counted instructions of a step, or why not; by default of a drawn model."""
    found = try_measure(model or draw_model(network), target_named(BOARD))
    if isinstance(found, str):
        return found
    return found.step + (found.readout if network.every_output else 0)
