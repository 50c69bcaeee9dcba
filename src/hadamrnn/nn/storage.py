"""Models on disk: one safetensors file with the parameters and, in its header, the `Network`.

The recurrent weight is its latent signs, `hidden_size` numbers; no hidden-by-hidden matrix exists.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.files import with_sorted_header, write_atomically
from hadamrnn.network import Network, network_values, read_network
from hadamrnn.nn.model import SequenceModel

FORMAT = "hadamrnn"
FORMAT_VERSION = "2"
READABLE = ("1", FORMAT_VERSION)  # version 1 called the network "config" and had no word for "no b_i"

Builder = Callable[[Network], SequenceModel]


def save_model(model: SequenceModel, path: str | Path) -> None:
    """Write the model's parameters and description to `path`, whole or not at all."""
    if model.network is None:
        raise InputError("Only models made by build_model(network) can be saved: this one was not.")
    check_finite(model)
    metadata = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "network": json.dumps(network_values(model.network), sort_keys=True),
    }
    tensors = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(path, with_sorted_header(save(tensors, metadata)))


def read_model(path: str | Path, build: Builder) -> SequenceModel:
    """Return the model that `save_model` wrote; its outputs are the same to the last bit.

    `build` makes a network of the description found there.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise InputError(
            f"{path} is no readable safetensors file ({error}). Save the model again."
        ) from error
    if metadata.get("format") != FORMAT or metadata.get("version") not in READABLE:
        found = f"format {metadata.get('format')!r}, version {metadata.get('version')!r}"
        raise InputError(
            f"{path} must be a {FORMAT} model of version {FORMAT_VERSION}, got {found}. "
            "Load it with the release that wrote it, or train it again."
        )
    network = _read_network(metadata, path)
    if metadata["version"] == "1":
        network, tensors = _from_version_1(network, tensors)
    model = build(network)
    dtypes = (tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
    model.to(next(dtypes, torch.float32))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} does not hold the tensors of its network: {reason}") from error
    check_finite(model)
    return model


def check_finite(model: torch.nn.Module) -> None:
    """Refuse a model with NaN or infinite parameters."""
    for name, parameter in model.named_parameters():
        if not bool(torch.isfinite(parameter).all()):
            raise InputError(
                f"All parameters must be finite, but {name} holds NaN or infinity. "
                "Go back to an earlier checkpoint, or train with a smaller learning rate."
            )


def _read_network(metadata: dict[str, str], path: str | Path) -> Network:
    try:
        return read_network(json.loads(metadata["config" if metadata["version"] == "1" else "network"]))
    except (KeyError, ValueError, RecursionError) as error:
        raise InputError(f"{path} has no readable network in its header ({error}).") from error


def _from_version_1(network: Network, tensors: dict[str, Tensor]) -> tuple[Network, dict[str, Tensor]]:
    """Return a network that learnt no b_i as one that has none; version 1 stored zeros."""
    biases = [name for name in tensors if name.endswith(".input_bias")]
    if not network.is_hadamard or not biases or any(bool(tensors[name].any()) for name in biases):
        return network, tensors
    return replace(network, input_bias=False), {
        name: tensor for name, tensor in tensors.items() if name not in biases
    }
