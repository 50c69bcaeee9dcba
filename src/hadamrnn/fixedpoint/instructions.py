"""The instructions of a step on a Cortex-M4, estimated without an emulator. Start at `estimate`.

    step     = 45 + sum of the layers
    layer    = d_h (19.15 + 1.9 k - 1.08 n + [0.13 if k is odd] + [12.24 + c_p d_in] + extra)  (s_p above)
    extra    = [3.21 for one leak, 13.49 for several] + [31.6 for gains] + 7.41 for each pooled feature
    read-out = d_out (32 + r_p d_h)                         added if every step is read out

Blocks have 2^k units; n of their k stages have sums that fit 16 bits. The bracket with d_in is for two dense
channels or more; an odd k rounds by a product. A layer above a stride counts once in that many steps. The
constants were fitted to counts (`gcc -O2`, packed weights, QEMU, as in docs/edge.md) of 39 networks with 16
to 512 units, blocks of 4 to 512 and 1 to 10 channels, 18 of them with leaks, pooled features or several
layers; s_p, of the products of a layer above the first, to 18 more. Of 40 networks drawn afterwards, of 4 to
512 units and 1 to 16 channels, 37 are within 15 % of the count, half of them within 5 %, and the worst is
18 % off (`hadamrnn bench instructions`).
"""

from __future__ import annotations

from hadamrnn.architecture import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.network import Network, features_per_unit

USUAL_BITS = 12  # of states, where a network in floating point does not say
PER_STEP, PER_UNIT, PER_STAGE, NARROW_SAVING, PER_PRODUCT_ROUNDING = 45.0, 19.15, 1.9, 1.08, 0.13
PER_DENSE_UNIT, PER_OUTPUT = 12.24, 32.0
PER_SINGLE_LEAK, PER_LEAK, PER_GAIN, PER_POOLED = 3.21, 13.49, 31.6, 7.41
PER_CHANNEL: dict[WeightBits, float] = {"ternary": 2.01, 2: 2.01, 3: 2.47, 4: 2.06, 6: 3.73, 8: 2.01}  # c_p
PER_STATE: dict[WeightBits, float] = {"ternary": 2.85, 2: 2.85, 3: 3.47, 4: 2.45, 6: 4.82, 8: 2.46}  # s_p
PER_PRODUCT: dict[WeightBits, float] = {"ternary": 3.86, 2: 3.86, 3: 4.5, 4: 3.5, 6: 4.5, 8: 3.33}  # r_p


def estimate(network: Network) -> int:
    """Estimate the instructions of a step, averaged over the steps that a stride skips."""
    step = PER_STEP + sum(
        units * _unit_cost(network, layer, size_read) / float(network.stride) ** layer
        for layer, (units, size_read) in enumerate(zip(network.widths, network.cell_input_sizes, strict=True))
    )
    if network.every_output:
        row = PER_OUTPUT + _of_bits(PER_PRODUCT, network) * network.hidden_size
        step += network.output_size * row
    return round(step)


def _unit_cost(network: Network, layer: int, size_read: int) -> float:
    """Return the instructions of one unit of a layer that reads `size_read` numbers."""
    stages = (network.widths[layer] // network.num_blocks).bit_length() - 1
    narrow = min(stages, 16 - (network.activation_bits or USUAL_BITS))  # stages whose sums fit 16 bits
    cost = PER_UNIT + PER_STAGE * stages - NARROW_SAVING * narrow + PER_PRODUCT_ROUNDING * (stages % 2)
    if size_read > 1 and (layer > 0 or network.input_kind != "one_hot"):
        cost += PER_DENSE_UNIT + _of_bits(PER_STATE if layer > 0 else PER_CHANNEL, network) * size_read
    if network.block_leaks:
        cost += PER_LEAK if len(set(network.block_leaks)) > 1 else PER_SINGLE_LEAK
    if layer < network.num_layers - 1:
        return cost + (PER_GAIN if network.scales_layers else 0.0)
    pooled = [kind for kind in network.readouts if kind != "last"]
    return cost + PER_POOLED * features_per_unit(pooled, network.thresholds)


def estimate_readout(network: Network) -> int:
    """Estimate the instructions of one read-out."""
    return round(network.output_size * (PER_OUTPUT + _of_bits(PER_PRODUCT, network) * network.num_features))


def _of_bits(table: dict[WeightBits, float], network: Network) -> float:
    """Return a cost by the bits of the weights; 5 and 7 were not measured and count as one more."""
    bits = network.weight_bits
    if bits not in table and isinstance(bits, int):
        bits += 1
    if bits is None or bits not in table:
        raise InputError(f"Integers hold weights of 2 to 8 bits, or ternary ones, got {network.weight_bits}.")
    return table[bits]
