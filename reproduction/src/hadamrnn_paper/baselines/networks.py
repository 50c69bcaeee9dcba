"""The paper's competitors by name, as the entry points of this package name them. Start at `KINDS`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hadamrnn.errors import InputError, check_unset, short
from hadamrnn.fixedpoint.cost import StepCost
from hadamrnn.network import Network
from hadamrnn.nn.build import HADAMARD_UNSET, NetworkType
from hadamrnn.nn.interface import RecurrentLayer
from hadamrnn.settings import coerce, field_types
from hadamrnn_paper.baselines.cost import BaselineSize, baseline_size, baseline_step_cost
from hadamrnn_paper.baselines.fastgrnn import FastGRNN
from hadamrnn_paper.baselines.native import gru, lstm, rnn
from hadamrnn_paper.baselines.orthogonal import ORNN, QORNN, NaiveBinaryRNN
from hadamrnn_paper.baselines.quantized_lstm import BinaryLSTM, QuantizedLSTM, TernaryLSTM

Values = dict[str, Any]

STACKING = ("num_layers", "bidirectional", "dropout")
# Settings that only some kinds have, each with the value that means "not set".
NEUTRAL = {name: getattr(Network, name) for name in (*STACKING, "recurrence")} | {"weight_bits": None}

# The recipes are HadamRNN's. A baseline has one layer, no signs, no blocks and its own weight bits, and since
# a step costs d_h^2, a smaller state by default.
BASELINE: Values = {**HADAMARD_UNSET, "hidden_size": 128, "num_layers": 1, "gradient_clip": 1.0}
# A learnt W is raised to the power T - 1, so it wants small steps: pMNIST, ORNN of 170 units, preset best,
# validation after 8 epochs: 88.0 % at rate 1e-3, 89.0 % at 3e-4, 86.4 % at 1e-4.
ORTHOGONAL: Values = {**BASELINE, "learning_rate": 3e-4}


@dataclass(frozen=True)
class Kind(NetworkType):
    """How a name becomes a model.

    Args:
        layer: takes input_size, hidden_size, the settings in `reads`, and others from `model_options`.
        reads: the fields of `Network` that it takes.
        quantized_readout: whether V has `weight_bits` too. Some published networks keep V in full
            precision; so do their sizes and runs here.
        values: the settings that it changes in every recipe.
    """

    layer: Callable[..., RecurrentLayer]
    reads: tuple[str, ...] = ()
    quantized_readout: bool = False
    values: Mapping[str, Any] = field(default_factory=lambda: BASELINE)

    @property
    def options(self) -> list[str]:
        """The names that `model_options` may hold."""
        parameters = inspect.signature(self.layer).parameters.values()
        own = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY]
        return [name for name in own if name not in self.reads]

    @property
    def types(self) -> dict[str, Any]:
        """The declared types of what the layer takes."""
        layer = self.layer.__init__ if inspect.isclass(self.layer) else self.layer
        return field_types(layer)

    def recurrent_layer(self, network: Network) -> RecurrentLayer:
        for name, neutral in NEUTRAL.items():
            if name not in self.reads:
                check_unset(f"{network.model} networks", name, getattr(network, name), neutral)
        for name in network.model_options:
            if name not in self.options:
                known = f"takes {', '.join(self.options)}" if self.options else "takes none"
                raise InputError(f"There is no model option {short(name)}: {network.model} {known}.")
        options = {
            name: coerce(name, value, self.types[name]) for name, value in network.model_options.items()
        }
        shared = {name: getattr(network, name) for name in self.reads}
        return self.layer(network.input_size, network.hidden_size, **shared, **options)

    def size(self, network: Network) -> BaselineSize:
        """Return the size of a network of this kind, by the rules of the paper's tables."""
        return baseline_size(network)

    def step_cost(self, network: Network) -> StepCost:
        """Return the operations of one step of a network of this kind."""
        return baseline_step_cost(network)


LSTM = Kind(lstm, STACKING)
GRU = Kind(gru, STACKING)
RNN = Kind(rnn, STACKING)
ORNN_KIND = Kind(ORNN, ("recurrence",), values=ORTHOGONAL)
QORNN_KIND = Kind(QORNN, ("weight_bits", "recurrence"), values={**ORTHOGONAL, "weight_bits": 8})
FASTGRNN = Kind(FastGRNN, ("weight_bits",), quantized_readout=True, values={**BASELINE, "weight_bits": 8})
BINARY_LSTM = Kind(BinaryLSTM)
TERNARY_LSTM = Kind(TernaryLSTM)
QUANTIZED_LSTM = Kind(QuantizedLSTM, ("weight_bits",), values={**BASELINE, "weight_bits": 4})
NAIVE_BINARY_RNN = Kind(
    NaiveBinaryRNN,
    ("weight_bits", "recurrence"),
    quantized_readout=True,
    values={**BASELINE, "weight_bits": 4},
)
KINDS = {
    "lstm": LSTM,
    "gru": GRU,
    "rnn": RNN,
    "ornn": ORNN_KIND,
    "qornn": QORNN_KIND,
    "fastgrnn": FASTGRNN,
    "binary_lstm": BINARY_LSTM,
    "ternary_lstm": TERNARY_LSTM,
    "quantized_lstm": QUANTIZED_LSTM,
    "naive_binary_rnn": NAIVE_BINARY_RNN,
}
