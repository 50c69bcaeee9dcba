"""Store models: one safetensors file with the parameters and, in its header, the description.

The recurrent weight is stored as its latent signs, `hidden_size` numbers, never as a matrix.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from hadamrnn.architecture import Architecture
from hadamrnn.errors import InputError, damaged
from hadamrnn.files import one_line, parse_json, read_sealed, seal, write_atomically
from hadamrnn.network import Network, network_values, read_architecture
from hadamrnn.nn.model import SequenceModel

FORMAT = "hadamrnn"
VERSION = "3"
DTYPES = {torch.float32, torch.float64}


def save_model(model: SequenceModel, path: str | Path, run: str | None = None) -> None:
    """Write the model's parameters and description to `path` atomically.

    Args:
        run: the identity of the run that trained the model; see `check_run`.
    """
    model = getattr(model, "_orig_mod", model)  # the model that torch.compile wraps
    dtype = model.readout.weight.dtype
    if dtype not in DTYPES:
        raise InputError(f"A model file holds float32 or float64, got {dtype}. Save model.float() instead.")
    check_finite(model)
    metadata = {
        "format": FORMAT,
        "version": VERSION,
        "network": json.dumps(network_values(model.network), sort_keys=True),
    }
    if run is not None:
        metadata["run"] = run
    tensors = {  # copies, because a file cannot share one tensor between two names
        name: tensor.detach().clone(memory_format=torch.contiguous_format)
        for name, tensor in model.state_dict().items()
    }
    write_atomically(path, seal(save(tensors, metadata)))


def load_model(path: str | Path) -> SequenceModel:
    """Load a model of any kind from `save_model`; its outputs are the same to the last bit."""
    advice = "Load it with the release that wrote it, or train it again."
    metadata, content = read_sealed(path, FORMAT, VERSION, advice)
    tensors = parse_tensors(content, path)
    try:
        network = read_architecture(parse_json(metadata.get("network", "null"), path))
    except InputError as error:
        raise damaged(path, error) from error
    dtype = _check_network(network, tensors, path)
    model = SequenceModel(network).to(dtype)
    model.load_state_dict(tensors)
    check_finite(model)
    return model


def check_run(path: str | Path, run: str) -> None:
    """Refuse a model file written by another run."""
    check_owner(read_sealed(path, FORMAT, VERSION, "Train it again.")[0], run, path)


def check_owner(metadata: Mapping[str, str], run: str, path: str | Path) -> None:
    """Refuse the metadata of a file written by another run."""
    if metadata.get("run") != run:
        raise InputError(
            f"{path} must be of this run, but another run wrote it, or run.json was changed. Restore either "
            "from a copy."
        )


def parse_tensors(content: bytes, source: str | Path) -> dict[str, Tensor]:
    """Return the tensors of a safetensors file."""
    try:
        tensors: dict[str, Tensor] = load(content)
    except (SafetensorError, KeyError, TypeError, ValueError, RuntimeError) as error:
        raise damaged(source, f"its tensors cannot be read ({one_line(error)}).") from error
    return tensors


def check_tensors(
    found: Mapping[str, Tensor],
    expected: Mapping[str, Tensor],
    source: str | Path,
    dtype: torch.dtype | None = None,
) -> None:
    """Refuse tensors with unexpected names, shapes or dtypes; floats may also have `dtype`."""
    for name in sorted(found.keys() ^ expected.keys()):
        raise damaged(source, f"the tensor {name!r:.60} is missing or unexpected.")
    for name, tensor in expected.items():
        wanted = (dtype if dtype and tensor.is_floating_point() else tensor.dtype, tuple(tensor.shape))
        got = (found[name].dtype, tuple(found[name].shape))
        if got != wanted:
            raise damaged(
                source, f"{name} must be {wanted[0]} of shape {wanted[1]}, got {got[0]} of {got[1]}."
            )


def check_finite(model: torch.nn.Module) -> None:
    """Refuse a model with NaN or infinite parameters or statistics."""
    for name, tensor in model.state_dict().items():
        if not bool(torch.isfinite(tensor).all()):
            raise InputError(
                f"All parameters and statistics must be finite, but {name} holds NaN or infinity. "
                "Go back to an earlier checkpoint, or train with a smaller learning rate."
            )


def _check_network(network: Architecture, tensors: Mapping[str, Tensor], path: str | Path) -> torch.dtype:
    """Return the dtype of the tensors; refuse tensors that do not fit the network before allocating it."""
    count = sum(tensor.numel() for tensor in tensors.values())
    sizes = {name: size for name, size in vars(network).items() if name.endswith("_size")}
    if isinstance(network, Network):
        sizes |= {"num_blocks": network.num_blocks, "num_layers": network.num_layers}
    for name, size in sizes.items():
        if size is not None and size > max(1, len(tensors) if name == "num_layers" else count):
            raise damaged(path, f"{name} is {size!r:.30}, its tensors hold {count} numbers.")
    dtypes = {tensor.dtype for tensor in tensors.values() if tensor.is_floating_point()}
    if len(dtypes) != 1 or not dtypes <= DTYPES:
        raise damaged(path, "its tensors must be all float32 or all float64.")
    dtype = dtypes.pop()
    check_tensors(tensors, _expected(network, count, path), path, dtype)
    return dtype


def _expected(network: Architecture, count: int, path: str | Path) -> dict[str, Tensor]:
    """Return tensors of the shapes that `network` requires, without memory if possible."""
    try:
        with torch.device("meta"):
            return SequenceModel(network).state_dict()
    except RuntimeError as error:  # torch's orthogonal parametrization needs actual values
        if network.hidden_size**2 > count:  # the limit applies to dense matrices
            raise damaged(path, "it is too short for its hidden_size.") from error
        return SequenceModel(network).state_dict()
