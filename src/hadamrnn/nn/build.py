"""Models of every type, built from a description and loaded from a file. Start at `build_model`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hadamrnn import plugins
from hadamrnn.errors import InputError, check_name, short
from hadamrnn.network import HADAMARD_ONLY, HADAMRNN, Network
from hadamrnn.nn.interface import RecurrentLayer
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.storage import read_model

# The values with which a recipe for Hadamard networks asks for none of what only they have.
HADAMARD_UNSET: Mapping[str, Any] = {
    **{name: getattr(Network, name) for name in HADAMARD_ONLY},
    "negative_signs": None,
    "sign_freeze_epoch": None,
    "weight_bits": None,
    "weight_clip": None,
}


def build_model(network: Network) -> SequenceModel:
    """Return a freshly initialised model of this type and shape.

    >>> build_model(Network(1, 32, 10)).recurrent.output_size
    32
    """
    if network.is_hadamard:
        return SequenceModel(network)
    return network_type(network.model).build(network)


def load_model(path: str | Path) -> SequenceModel:
    """Return the model of any type that `save_model` wrote; its outputs are the same to the last bit."""
    return read_model(path, build_model)


class NetworkType(ABC):
    """A type of network that another package offers under the entry point group `hadamrnn.networks`.

    Attributes:
        values: the settings that it changes in every recipe; recipes are made for Hadamard networks.
        quantized_readout: whether V has `weight_bits`; else it has full precision.
    """

    values: Mapping[str, Any] = HADAMARD_UNSET
    quantized_readout: bool = False

    @abstractmethod
    def recurrent_layer(self, network: Network) -> RecurrentLayer:
        """Return a freshly initialised recurrent layer of this shape."""

    def build(self, network: Network) -> SequenceModel:
        """Return a freshly initialised model of this shape."""
        recurrent = self.recurrent_layer(network)
        return SequenceModel(network, recurrent, quantized_readout=self.quantized_readout)

    def size(self, network: Network) -> Any:
        """Return the storage of a network, if there is a rule for it."""
        raise InputError(f"There is no rule for the cost of a {network.model}. Leave --model out.")

    def step_cost(self, network: Network) -> Any:
        """Return the `StepCost` of one step, if there is a rule for it."""
        raise InputError(f"There is no rule for the cost of a {network.model}. Leave --model out.")


def network_type(name: str) -> NetworkType:
    """Return a network type of another package by its name."""
    check_name("model", name, (HADAMRNN, *plugins.names(plugins.NETWORKS)))
    found = plugins.load(plugins.NETWORKS, name)
    if not isinstance(found, NetworkType):
        raise InputError(f"The network type {name} must be a NetworkType, got {short(found)}.")
    return found
