"""Describe each kind of competitor in the paper; the entry points of this package name these classes.

A description holds the settings of a kind and the rule by which the paper's tables count its size. The torch
layer is imported only when it is built. Start at `KINDS`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from hadamrnn.architecture import FLOAT_BITS, Architecture, Ternary, WeightBits, stored_bits
from hadamrnn.fixedpoint.cost import StepCost
from hadamrnn.network import Depth, Recurrence
from hadamrnn.settings import OneOf, Range, Share, option
from hadamrnn_paper.baselines.cost import BaselineSize, baseline_size, baseline_step_cost

if TYPE_CHECKING:
    from hadamrnn.nn.interface import RecurrentLayer

MAPS = ("cayley", "matrix_exp", "projection")
READOUT, BIASES = ("output", "output_bias"), ("biases", "output_bias")
Rank = Annotated[int, Range(1, 1 << 15)]
Density = Annotated[float, Range(0, 1, "(]")]


@dataclass(frozen=True)
class Baseline(Architecture):
    """A competitor, with the rule by which the paper's tables count it; by default its weights are floats.

    Attributes:
        gates: number of weight matrices of d_h (d_h + d_in) entries.
        biases: number of vectors of d_h entries besides the weights.
        left_out: parts that the tables do not count.
    """

    # The recipes are HadamRNN's. A baseline has one layer and no signs, and a smaller default state because a
    # step costs d_h^2.
    recipe: ClassVar[Mapping[str, Any]] = {
        **Architecture.recipe,
        "hidden_size": 128,
        "num_layers": 1,
        "gradient_clip": 1.0,
    }
    gates: ClassVar[int] = 1
    biases: ClassVar[int] = 1
    left_out: ClassVar[tuple[str, ...]] = BIASES

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that the user can choose, by name."""
        return {each.name: getattr(self, each.name) for each in fields(self) if "help" in each.metadata}

    @property
    def bits(self) -> WeightBits:
        """The `weight_bits` of a kind that has this setting, else None."""
        return None

    @property
    def widths(self) -> tuple[int, int]:
        """The bits per weight of W and of U."""
        return FLOAT_BITS, FLOAT_BITS

    @property
    def depth(self) -> int:
        return 1

    @property
    def directions(self) -> int:
        return 1

    def layer_arguments(self) -> dict[str, Any]:
        """Return the arguments of the torch layer."""
        return {"input_size": self.input_size, **self.settings}

    def cost(self) -> tuple[BaselineSize, StepCost]:
        return baseline_size(self), baseline_step_cost(self)


@dataclass(frozen=True)
class Stacked(Baseline):
    """torch's own networks, which may have several layers and two directions."""

    left_out = READOUT

    num_layers: Depth = option(1, "stacked recurrent layers")
    bidirectional: bool = option(False, "read sequences backwards too")
    dropout: Share = option(0.0, "dropout between stacked layers")

    @property
    def depth(self) -> int:
        return self.num_layers

    @property
    def directions(self) -> int:
        return 2 if self.bidirectional else 1


@dataclass(frozen=True)
class LSTMNetwork(Stacked):
    kind = "lstm"
    gates = 4
    biases = 4

    forget_bias: float = option(1.0, "added to the bias of the forget gates at the start")
    input_gate_bias: float = option(0.0, "added to the bias of the input gates at the start")

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.native import lstm

        return lstm(**self.layer_arguments())


@dataclass(frozen=True)
class GRUNetwork(Stacked):
    kind = "gru"
    gates = 3
    biases = 4  # two biases in its candidate

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.native import gru

        return gru(**self.layer_arguments())


@dataclass(frozen=True)
class RNNNetwork(Stacked):
    kind = "rnn"

    nonlinearity: Annotated[str, OneOf(("tanh", "relu"))] = option("tanh", "tanh or relu")

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.native import rnn

        return rnn(**self.layer_arguments())


@dataclass(frozen=True)
class ORNNNetwork(Baseline):
    kind = "ornn"
    # A trained W is raised to the power T - 1, so it needs a small learning rate: pMNIST, ORNN of 170 units,
    # preset best, validation after 8 epochs: 88.0 % at rate 1e-3, 89.0 % at 3e-4, 86.4 % at 1e-4.
    recipe: ClassVar[Mapping[str, Any]] = {**Baseline.recipe, "learning_rate": 3e-4}

    recurrence: Recurrence = option("linear", "linear or relu")
    orthogonal_map: Annotated[str, OneOf(MAPS)] = option("cayley", "how W stays orthogonal")

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.orthogonal import ORNN

        return ORNN(**self.layer_arguments())


