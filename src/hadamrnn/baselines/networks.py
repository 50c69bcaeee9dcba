"""Networks by name: HadamRNN and its competitors, built and loaded in one place.

Start at `KINDS`. The names are what `--model` takes and what model files hold.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hadamrnn.baselines.fastgrnn import FastGRNN
from hadamrnn.baselines.native import gru, lstm, rnn
from hadamrnn.baselines.orthogonal import ORNN, QORNN, NaiveBinaryRNN
from hadamrnn.baselines.quantized_lstm import BinaryLSTM, QuantizedLSTM, TernaryLSTM
from hadamrnn.errors import InputError, check_name, check_unset, short
from hadamrnn.network import HADAMRNN, Network
from hadamrnn.nn.interface import RecurrentLayer
from hadamrnn.nn.model import SequenceModel, assemble, hadamard_layer
from hadamrnn.nn.storage import read_model
from hadamrnn.settings import coerce, field_types

STACKING = ("num_layers", "bidirectional", "dropout")
# Settings that only some kinds have, each with the value that means "not set".
NEUTRAL = {name: getattr(Network, name) for name in (*STACKING, "recurrence")} | {"weight_bits": None}


@dataclass(frozen=True)
class Kind:
    """How a name becomes a layer.

    Args:
        layer: takes input_size, hidden_size, the settings in `reads`, and others from `model_options`.
        reads: the fields of `Network` that it takes.
        quantized_readout: whether V has `weight_bits` too. Some published networks keep V in full
            precision; so do their sizes and runs here.
    """

    layer: Callable[..., RecurrentLayer]
    reads: tuple[str, ...] = ()
    quantized_readout: bool = False

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


KINDS = {
    "lstm": Kind(lstm, STACKING),
    "gru": Kind(gru, STACKING),
    "rnn": Kind(rnn, STACKING),
    "ornn": Kind(ORNN, ("recurrence",)),
    "qornn": Kind(QORNN, ("weight_bits", "recurrence")),
    "fastgrnn": Kind(FastGRNN, ("weight_bits",), quantized_readout=True),
    "binary_lstm": Kind(BinaryLSTM),
    "ternary_lstm": Kind(TernaryLSTM),
    "quantized_lstm": Kind(QuantizedLSTM, ("weight_bits",)),
    "naive_binary_rnn": Kind(NaiveBinaryRNN, ("weight_bits", "recurrence"), quantized_readout=True),
}
MODELS = (HADAMRNN, *KINDS)


def build_model(network: Network, evaluator: str = "auto") -> SequenceModel:
    """Return a freshly drawn network of this kind and shape.

    >>> build_model(Network(1, 32, 10, weight_bits=None, model="lstm")).recurrent.output_size
    32
    """
    if network.is_hadamard:
        return assemble(hadamard_layer(network, evaluator), network, network.weight_bits)
    check_name("model", network.model, MODELS)
    kind = KINDS[network.model]
    for name, neutral in NEUTRAL.items():
        if name not in kind.reads:
            check_unset(f"{network.model} networks", name, getattr(network, name), neutral)
    for name in network.model_options:
        if name not in kind.options:
            known = f"takes {', '.join(kind.options)}" if kind.options else "takes none"
            raise InputError(f"There is no model option {short(name)}: {network.model} {known}.")
    options = {name: coerce(name, value, kind.types[name]) for name, value in network.model_options.items()}
    shared = {name: getattr(network, name) for name in kind.reads}
    recurrent = kind.layer(network.input_size, network.hidden_size, **shared, **options)
    return assemble(recurrent, network, network.weight_bits if kind.quantized_readout else None)


def load_model(path: str | Path, evaluator: str = "auto") -> SequenceModel:
    """Return the model of any kind that `save_model` wrote; its outputs are the same to the last bit."""
    return read_model(path, lambda network: build_model(network, evaluator))
