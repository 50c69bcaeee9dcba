"""What a network costs: bytes of storage and operations a step.

Counted twice: as the paper counts (Section 3.6, Table 1), where W h takes d_h 2^k additions, and as
the fast transform does it, d_h k additions. Numpy and torch free; `hadamrnn cost` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hadamrnn.bits import WeightBits, check_weight_bits
from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import order_factors

if TYPE_CHECKING:
    from hadamrnn.fixedpoint.model import IntegerModel

FLOAT_BITS = 32


def _check_positive(**sizes: int) -> None:
    for name, value in sizes.items():
        if value < 1:
            raise InputError(f"{name} must be at least 1, got {value}.")


@dataclass(frozen=True)
class Size:
    """Storage in bits, part by part. A kilobyte is 1024 bytes of 8 bits."""

    signs: int
    weights: int
    biases: int
    embedding: int

    @property
    def bits(self) -> int:
        """All but the embedding table, as the paper's tables count."""
        return self.signs + self.weights + self.biases

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

    def times(self, count: int) -> Operations:
        return Operations(count * self.multiplications, count * self.additions)


@dataclass(frozen=True)
class StepCost:
    """Operations of one time step, layer by layer, as in the paper's complexity table."""

    input: Operations
    recurrent: Operations
    output: Operations

    @property
    def total(self) -> Operations:
        layers = (self.input, self.recurrent, self.output)
        return Operations(sum(x.multiplications for x in layers), sum(x.additions for x in layers))


@dataclass(frozen=True)
class Stack:
    """Layers of cells, one cell for each direction; a layer reads all directions of the one below.

    >>> Stack(num_layers=3, bidirectional=True).input_sizes(9, 128)
    (9, 9, 256, 256, 256, 256)
    """

    num_layers: int = 1
    bidirectional: bool = False

    def __post_init__(self) -> None:
        _check_positive(num_layers=self.num_layers)

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1

    @property
    def cells(self) -> int:
        return self.num_layers * self.directions

    def output_size(self, hidden_size: int) -> int:
        """Return what the read-out sees."""
        return self.directions * hidden_size

    def input_sizes(self, input_size: int, hidden_size: int) -> tuple[int, ...]:
        """Return what each cell reads, the lowest layer first."""
        above = self.cells - self.directions
        return (input_size,) * self.directions + (self.output_size(hidden_size),) * above

    def input_operations(self, lowest: Operations, above: Operations) -> Operations:
        """Return those of all U x: `lowest` in a cell of the lowest layer, `above` in any other."""
        first, others = lowest.times(self.directions), above.times(self.cells - self.directions)
        return Operations(first.multiplications + others.multiplications, first.additions + others.additions)


SINGLE = Stack()


def network_size(
    hidden_size: int,
    input_size: int,
    output_size: int,
    *,
    weight_bits: WeightBits = 4,
    activation_bits: int | None = None,
    vocabulary_size: int | None = None,
    column_switches: bool = False,
    input_bias: bool = True,
    stack: Stack = SINGLE,
) -> Size:
    """Return the size of a HadamRNN or Block-HadamRNN.

        d_h + p d_h (d_in + d_out) + p_a (d_h + d_out) bits

    of one layer; stacked ones have the signs, U and b_i of every cell. Without `input_bias` there is no b_i.
    Biases take `activation_bits` each, 32 where activations stay in floating point (None). Ternary
    weights count as 2 bits. The embedding table, at `activation_bits` an entry, is kept apart.

    >>> round(network_size(512, 1, 10, weight_bits=4, activation_bits=12).kilobytes, 2)
    3.58
    """
    _check_positive(hidden_size=hidden_size, input_size=input_size, output_size=output_size)
    bias_bits = FLOAT_BITS if activation_bits is None else activation_bits
    read = stack.input_sizes(input_size, hidden_size)
    return Size(
        signs=stack.cells * hidden_size * (2 if column_switches else 1),
        weights=stored_bits(weight_bits)
        * (hidden_size * sum(read) + stack.output_size(hidden_size) * output_size),
        biases=bias_bits * (stack.cells * hidden_size * input_bias + output_size),
        embedding=bias_bits * input_size * (vocabulary_size or 0),
    )