@dataclass(frozen=True)
class FewBits(Baseline):
    """A kind whose weights have few bits."""

    recipe: ClassVar[Mapping[str, Any]] = {**Baseline.recipe, "weight_bits": 4}

    weight_bits: WeightBits = option(4, "bits of the weights")

    @property
    def bits(self) -> WeightBits:
        return self.weight_bits

    @property
    def widths(self) -> tuple[int, int]:
        return stored_bits(self.weight_bits), stored_bits(self.weight_bits)


@dataclass(frozen=True)
class QORNNNetwork(FewBits):
    kind = "qornn"
    recipe: ClassVar[Mapping[str, Any]] = {**ORNNNetwork.recipe, "weight_bits": 8}

    weight_bits: WeightBits = option(8, "bits of the weights")
    recurrence: Recurrence = option("linear", "linear or relu")

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.orthogonal import QORNN

        return QORNN(**self.layer_arguments())


@dataclass(frozen=True)
class FastGRNNNetwork(FewBits):
    kind = "fastgrnn"
    recipe: ClassVar[Mapping[str, Any]] = {**Baseline.recipe, "weight_bits": 8}
    biases = 2
    left_out = ("positions",)

    weight_bits: WeightBits = option(8, "bits of the weights")
    input_rank: Rank | None = option(None, "rank of W; none is full")
    recurrent_rank: Rank | None = option(None, "rank of U; none is full")
    input_density: Density = option(1.0, "share of nonzero entries of W")
    recurrent_density: Density = option(1.0, "share of nonzero entries of U")
    memory_steps: Annotated[int, Range(2, 1 << 20)] | None = option(
        None, "steps that untrained units remember, spread from one to this many; none is about four"
    )
    piecewise: bool = option(False, "piecewise linear sigmoid and tanh")

    @property
    def readout_bits(self) -> WeightBits:
        return self.weight_bits

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.fastgrnn import FastGRNN

        return FastGRNN(**self.layer_arguments())


@dataclass(frozen=True)
class NormalisedLSTM(Baseline):
    """A batch-normalised LSTM with binary or ternary weights."""

    gates = 4
    biases = 4
    left_out = (*BIASES, "normalisation")

    stochastic: bool = option(True, "draw the weights' values while training")
    norm_steps: Annotated[int, Range(1, 1 << 20)] = option(128, "steps that have statistics of their own")


@dataclass(frozen=True)
class BinaryLSTMNetwork(NormalisedLSTM):
    kind = "binary_lstm"

    @property
    def widths(self) -> tuple[int, int]:
        return 1, 1

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.quantized_lstm import BinaryLSTM

        return BinaryLSTM(**self.layer_arguments())


@dataclass(frozen=True)
class TernaryLSTMNetwork(NormalisedLSTM):
    kind = "ternary_lstm"

    @property
    def widths(self) -> tuple[int, int]:
        return 2, 2

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.quantized_lstm import TernaryLSTM

        return TernaryLSTM(**self.layer_arguments())


@dataclass(frozen=True)
class QuantizedLSTMNetwork(Baseline):
    """An LSTM whose weights may also be binary."""

    kind = "quantized_lstm"
    recipe: ClassVar[Mapping[str, Any]] = FewBits.recipe
    gates = 4
    biases = 4

    weight_bits: Annotated[int, Range(1, 16)] | Ternary | None = option(4, "bits of the weights, 1 included")
    activation_bits: Annotated[int, Range(2, 16)] | None = option(None, "bits of the states")

    @property
    def bits(self) -> WeightBits:
        return self.weight_bits

    @property
    def widths(self) -> tuple[int, int]:
        width = 1 if self.weight_bits == 1 else stored_bits(self.weight_bits)
        return width, width

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.quantized_lstm import QuantizedLSTM

        return QuantizedLSTM(**self.layer_arguments())


@dataclass(frozen=True)
class NaiveBinaryRNNNetwork(FewBits):
    kind = "naive_binary_rnn"
    left_out = ()

    recurrence: Recurrence = option("linear", "linear or relu")

    @property
    def widths(self) -> tuple[int, int]:
        return 1, stored_bits(self.weight_bits)

    @property
    def readout_bits(self) -> WeightBits:
        return self.weight_bits

    def recurrent_layer(self) -> RecurrentLayer:
        from hadamrnn_paper.baselines.orthogonal import NaiveBinaryRNN

        return NaiveBinaryRNN(**self.layer_arguments())


KINDS: dict[str, type[Baseline]] = {
    each.kind: each
    for each in (
        *(LSTMNetwork, GRUNetwork, RNNNetwork, ORNNNetwork, QORNNNetwork, FastGRNNNetwork),
        *(BinaryLSTMNetwork, TernaryLSTMNetwork, QuantizedLSTMNetwork, NaiveBinaryRNNNetwork),
    )
}
