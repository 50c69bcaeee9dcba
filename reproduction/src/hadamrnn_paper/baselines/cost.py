"""Count the cost of the competitors by the rules that the paper's tables follow.

The tables count each family differently: ORNN without biases, LSTM without V, and so on. A size therefore
stores each part separately and names the parts that the paper leaves out, so both sums are available. The
description of each family in `hadamrnn_paper.baselines.networks` says what it counts. Start at
`baseline_size`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

from hadamrnn.architecture import FLOAT_BITS, stored_bits
from hadamrnn.fixedpoint.cost import Operations, StepCost, add_up, matrix_product

if TYPE_CHECKING:
    from hadamrnn_paper.baselines.networks import Baseline


@dataclass(frozen=True)
class BaselineSize:
    """Storage in bits, part by part. A kilobyte is 1024 bytes of 8 bits."""

    recurrent: int
    input: int
    output: int
    biases: int
    output_bias: int
    normalisation: int  # batch normalisation's scales and shifts
    positions: int  # masks of the nonzero entries of sparse matrices: one bit per entry
    embedding: int
    left_out: tuple[str, ...]

    @property
    def parts(self) -> dict[str, int]:
        """All parts except the embedding table."""
        names = [field.name for field in fields(self) if field.name not in ("embedding", "left_out")]
        return {name: getattr(self, name) for name in names}

    @property
    def bits(self) -> int:
        """The number of bits that the paper's tables count."""
        return sum(bits for name, bits in self.parts.items() if name not in self.left_out)

    @property
    def stored_bits(self) -> int:
        """The number of bits that the network needs, without the embedding table."""
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


def baseline_size(network: Baseline) -> BaselineSize:
    """Return the size of a baseline.

        p g d_h (d_h + d_in) + 32 or p d_h d_out + 32 (biases)      bits

    Low ranks, sparsity and norm_steps change the size.

    >>> from hadamrnn_paper.baselines.networks import LSTMNetwork, ORNNNetwork
    >>> [round(baseline_size(kind(1, 170, 10)).kilobytes, 1) for kind in (ORNNNetwork, LSTMNetwork)]
    [120.2, 456.9]
    """
    recurrent_width, width = network.widths
    recurrent, recurrent_positions = _entries(network, "recurrent", network.hidden_size)
    projection, input_positions = _entries(network, "input", network.input_size)
    hidden, cells = network.hidden_size, network.depth * network.directions
    seen = network.directions * hidden
    above = network.gates * hidden * seen * (cells - network.directions)
    normalisation = 0
    if "norm_steps" in network.settings:
        # One scale and shift for the input, and one for each step that has its own statistics.
        normalisation = FLOAT_BITS * 2 * 4 * hidden * (network.settings["norm_steps"] + 1)
    return BaselineSize(
        recurrent=recurrent_width * cells * recurrent,
        input=width * (network.directions * projection + above),
        output=stored_bits(network.readout_bits) * seen * network.output_size,
        biases=FLOAT_BITS * network.biases * cells * hidden,
        output_bias=FLOAT_BITS * network.output_size,
        normalisation=normalisation,
        positions=recurrent_positions + input_positions,
        embedding=FLOAT_BITS * network.input_size * (network.vocabulary_size or 0),
        left_out=network.left_out,
    )


def baseline_step_cost(network: Baseline) -> StepCost:
    """Return the operations of one step's matrix products; the gates' elementwise operations are not counted.

    >>> from hadamrnn_paper.baselines.networks import LSTMNetwork
    >>> baseline_step_cost(LSTMNetwork(1, 128, 10)).recurrent.multiplications
    65536
    """
    recurrent_width, width = network.widths
    recurrent, _ = _entries(network, "recurrent", network.hidden_size)
    projection, _ = _entries(network, "input", network.input_size)
    cells, rows = network.depth * network.directions, network.gates * network.hidden_size
    seen = network.directions * network.hidden_size
    # A one-hot input selects one column of U.
    one_hot = network.input_kind == "one_hot"
    lowest = Operations(0, rows) if one_hot else matrix_product(projection, width)
    above = matrix_product(rows * seen, width)
    return StepCost(
        input=add_up([lowest] * network.directions + [above] * (cells - network.directions)),
        recurrent=add_up([matrix_product(recurrent, recurrent_width)] * cells),
        output=matrix_product(seen * network.output_size, stored_bits(network.readout_bits)),
    )


def _entries(network: Baseline, matrix: str, columns: int) -> tuple[int, int]:
    """Return the number of stored entries of "recurrent" W or "input" U, and the bits of their mask.

    A matrix may have low rank, and it may be sparse; one bit per entry then marks the nonzero ones.
    """
    rows = network.gates * network.hidden_size
    rank = network.settings.get(f"{matrix}_rank")
    density = network.settings.get(f"{matrix}_density", 1.0)
    shapes = [rows * columns] if rank is None else [rows * rank, rank * columns]
    nonzeros = sum(max(1, round(density * entries)) for entries in shapes)
    return nonzeros, sum(shapes) if nonzeros < sum(shapes) else 0