def model_size(model: IntegerModel) -> Size:
    """Return the size of an integer model by the formula; its file rounds each tensor up to bytes."""
    return network_size(
        model.hidden_size,
        model.input_size,
        model.output_size,
        weight_bits=model.weight_bits,
        activation_bits=model.activation_bits,
        vocabulary_size=model.vocabulary_size if model.input_kind == "embedded" else None,
        column_switches=model.column_signs is not None,
        input_bias=model.has_input_bias,
    )


def paper_step_cost(
    hidden_size: int,
    input_size: int,
    output_size: int,
    *,
    num_blocks: int = 1,
    weight_bits: WeightBits = 4,
    one_hot: bool = False,
    stack: Stack = SINGLE,
) -> StepCost:
    """Return the paper's count for (Block-)HadamRNN: d_h d_h / q additions for W h, no multiplication."""
    recurrent = Operations(0, hidden_size * _block_size(hidden_size, num_blocks))
    return _step_cost(hidden_size, input_size, output_size, weight_bits, one_hot, recurrent, stack)


def fast_step_cost(
    hidden_size: int,
    input_size: int,
    output_size: int,
    *,
    num_blocks: int = 1,
    weight_bits: WeightBits = 4,
    one_hot: bool = False,
    stack: Stack = SINGLE,
) -> StepCost:
    """Return the count with the fast transform: d_h (|F| - 1) additions for each Kronecker factor F.

    >>> fast_step_cost(512, 1, 10).recurrent.additions, paper_step_cost(512, 1, 10).recurrent.additions
    (4608, 262144)
    """
    factors = order_factors(_block_size(hidden_size, num_blocks))
    recurrent = Operations(0, hidden_size * sum(factor - 1 for factor in factors))
    return _step_cost(hidden_size, input_size, output_size, weight_bits, one_hot, recurrent, stack)


def dense_step_cost(
    hidden_size: int,
    input_size: int,
    output_size: int,
    *,
    weight_bits: WeightBits = None,
    one_hot: bool = False,
) -> StepCost:
    """Return the paper's count for ORNN (`weight_bits` None) and QORNN: a dense d_h-by-d_h product."""
    recurrent = _product(hidden_size, hidden_size, weight_bits)
    return _step_cost(hidden_size, input_size, output_size, weight_bits, one_hot, recurrent)


def stored_bits(weight_bits: WeightBits) -> int:
    """Return the bits one weight takes: 2 for ternary, 32 for full precision."""
    check_weight_bits(weight_bits)
    if weight_bits is None:
        return FLOAT_BITS
    return 2 if weight_bits == "ternary" else int(weight_bits)


def _step_cost(
    hidden_size: int,
    input_size: int,
    output_size: int,
    weight_bits: WeightBits,
    one_hot: bool,
    recurrent: Operations,
    stack: Stack = SINGLE,
) -> StepCost:
    """Return the sums over all cells; `recurrent` is what W h takes in one of them."""
    _check_positive(hidden_size=hidden_size, input_size=input_size, output_size=output_size)
    # A one-hot input picks one column of U.
    lowest = Operations(0, hidden_size) if one_hot else _product(input_size, hidden_size, weight_bits)
    seen = stack.output_size(hidden_size)
    return StepCost(
        input=stack.input_operations(lowest, _product(seen, hidden_size, weight_bits)),
        recurrent=recurrent.times(stack.cells),
        output=_product(seen, output_size, weight_bits),
    )


def _product(columns: int, rows: int, weight_bits: WeightBits) -> Operations:
    """A matrix-vector product; ternary and 2-bit weights need additions and shifts only."""
    free = weight_bits in ("ternary", 2)
    return Operations(multiplications=0 if free else rows * columns, additions=rows * columns)


def _block_size(hidden_size: int, num_blocks: int) -> int:
    _check_positive(num_blocks=num_blocks)
    if hidden_size % num_blocks:
        raise InputError(f"num_blocks must divide hidden_size, got {num_blocks} for {hidden_size}.")
    return hidden_size // num_blocks
