"""Integer models from a flat list of fields, including those of the network."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.layer import IntegerLayer, layer_fields
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network


def integer_model(**fields: Any) -> IntegerModel:
    """Return the model; fields that follow from its arrays (biases, vocabulary) may be left out."""
    block_size = fields.pop("block_size", fields["hidden_size"])
    if fields["hidden_size"] % block_size:
        raise InputError(f"block_size must divide hidden_size, got {block_size}.")
    embedding = fields.get("embedding_int")
    described = {
        "num_blocks": fields["hidden_size"] // block_size,
        "input_bias": fields.get("input_bias_int") is not None,
        "vocabulary_size": None if embedding is None else int(np.shape(embedding)[0]),
        **{name: fields.pop(name) for name in Network.__dataclass_fields__ if name in fields},
    }
    network = Network(**described)
    layer = {f.name: fields.pop(f.name) for f in dataclasses.fields(IntegerLayer) if f.name in fields}
    return IntegerModel(network, (IntegerLayer.of(network, 0, **layer),), **fields)


def with_layer(model: IntegerModel, *, network: dict[str, Any] | None = None, **fields: Any) -> IntegerModel:
    """Return a network of one layer with other fields, of the layer, the network or the model."""
    (layer,) = model.layers
    names = {field.name for field in dataclasses.fields(layer)}
    own = {name: fields.pop(name) for name in [*fields] if name in names}
    changed = dataclasses.replace(model.network, **(network or {}))
    layers = (dataclasses.replace(layer, **{**layer_fields(changed, 0), **own}),)
    return dataclasses.replace(model, network=changed, layers=layers, **fields)
