"""What the competitors cost, by the rules that give the cells of the paper's tables.

The tables count each family differently: ORNN without biases, LSTM without V, and so on. So a size is
kept part by part, with the parts that the paper leaves out named; both sums are there. Start at `RULES`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from hadamrnn.bits import FLOAT_BITS, stored_bits
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import Operations, StepCost, add_up, matrix_product
from hadamrnn.network import Network

READOUT, BIASES = ("output", "output_bias"), ("biases", "output_bias")


@dataclass(frozen=True)
class Rule:
    """How a family is counted.

    Args:
        gates: how many times d_h (d_h + d_in) weights there are.
        bits: of U and W; None for whatever `weight_bits` says.
        quantized_readout: V has that width too, else 32 bits.
        biases: vectors of d_h numbers beside the weights.
        left_out: parts that the paper's tables do not count.
        stacks: there may be several layers, in two directions.
    """

    gates: int
    bits: int | None = None
    quantized_readout: bool = False
    biases: int = 1
    left_out: tuple[str, ...] = ()
    stacks: bool = False


RULES = {
    "lstm": Rule(4, FLOAT_BITS, biases=4, left_out=READOUT, stacks=True),
    "gru": Rule(3, FLOAT_BITS, biases=4, left_out=READOUT, stacks=True),  # two biases at its candidate
    "rnn": Rule(1, FLOAT_BITS, left_out=READOUT, stacks=True),
    "ornn": Rule(1, FLOAT_BITS, left_out=BIASES),
    "qornn": Rule(1, left_out=BIASES),
    "quantized_lstm": Rule(4, biases=4, left_out=BIASES),
    "binary_lstm": Rule(4, 1, biases=4, left_out=(*BIASES, "normalisation")),
    "ternary_lstm": Rule(4, 2, biases=4, left_out=(*BIASES, "normalisation")),
    "fastgrnn": Rule(1, quantized_readout=True, biases=2, left_out=("positions",)),
    "naive_binary_rnn": Rule(1, quantized_readout=True),
}
NORM_STEPS = 128  # of the normalised LSTMs, unless their option says otherwise


@dataclass(frozen=True)
class BaselineSize:
    """Storage in bits, part by part. A kilobyte is 1024 bytes of 8 bits."""

    recurrent: int
    input: int
    output: int
    biases: int
    output_bias: int
    normalisation: int  # batch normalisation's scales and shifts
    positions: int  # of the nonzero entries of sparse matrices: one bit for each entry
    embedding: int
    left_out: tuple[str, ...]

    @property
    def parts(self) -> dict[str, int]:
        """All parts but the embedding table."""
        names = [field.name for field in fields(self) if field.name not in ("embedding", "left_out")]
        return {name: getattr(self, name) for name in names}

    @property
    def bits(self) -> int:
        """What the paper's tables count."""
        return sum(bits for name, bits in self.parts.items() if name not in self.left_out)

    @property
    def stored_bits(self) -> int:
        """Everything that the network needs, but the embedding table."""
        return sum(self.parts.values())

    @property
    def kilobytes(self) -> float:
        return self.bits / 8192

    @property
    def stored_kilobytes(self) -> float:
        return self.stored_bits / 8192

    @property
    def kilobytes_with_embedding(self) -> float:
        return (self.stored_bits + self.embedding) / 8192


