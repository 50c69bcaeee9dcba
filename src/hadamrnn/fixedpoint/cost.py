"""Count the bytes of a network and the operations of a step, and estimate its instructions.

Operations are counted in two ways: as in the paper (Section 3.6, Table 1), where W h takes d_h 2^k additions,
and for the fast transform, d_h k additions. Needs no torch; `hadamrnn cost` prints the result. `estimate`
gives the instructions of a step on a Cortex-M4 without an emulator, and `Load` how much of a device a network
with its windows takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from hadamrnn.architecture import EXPONENT_BITS, FLOAT_BITS, WeightBits, stored_bits
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.blob import ModelData
from hadamrnn.fixedpoint.drawn import draw_model
from hadamrnn.fixedpoint.plan import make_plan, whole_groups
from hadamrnn.front_end import front_end_cost
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.network import Network, features_per_unit


@dataclass(frozen=True)
class Size:
    """Storage in bits, part by part. A kilobyte is 1024 bytes of 8 bits."""

    signs: int
    weights: int
    biases: int
    embedding: int
    scales: int = 0  # leaks, normalisation and pooled read-outs, which the paper's network lacks

    @property
    def bits(self) -> int:
        """The number of bits without the embedding table, as in the paper's tables."""
        return self.signs + self.weights + self.biases + self.scales

    @property
    def bytes(self) -> int:
        """The number of whole bytes: the weight payload of an integer file, if sizes are multiples of 8."""
        return -(-self.bits // 8)

    @property
    def kilobytes(self) -> float:
        return self.bits / 8192

    @property
    def kilobytes_with_embedding(self) -> float:
        return (self.bits + self.embedding) / 8192


@dataclass(frozen=True)
class Operations:
    """Multiplications and additions of one layer in one time step."""

    multiplications: int
    additions: int

    def every(self, steps: int) -> Operations:
        """Return the mean operations per step, rounded up, if only one step in `steps` performs them."""
        return Operations(-(-self.multiplications // steps), -(-self.additions // steps))


def add_up(parts: Sequence[Operations]) -> Operations:
    return Operations(sum(part.multiplications for part in parts), sum(part.additions for part in parts))


@dataclass(frozen=True)
class StepCost:
    """The operations of one time step by layer, as in the paper's complexity table."""

    input: Operations
    recurrent: Operations
    output: Operations

    @property
    def total(self) -> Operations:
        return add_up([self.input, self.recurrent, self.output])


def network_size(network: Network) -> Size:
    """Return the size of a HadamRNN or Block-HadamRNN.

        d_h + p d_h (d_in + d_out) + p_a (d_h + d_out) bits

    for one layer; stacks have signs, U and b_i for every cell. Without `input_bias` there is no b_i. A bias
    takes `activation_bits`, or 32 if activations stay in floating point (None). A ternary weight takes 2
    bits. The embedding table, with `activation_bits` per entry, is listed separately.
    Not in the paper's network: 4 bits for the leak of each block, shared by all layers; thresholds at
    `activation_bits`; a scale and a bias for each normalised unit below the last layer; 4 bits for the
    scale of each normalised feature.

    >>> round(network_size(Network(1, 512, 10, weight_bits=4, activation_bits=12)).kilobytes, 2)
    3.58
    """
    bias_bits = FLOAT_BITS if network.activation_bits is None else network.activation_bits
    return Size(
        signs=sum(network.cell_sizes) * (2 if network.column_switches else 1),
        weights=stored_bits(network.weight_bits) * network.num_weights,
        biases=bias_bits * network.num_biases,
        embedding=bias_bits * network.input_size * (network.vocabulary_size or 0),
        scales=_scale_bits(network, bias_bits),
    )


def _scale_bits(network: Network, bias_bits: int) -> int:
    """Return the bits of leaks, thresholds, gains and offsets, and scales of features.

    With a skip or pooled read-outs, only the integer network needs the last two.
    """
    integer = network.activation_bits is not None
    leaks = EXPONENT_BITS * len(network.block_leaks)
    thresholds = bias_bits * network.thresholds * network.state_size
    features = network.num_features if (network.scales_features if integer else network.normalize) else 0
    return leaks + thresholds + 2 * bias_bits * _gains(network) + EXPONENT_BITS * features


def _gains(network: Network) -> int:
    """Return the number of units that have a gain and an offset."""
    integer = network.activation_bits is not None
    scaled = network.scales_layers if integer else network.normalize
    return network.directions * sum(network.widths[:-1]) if scaled else 0


def paper_step_cost(network: Network) -> StepCost:
    """Return the paper's count for (Block-)HadamRNN: d_h d_h / q additions for W h, no multiplications."""
    return _step_cost(network, [size // network.num_blocks for size in network.cell_sizes])


def fast_step_cost(network: Network) -> StepCost:
    """Return the count with the fast transform: d_h (|F| - 1) additions for each Kronecker factor F.

    >>> mnist = Network(input_size=1, hidden_size=512, output_size=10)
    >>> fast_step_cost(mnist).recurrent.additions, paper_step_cost(mnist).recurrent.additions
    (4608, 262144)
    """
    blocks = [order_factors(size // network.num_blocks) for size in network.cell_sizes]
    return _step_cost(network, [sum(factor - 1 for factor in factors) for factors in blocks])


def matrix_product(entries: int, bits: int) -> Operations:
    """Return the operations of a matrix-vector product; 1- and 2-bit weights need no multiplications."""
    return Operations(multiplications=0 if bits <= 2 else entries, additions=entries)


def _step_cost(network: Network, additions: list[int]) -> StepCost:
    """Return the operations of all cells per input step, if W h takes `additions` per unit.

    A leak takes one subtraction per unit, a gain one multiplication and one addition, and a pooled feature
    one addition (V then runs once per sequence, but is counted in full). With a stride s, layer l runs once
    in s^l steps, which is counted as a mean, and takes one addition per unit for the next layer.
    """
    bits, directions = stored_bits(network.weight_bits), network.directions
    inputs, recurrent = [], []
    for cell, (size, seen) in enumerate(zip(network.cell_sizes, network.cell_input_sizes, strict=True)):
        layer = cell // directions
        # A one-hot input selects one column of U.
        one_hot = network.input_kind == "one_hot" and layer == 0
        product = Operations(0, size) if one_hot else matrix_product(size * seen, bits)
        leak = size if network.block_leaks else 0
        gain = size if _gains(network) and layer < network.num_layers - 1 else 0
        sums = size if network.stride > 1 and layer < network.num_layers - 1 else 0
        period = network.stride**layer
        inputs.append(product.every(period))
        recurrent.append(Operations(gain, size * additions[cell] + leak + gain + sums).every(period))
    output = matrix_product(network.num_features * network.output_size, bits)
    pools = network.num_features if network.is_pooled else 0
    top = network.stride ** (network.num_layers - 1)
    return StepCost(
        input=add_up(inputs),
        recurrent=add_up(recurrent),
        output=Operations(output.multiplications, output.additions + pools).every(top),
    )


USUAL_BITS = 12  # assumed bits of states if the network is in floating point
PER_STEP, PER_UNIT, PER_STAGE, PER_DENSE, PER_DENSE_UNIT = 45.0, 20.0, 1.4, 84.0, 6.5
PER_FACTOR, PER_TERM, PER_PRODUCT_ROUNDING = 26.9, 4.8, 2.9
PER_SINGLE_LEAK, PER_LEAK, PER_GAIN, PER_LAYER_OUTPUT = 2.3, 11.6, 18.1, 9.7
PER_POOLED = {"mean": 7.0, "max": 5.9, "positive": 10.2}
BITS: tuple[WeightBits, ...] = ("ternary", 2, 3, 4, 5, 6, 7, 8)
PER_CHANNEL = dict(zip(BITS, (2.88, 2.88, 3.76, 2.53, 4.5, 4.91, 5.6, 2.5), strict=True))  # c_p
PER_PRODUCT = dict(zip(BITS, (3.31, 3.31, 3.76, 2.91, 3.92, 3.93, 3.86, 2.69), strict=True))  # r_p
PER_OUTPUT, PER_STATE = 34.1, 6.5
PER_FEATURE = {"last": 38.9, "mean": 50.8, "max": 41.7, "positive": 41.8}  # if each feature has a scale


def estimate(network: Network) -> int:
    """Estimate the instructions of a step, averaged over the steps that a stride skips.

        step     = 45 + sum of the layers
        layer    = d_h (20 + 1.4 k + [26.9 + 4.8 m] + [2.9] + extra) + [84 + d_8 (6.5 + c_p d_in)]
        extra    = [2.3 for one leak, 11.6 for several]
                   + below a layer 18.1 with gains, else 9.7; at the top 5.9 to 10.2 for each pooled feature
        read-out = `estimate_readout`                           added if every step is read out

    Blocks have 2^k units, or m 2^k with a factor m such as 12. The term 2.9 is the product for rounding,
    which blocks of 4^j units do not need. d_8 is d_h rounded up to a multiple of 8; the bracket with d_in
    is for two or more dense channels. A layer above a stride counts once in that many steps. The constants
    were fitted to counts (`gcc -O2`, packed weights, QEMU, as in docs/edge.md) for 151 networks of 4 to 384
    units, 1 to 16 channels and up to 3 layers. For 60 other networks all estimates are within 15 % of the
    count, for half of them within 1.1 % (`hadamrnn bench instructions`).
    """
    step = PER_STEP + sum(
        _layer_cost(network, layer, size_read) / float(network.stride) ** layer
        for layer, size_read in enumerate(network.cell_input_sizes)
    )
    return round(step + (estimate_readout(network) if network.every_output else 0))


def _layer_cost(network: Network, layer: int, size_read: int) -> float:
    """Estimate the instructions of a layer that reads `size_read` numbers."""
    units, leaks = network.widths[layer], set(network.block_leaks)
    factors = order_factors(units // network.num_blocks)
    each = PER_UNIT + sum(PER_STAGE if factor == 2 else PER_FACTOR + PER_TERM * factor for factor in factors)
    each += 0.0 if set(factors) <= {2} and len(factors) % 2 == 0 else PER_PRODUCT_ROUNDING
    each += (PER_LEAK if len(leaks) > 1 else PER_SINGLE_LEAK) if leaks else 0.0
    if layer < network.num_layers - 1:
        each += PER_GAIN if network.scales_layers else PER_LAYER_OUTPUT
    else:
        each += _of_readouts({**PER_POOLED, "last": 0.0}, network)
    cost = units * each
    if size_read > 1 and (layer > 0 or network.input_kind != "one_hot"):
        cost += PER_DENSE + whole_groups(units) * (
            PER_DENSE_UNIT + _of_bits(PER_CHANNEL, network) * size_read
        )
    return cost


def estimate_readout(network: Network) -> int:
    """Estimate the instructions of one read-out, to within about 3 %.

        read-out = d_out (34.1 + r_p features) + the features

    A feature costs 6.5 if it is a state, else 38.9 to 50.8.
    """
    alone = {kind: PER_STATE for kind in PER_FEATURE}
    features = network.hidden_size * _of_readouts(PER_FEATURE if network.scales_features else alone, network)
    products = _of_bits(PER_PRODUCT, network) * network.num_features
    return round(network.output_size * (PER_OUTPUT + products) + features)


def _of_readouts(costs: Mapping[str, float], network: Network) -> float:
    """Return the cost of a unit's read-outs."""
    return sum(costs[kind] * features_per_unit([kind], network.thresholds) for kind in network.readouts)


def _of_bits(table: dict[WeightBits, float], network: Network) -> float:
    """Look up a cost that depends on the bits of the weights."""
    if network.weight_bits is None or network.weight_bits not in table:
        raise InputError(f"Integers hold weights of 2 to 8 bits, or ternary ones, got {network.weight_bits}.")
    return table[network.weight_bits]


CODE_BYTES, CODE_PER_LAYER = 1200, 900  # code on a Cortex-M4: with one layer, for each further layer
WINDOW_BYTES = 24  # in addition to states and logits


@dataclass(frozen=True, kw_only=True)
class Device:
    """The budget of a network on a Cortex-M4: steps per second, MHz, and bytes; None means no limit."""

    rate: float | None = None
    clock: float = 64.0
    max_ram: int | None = None
    max_flash: int | None = None


@dataclass(frozen=True)
class Load:
    """The cost of a network with its front end and windows: instructions per step, bytes of flash and RAM."""

    instructions: float
    flash: int
    ram: int

    @classmethod
    def of(cls, network: Network, window: int, hop: int, step: int | None = None) -> Load:
        """Return the load of windows of `window` steps every `hop`; `step` has counted instructions, if any.

        The stream is read by window / hop overlapping states.
        """
        if network.activation_bits is None:
            network = replace(network, activation_bits=USUAL_BITS)
        model = draw_model(network)
        plan, streams = make_plan(model), max(-(-window // hop), 1)
        steps = (estimate(network) if step is None else step) * streams
        load = cls(
            instructions=steps + (0 if network.every_output else estimate_readout(network) / hop),
            flash=len(ModelData(model).blob) + CODE_BYTES + CODE_PER_LAYER * (network.num_layers - 1),
            ram=streams * plan.state_bytes + plan.work_bytes + 4 * network.output_size + WINDOW_BYTES,
        )
        if network.front_end is None:
            return load
        cost = front_end_cost(network.front_end)
        return cls(load.instructions + cost.instructions, load.flash + cost.flash, load.ram + cost.ram)

    def share(self, device: Device) -> float | None:
        """Return the fraction of the clock in use, at one instruction per cycle; None without a rate."""
        return None if device.rate is None else self.instructions * device.rate / (device.clock * 1e6)

    def excesses(self, device: Device) -> list[str]:
        """Return sentences on what exceeds the device's budget; empty if nothing does."""
        share, found = self.share(device), []
        if share is not None and share > 1:
            most = device.clock * 1e6 / self.instructions
            found.append(
                f"the device cannot keep up: at most {most:,.0f} steps per second, not {device.rate:g}"
            )
        for name, taken, most_bytes in (
            ("RAM", self.ram, device.max_ram),
            ("flash", self.flash, device.max_flash),
        ):
            if most_bytes is not None and taken > most_bytes:
                found.append(
                    f"the device has too little {name}: {taken:,} bytes are needed, not {most_bytes:,}"
                )
        return found

    def line(self, device: Device) -> str:
        """Describe the load in one line.

        >>> Load(50_000.0, 4300, 920).line(Device(rate=400))
        '31 % of a 64 MHz Cortex-M4, 4.2 kB flash, 0.9 kB RAM including its window'
        """
        share = self.share(device)
        percent = "" if share is None else f"{100 * share:.2g}" if share < 0.1 else f"{100 * share:,.0f}"
        busy = "" if share is None else f"{percent} % of a {device.clock:g} MHz Cortex-M4, "
        return f"{busy}{self.flash / 1024:.1f} kB flash, {self.ram / 1024:.1f} kB RAM including its window"
