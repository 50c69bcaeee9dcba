"""Instructions of one step on a Cortex-M4: an estimate that needs no tools, and the count in the emulator.

    layer    = d_h (16.4 + 1.32 k + [2.5 if k is odd] + [3.75 + c_p d_in] + extra)     blocks of 2^k
    extra    = [2.5 for one leak, 10 for several] + [9 for gains] + 8 for each pooled feature
    read-out = d_out (15.6 + r_p d_h)                       added if every step is read out

The bracket with d_in is for two dense channels or more; an odd k rounds by a product. Above a stride a layer
counts once in as many steps. The constants were fitted to counts (`gcc -O2`, packed weights, QEMU, as in
docs/edge.md) of 80 networks with 16 to 1024 units, blocks of 4 to 1024, 1 to 45 channels, `extra` to 28
networks that forget, count and stack. From 16 units on the estimate is within 10 % of the count, of three
layers within 15 %.
"""

from __future__ import annotations

from hadamrnn.bits import WeightBits
from hadamrnn.export.report import try_measure
from hadamrnn.export.targets import target_named
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network, features_per_unit

BOARD = "cortex-m4"
PER_UNIT, PER_STAGE, PER_PRODUCT_ROUNDING, PER_DENSE_UNIT, PER_OUTPUT = 16.4, 1.32, 2.5, 3.75, 15.6
PER_SINGLE_LEAK, PER_LEAK, PER_GAIN, PER_POOLED = 2.5, 10.0, 9.0, 8.0
PER_CHANNEL: dict[WeightBits, float] = {"ternary": 3.1, 2: 3.1, 3: 4.2, 4: 3.83, 6: 5.1, 8: 2.7}  # c_p
PER_PRODUCT: dict[WeightBits, float] = {"ternary": 3.82, 2: 3.82, 3: 4.2, 4: 4.07, 6: 4.43, 8: 3.33}  # r_p


def estimate(network: Network) -> int:
    """Return the estimated instructions of a step, on average over the steps that a stride skips."""
    step = sum(
        units * _unit_cost(network, layer, size_read) / float(network.stride) ** layer
        for layer, (units, size_read) in enumerate(zip(network.widths, network.cell_input_sizes, strict=True))
    )
    if network.every_output:
        row = PER_OUTPUT + PER_PRODUCT[network.weight_bits] * network.hidden_size
        step += network.output_size * row
    return round(step)


def _unit_cost(network: Network, layer: int, size_read: int) -> float:
    """Return the instructions of one unit of a layer that reads `size_read` numbers."""
    stages = (network.widths[layer] // network.num_blocks).bit_length() - 1
    cost = PER_UNIT + PER_STAGE * stages + PER_PRODUCT_ROUNDING * (stages % 2)
    if size_read > 1 and (layer > 0 or network.input_kind != "one_hot"):
        cost += PER_DENSE_UNIT + PER_CHANNEL[network.weight_bits] * size_read
    if network.block_leaks:
        cost += PER_LEAK if len(set(network.block_leaks)) > 1 else PER_SINGLE_LEAK
    if layer < network.num_layers - 1:
        return cost + (PER_GAIN if network.scales_layers else 0.0)
    pooled = [kind for kind in network.readouts if kind != "last"]
    return cost + PER_POOLED * features_per_unit(pooled, network.thresholds)


def count(network: Network, model: IntegerModel | None = None) -> int | str:
    """Return the counted instructions of a step, or why there is no count; by default of a drawn model."""
    found = try_measure(model or draw_model(network), target_named(BOARD))
    if isinstance(found, str):
        return found
    return found.step + (found.readout if network.every_output else 0)
