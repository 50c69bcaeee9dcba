"""Models on disk: one safetensors file with the parameters and, in its header, the configuration.

The recurrent weight is its latent signs, `hidden_size` numbers; no hidden-by-hidden matrix exists.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from hadamrnn.errors import InputError
from hadamrnn.files import with_sorted_header, write_atomically
from hadamrnn.nn.model import ModelConfig, SequenceModel, build_model

FORMAT = "hadamrnn"
FORMAT_VERSION = "1"

Builder = Callable[[ModelConfig, str], SequenceModel]


def save_model(model: SequenceModel, path: str | Path) -> None:
    """Write the model's parameters and configuration to `path`, whole or not at all."""
    if model.config is None:
        raise InputError(
            "Only models made by build_model(config) can be saved: this one has no configuration."
        )
    check_finite(model)
    metadata = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "config": json.dumps(dataclasses.asdict(model.config), sort_keys=True),
    }
    tensors = {name: tensor.detach().contiguous() for name, tensor in model.state_dict().items()}
    write_atomically(path, with_sorted_header(save(tensors, metadata)))


def load_model(path: str | Path, evaluator: str = "auto", build: Builder = build_model) -> SequenceModel:
    """Return the model that `save_model` wrote; its outputs are the same to the last bit.

    `build` makes a network of the configuration found there; by default Hadamard networks alone.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}
    except SafetensorError as error:
        raise InputError(
            f"{path} is no readable safetensors file ({error}). Save the model again."
        ) from error
    if metadata.get("format") != FORMAT or metadata.get("version") != FORMAT_VERSION:
        found = f"format {metadata.get('format')!r}, version {metadata.get('version')!r}"
        raise InputError(
            f"{path} must be a {FORMAT} model of version {FORMAT_VERSION}, got {found}. "
            "Load it with the release that wrote it, or train it again."
        )
    model = build(_read_config(metadata, path), evaluator)
    dtypes = (tensor.dtype for tensor in tensors.values() if tensor.is_floating_point())
    model.to(next(dtypes, torch.float32))
    try:
        model.load_state_dict(tensors)
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise InputError(f"{path} does not hold the tensors of its configuration: {reason}") from error
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


def _read_config(metadata: dict[str, str], path: str | Path) -> ModelConfig:
    try:
        return ModelConfig(**json.loads(metadata["config"]))
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise InputError(f"{path} has no readable model configuration in its header ({error}).") from error
