"""Models of every type, built from a description and loaded from a file. Start at `build_model`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hadamrnn import plugins
from hadamrnn.errors import check_name
from hadamrnn.network import HADAMRNN, Network
from hadamrnn.nn.model import SequenceModel, assemble, hadamard_layer
from hadamrnn.nn.storage import read_model


def build_model(network: Network, evaluator: str = "auto") -> SequenceModel:
    """Return a freshly initialised model of this type and shape.

    >>> build_model(Network(1, 32, 10)).recurrent.output_size
    32
    """
    if network.is_hadamard:
        return assemble(hadamard_layer(network, evaluator), network, network.weight_bits)
    model: SequenceModel = network_type(network.model).build(network)
    return model


def load_model(path: str | Path, evaluator: str = "auto") -> SequenceModel:
    """Return the model of any type that `save_model` wrote; its outputs are the same to the last bit."""
    return read_model(path, lambda network: build_model(network, evaluator))


def network_type(name: str) -> Any:
    """Return a network type that another package offers under the entry point group `hadamrnn.networks`."""
    check_name("model", name, (HADAMRNN, *plugins.names(plugins.NETWORKS)))
    return plugins.load(plugins.NETWORKS, name)