def baseline_size(network: Network) -> BaselineSize:
    """Return the size of a baseline.

        p g d_h (d_h + d_in) + 32 or p d_h d_out + 32 (biases)      bits

    `weight_bits` is p where the family leaves it open, and 1 for a binary `quantized_lstm`. Ranks, densities
    and norm_steps of `model_options` change the size; only lstm, gru and rnn may have several layers.

    >>> networks = [Network(1, 170, 10, weight_bits=None, model=model) for model in ("ornn", "lstm")]
    >>> [round(baseline_size(network).kilobytes, 1) for network in networks]
    [120.2, 456.9]
    """
    rule = _checked_rule(network)
    recurrent_width, width = _weight_widths(network)
    recurrent, recurrent_positions = _entries(network, "recurrent", network.hidden_size)
    projection, input_positions = _entries(network, "input", network.input_size)
    hidden, first = network.hidden_size, network.directions
    above = rule.gates * hidden * sum(network.cell_input_sizes[first:])
    normalisation = 0
    if "normalisation" in rule.left_out:
        # Scales and shifts of every step that has its own, and of the input.
        steps = network.model_options.get("norm_steps", NORM_STEPS) + 1
        normalisation = FLOAT_BITS * 2 * 4 * hidden * steps
    readout = network.state_size * network.output_size
    return BaselineSize(
        recurrent=recurrent_width * network.cells * recurrent,
        input=width * (first * projection + above),
        output=(width if rule.quantized_readout else FLOAT_BITS) * readout,
        biases=FLOAT_BITS * rule.biases * network.cells * hidden,
        output_bias=FLOAT_BITS * network.output_size,
        normalisation=normalisation,
        positions=recurrent_positions + input_positions,
        embedding=FLOAT_BITS * network.input_size * (network.vocabulary_size or 0),
        left_out=rule.left_out,
    )


def baseline_step_cost(network: Network) -> StepCost:
    """Return the operations of the matrix products of one step; gates' elementwise ones are neglected.

    >>> lstm = Network(1, 128, 10, weight_bits=None, model="lstm")
    >>> baseline_step_cost(lstm).recurrent.multiplications
    65536
    """
    rule = _checked_rule(network)
    recurrent_width, width = _weight_widths(network)
    recurrent, _ = _entries(network, "recurrent", network.hidden_size)
    projection, _ = _entries(network, "input", network.input_size)
    rows, seen = rule.gates * network.hidden_size, network.state_size
    # A one-hot input picks one column of U.
    one_hot = network.input_kind == "one_hot"
    lowest = Operations(0, rows) if one_hot else matrix_product(projection, width)
    readout_width = width if rule.quantized_readout else FLOAT_BITS
    above = matrix_product(rows * seen, width)
    return StepCost(
        input=add_up([lowest.times(network.directions), above.times(network.cells - network.directions)]),
        recurrent=matrix_product(recurrent, recurrent_width).times(network.cells),
        output=matrix_product(seen * network.output_size, readout_width),
    )


def _checked_rule(network: Network) -> Rule:
    """Return how the network's family is counted; refuse a stack where the family has none."""
    rule = RULES.get(network.model)
    if rule is None:
        raise InputError(f"model must be hadamrnn or one of {', '.join(RULES)}, got {network.model!r}.")
    if network.cells > 1 and not rule.stacks:
        raise InputError(
            f"{network.model} has one layer in one direction, got {network.num_layers} in "
            f"{network.directions}. Leave num_layers and bidirectional out."
        )
    return rule


def _weight_widths(network: Network) -> tuple[int, int]:
    """Return the bits of one weight of W and of U; `weight_bits` decides where the family does not."""
    fixed, bits = RULES[network.model].bits, network.weight_bits
    if fixed is not None:
        if bits is not None:
            raise InputError(
                f"{network.model} has weights of {fixed} bits: leave weight_bits out, got {bits!r}."
            )
        return fixed, fixed
    width = 1 if network.model == "quantized_lstm" and bits == 1 else stored_bits(bits)
    return 1 if network.model == "naive_binary_rnn" else width, width


def _entries(network: Network, matrix: str, columns: int) -> tuple[int, int]:
    """Return how many entries of "recurrent" W or "input" U count, and the bits that say where they lie.

    A matrix may be of low rank, and sparse: then one bit for each entry says whether it is there.
    """
    rows = RULES[network.model].gates * network.hidden_size
    rank = network.model_options.get(f"{matrix}_rank")
    density = network.model_options.get(f"{matrix}_density", 1.0)
    shapes = [rows * columns] if rank is None else [rows * rank, rank * columns]
    nonzeros = sum(max(1, round(density * entries)) for entries in shapes)
    return nonzeros, sum(shapes) if nonzeros < sum(shapes) else 0
