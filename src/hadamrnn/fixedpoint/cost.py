"""What a network costs: bytes of storage and operations a step.

Counted twice: as the paper counts (Section 3.6, Table 1), where W h takes d_h 2^k additions, and as
the fast transform does it, d_h k additions. Numpy and torch free; `hadamrnn cost` prints it.
"""

from __future__ import annotations

from dataclasses import dataclass

from hadamrnn.bits import FLOAT_BITS, stored_bits
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.network import Network


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


def network_size(network: Network) -> Size:
    """Return the size of a HadamRNN or Block-HadamRNN.

        d_h + p d_h (d_in + d_out) + p_a (d_h + d_out) bits

    of one layer; stacked ones have the signs, U and b_i of every cell. Without `input_bias` there is no b_i.
    Biases take `activation_bits` each, 32 where activations stay in floating point (None). Ternary
    weights count as 2 bits. The embedding table, at `activation_bits` an entry, is kept apart.

    >>> round(network_size(Network(1, 512, 10, weight_bits=4, activation_bits=12)).kilobytes, 2)
    3.58
    """
    bias_bits = FLOAT_BITS if network.activation_bits is None else network.activation_bits
    units = network.cells * network.hidden_size
    codes = network.hidden_size * sum(network.cell_input_sizes) + network.state_size * network.output_size
    return Size(
        signs=units * (2 if network.column_switches else 1),
        weights=stored_bits(network.weight_bits) * codes,
        biases=bias_bits * (units * network.input_bias + network.output_size),
        embedding=bias_bits * network.input_size * (network.vocabulary_size or 0),
    )


def paper_step_cost(network: Network) -> StepCost:
    """Return the paper's count for (Block-)HadamRNN: d_h d_h / q additions for W h, no multiplication."""
    return _step_cost(network, Operations(0, network.hidden_size * network.block_size))


def fast_step_cost(network: Network) -> StepCost:
    """Return the count with the fast transform: d_h (|F| - 1) additions for each Kronecker factor F.

    >>> mnist = Network(input_size=1, hidden_size=512, output_size=10)
    >>> fast_step_cost(mnist).recurrent.additions, paper_step_cost(mnist).recurrent.additions
    (4608, 262144)
    """
    additions = sum(factor - 1 for factor in order_factors(network.block_size))
    return _step_cost(network, Operations(0, network.hidden_size * additions))


def input_operations(network: Network, lowest: Operations, above: Operations) -> Operations:
    """Return those of all U x: `lowest` in a cell of the lowest layer, `above` in any other."""
    first = lowest.times(network.directions)
    others = above.times(network.cells - network.directions)
    return Operations(first.multiplications + others.multiplications, first.additions + others.additions)


def matrix_product(entries: int, bits: int) -> Operations:
    """A matrix-vector product; weights of 1 and 2 bits need additions and shifts only."""
    return Operations(multiplications=0 if bits <= 2 else entries, additions=entries)


def _step_cost(network: Network, recurrent: Operations) -> StepCost:
    """Return the sums over all cells; `recurrent` is what W h takes in one of them."""
    hidden, seen, bits = network.hidden_size, network.state_size, stored_bits(network.weight_bits)
    # A one-hot input picks one column of U.
    one_hot = network.input_kind == "one_hot"
    lowest = Operations(0, hidden) if one_hot else matrix_product(hidden * network.input_size, bits)
    return StepCost(
        input=input_operations(network, lowest, matrix_product(hidden * seen, bits)),
        recurrent=recurrent.times(network.cells),
        output=matrix_product(seen * network.output_size, bits),
    )
