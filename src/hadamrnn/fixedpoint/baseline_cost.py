"""What the competitors cost, by the rules that give the cells of the paper's tables.

The tables count each family differently: ORNN without biases, LSTM without V, and so on. So a size is
kept part by part, with the parts that the paper leaves out named; both sums are there. Start at `RULES`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from hadamrnn.bits import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.cost import FLOAT_BITS, SINGLE, Operations, Stack, StepCost, stored_bits

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


@dataclass(frozen=True)
class _Matrix:
    """A weight matrix, maybe of low rank, maybe sparse: how many entries it has, and how many count."""

    entries: int
    nonzeros: int

    @staticmethod
    def of(rows: int, columns: int, rank: int | None, density: float) -> _Matrix:
        shapes = [rows * columns] if rank is None else [rows * rank, rank * columns]
        return _Matrix(sum(shapes), sum(max(1, round(density * entries)) for entries in shapes))

    @property
    def positions(self) -> int:
        return self.entries if self.nonzeros < self.entries else 0


def baseline_size(
    model: str,
    hidden_size: int,
    input_size: int,
    output_size: int,
    *,
    weight_bits: WeightBits = None,
    vocabulary_size: int | None = None,
    options: Mapping[str, Any] | None = None,
    stack: Stack = SINGLE,
) -> BaselineSize:
    """Return the size of a baseline.

        p g d_h (d_h + d_in) + 32 or p d_h d_out + 32 (biases)      bits

    Args:
        model: its name in `RULES`.
        weight_bits: p, where the family leaves it open; 1 for a binary `quantized_lstm`.
        options: the model options that change the size: ranks, densities, norm_steps.
        stack: its layers; only lstm, gru and rnn may have several.

    >>> [round(baseline_size(model, 170, 1, 10).kilobytes, 1) for model in ("ornn", "lstm")]
    [120.2, 456.9]
    """
    rule, options = rule_of(model), dict(options or {})
    _check(hidden_size=hidden_size, input_size=input_size, output_size=output_size)
    width = weight_width(model, weight_bits)
    _check_stack(model, stack)
    recurrent, projection = _matrices(rule, hidden_size, input_size, options)
    above = rule.gates * hidden_size * sum(stack.input_sizes(0, hidden_size))
    normalisation = 0
    if "normalisation" in rule.left_out:
        # Scales and shifts of every step that has its own, and of the input.
        normalisation = FLOAT_BITS * 2 * 4 * hidden_size * (options.get("norm_steps", NORM_STEPS) + 1)
    return BaselineSize(
        recurrent=(1 if model == "naive_binary_rnn" else width) * stack.cells * recurrent.nonzeros,
        input=width * (stack.directions * projection.nonzeros + above),
        output=(width if rule.quantized_readout else FLOAT_BITS)
        * stack.output_size(hidden_size)
        * output_size,
        biases=FLOAT_BITS * rule.biases * stack.cells * hidden_size,
        output_bias=FLOAT_BITS * output_size,
        normalisation=normalisation,
        positions=recurrent.positions + projection.positions,
        embedding=FLOAT_BITS * input_size * (vocabulary_size or 0),
        left_out=rule.left_out,
    )


def baseline_step_cost(
    model: str,
    hidden_size: int,
    input_size: int,
    output_size: int,
    *,
    weight_bits: WeightBits = None,
    one_hot: bool = False,
    options: Mapping[str, Any] | None = None,
    stack: Stack = SINGLE,
) -> StepCost:
    """Return the operations of the matrix products of one step; gates' elementwise ones are neglected.

    >>> baseline_step_cost("lstm", 128, 1, 10).recurrent.multiplications
    65536
    """
    rule = rule_of(model)
    _check(hidden_size=hidden_size, input_size=input_size, output_size=output_size)
    width = weight_width(model, weight_bits)
    _check_stack(model, stack)
    recurrent, projection = _matrices(rule, hidden_size, input_size, dict(options or {}))
    recurrent_width = 1 if model == "naive_binary_rnn" else width
    # A one-hot input picks one column of U.
    rows, seen = rule.gates * hidden_size, stack.output_size(hidden_size)
    lowest = Operations(0, rows) if one_hot else _product(projection.nonzeros, width)
    return StepCost(
        input=stack.input_operations(lowest, _product(rows * seen, width)),
        recurrent=_product(recurrent.nonzeros, recurrent_width).times(stack.cells),
        output=_product(seen * output_size, width if rule.quantized_readout else FLOAT_BITS),
    )


def weight_width(model: str, weight_bits: WeightBits) -> int:
    """Return the bits of one weight of U, of which `weight_bits` decides where the family leaves it open."""
    rule = rule_of(model)
    if rule.bits is not None:
        if weight_bits is not None:
            raise InputError(
                f"{model} has weights of {rule.bits} bits: leave weight_bits out, got {weight_bits!r}."
            )
        return rule.bits
    return 1 if model == "quantized_lstm" and weight_bits == 1 else stored_bits(weight_bits)


def rule_of(model: str) -> Rule:
    if model not in RULES:
        raise InputError(f"model must be hadamrnn or one of {', '.join(RULES)}, got {model!r}.")
    return RULES[model]


def _check_stack(model: str, stack: Stack) -> None:
    if stack != SINGLE and not rule_of(model).stacks:
        raise InputError(
            f"{model} has one layer in one direction, got {stack.num_layers} in {stack.directions}. "
            f"Leave num_layers and bidirectional out."
        )


def _matrices(
    rule: Rule, hidden_size: int, input_size: int, options: Mapping[str, Any]
) -> tuple[_Matrix, _Matrix]:
    """Return W and U."""
    rows = rule.gates * hidden_size
    ranks = options.get("recurrent_rank"), options.get("input_rank")
    densities = options.get("recurrent_density", 1.0), options.get("input_density", 1.0)
    return (
        _Matrix.of(rows, hidden_size, ranks[0], densities[0]),
        _Matrix.of(rows, input_size, ranks[1], densities[1]),
    )


def _product(nonzeros: int, width: int) -> Operations:
    """A matrix-vector product; weights of 1 and 2 bits need additions and shifts only."""
    return Operations(multiplications=0 if width <= 2 else nonzeros, additions=nonzeros)


def _check(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")
