"""Read and write `model.int.safetensors`: a bit-packed `IntegerModel` with a version and a checksum.

The file consists of one-dimensional byte tensors, so any safetensors reader can list it. The size of the
weight payload follows the paper's formula, with each tensor rounded up to whole bytes:

    d_h + p d_h (d_in + d_out) + p_a (d_h + d_out) bits

A network without b_i stores none. A stack has the first two terms and the biases for every layer, and gains,
offsets, thresholds, leaks and feature scales as `cost.network_size` counts them. The formula does not count
an embedding table and the encoding of raw codes, which are reported as `extra`, nor the header, reported as
`header`. The lowest layer's fields have the names of `IntegerLayer`; those of layer l have the prefix
`layer{l}.`. The loader trusts nothing: it bounds every size before it allocates, and raises `InputError` for
a damaged file.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from hadamrnn.architecture import EXPONENT_BITS, stored_bits
from hadamrnn.errors import InputError, damaged, naming
from hadamrnn.files import (
    check_format,
    one_line,
    parse_json,
    read_regular,
    split_header,
    write_atomically,
)
from hadamrnn.fixedpoint.integers import Bytes, pack, unpack
from hadamrnn.fixedpoint.layer import IntegerLayer, activation_bits, check_integer_network
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import Network, network_values, read_network
from hadamrnn.settings import check_int

FORMAT = "hadamrnn-integer-model"
VERSION = 3
ENTRY = "hadamrnn"  # the one entry of safetensors' own metadata
MAX_FILE_BYTES = 1 << 30

# Fields of a layer and of the model, except arrays, metadata and the network.
_LAYER_SCALARS = ("input_bits", "hidden_shift", "accumulator_frac_bits", "input_bias_shift")
_GAIN_SCALARS = ("gain_shift", "offset_shift")
_MODEL_SCALARS = ("output_bias_shift", "input_scale", "logit_scale")
_FEATURE_SCALARS = ("feature_bits", "feature_multiplier", "feature_shift_base")
RAW_BITS = {"raw_offset": 32, "raw_multiplier": 17, "raw_shift": 7, "raw_knee": 6}
EXTRAS = ("embedding_int", *RAW_BITS)  # arrays that the paper's size formula does not count
_UNSIGNED = ("leak", "feature_shift")  # feature_shift without feature_shift_base


class Slot(NamedTuple):
    """The layout of an array: its shape and the bits of one entry."""

    shape: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class FileSize:
    """The bytes of a model file: payload (the paper's formula), extra and header."""

    payload: int
    extra: int
    header: int

    @property
    def total(self) -> int:
        return self.payload + self.extra + self.header


def save(model: IntegerModel, path: Path | str) -> FileSize:
    """Write `model` to `path` atomically; return its size."""
    data = to_bytes(model)
    write_atomically(path, data)
    return file_size(model, len(data))


def load(path: Path | str) -> IntegerModel:
    """Read a model; raise `InputError` if the file is not one."""
    data = read_regular(path, MAX_FILE_BYTES)
    with naming(path):
        return from_bytes(data)


def file_size(model: IntegerModel, total: int) -> FileSize:
    """Divide the `total` bytes of a model's file into payload, extra and header."""
    return divided(_tensors(model), total)


def divided(tensors: Mapping[str, Bytes], total: int) -> FileSize:
    """Divide the `total` bytes of a file with these packed arrays."""
    extra = sum(len(data) for name, data in tensors.items() if name in EXTRAS)
    payload = sum(map(len, tensors.values())) - extra
    return FileSize(payload, extra, total - payload - extra)


def to_bytes(model: IntegerModel) -> bytes:
    """Return the bytes of the model's file; equal models give equal bytes."""
    values = _values(model)
    header = {
        "format": FORMAT,
        "version": VERSION,
        "network": network_values(model.network),
        "model": {name: values[name] for name in _scalar_names(model.network)},
        "metadata": dict(model.metadata),
    }
    return seal_arrays(header, _tensors(model))


def from_bytes(data: bytes) -> IntegerModel:
    """Return the model from the output of `to_bytes`; raise `InputError` for anything else."""
    return _assemble(*open_arrays(data, FORMAT, VERSION))


def seal_arrays(header: dict[str, Any], tensors: dict[str, Bytes]) -> bytes:
    """Build a file from a header and packed arrays, with a checksum."""
    sealed = {**header, "sha256": _checksum(header, tensors)}
    # Use a single entry, because safetensors writes several in an arbitrary order.
    data: bytes = safetensors_numpy.save(tensors, metadata={ENTRY: _canonical(sealed)})
    return data


def open_arrays(data: bytes, kind: str, version: int) -> tuple[dict[str, Any], dict[str, Bytes]]:
    """Return the header and the packed arrays of a file of this format; raise `InputError` otherwise."""
    header = _header(data)
    check_format(header, "The file", kind, version, "`hadamrnn quantize` writes one.")
    try:
        tensors: dict[str, Bytes] = safetensors_numpy.load(data)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise damaged("The file", f"{one_line(error)}.") from error
    if header.pop("sha256", None) != _checksum(header, tensors):
        raise damaged("The file", "its checksum does not match. Quantize or copy it again.")
    return header, tensors


def file_format(data: bytes) -> object:
    """Return the format that a file states."""
    return _header(data).get("format")


def _header(data: bytes) -> dict[str, Any]:
    """Return the header's description of the model; empty if it has none."""
    text = split_header(data, "The file")[0]["__metadata__"].get(ENTRY)
    found = {} if text is None else parse_json(text, "The file")
    return found if isinstance(found, dict) else {}


def _values(model: IntegerModel) -> dict[str, Any]:
    """Return the fields of the model and its layers by their names in the file."""
    values = vars(model).copy()
    for index, layer in enumerate(model.layers):
        values |= {_prefix(index) + name: value for name, value in vars(layer).items()}
    values["leak"] = np.array(model.network.block_leaks)  # for all layers
    if model.feature_shift is not None:
        base = int(model.feature_shift.min())
        values |= {"feature_shift": model.feature_shift - base, "feature_shift_base": base}
    return values


def _scalar_names(network: Network) -> set[str]:
    """Return the names of the header's numbers."""
    names = {*_MODEL_SCALARS, *(_FEATURE_SCALARS if network.scales_features else ())}
    if network.counts_steps:
        names.add("longest")
    for index in range(network.num_layers):
        own = [*_LAYER_SCALARS]
        if index < network.num_layers - 1:
            own += ["output_bits", *(_GAIN_SCALARS if network.scales_layers else ())]
        if network.has_skip(index):
            own.append("skip_shift")
        names |= {_prefix(index) + name for name in own}
    return names


def _prefix(index: int) -> str:
    """Return the prefix of the names of a layer's fields in the file."""
    return f"layer{index}." if index else ""


def _tensors(model: IntegerModel) -> dict[str, Bytes]:
    """Return the arrays that `model` has, packed."""
    values = _values(model)
    return {
        name: pack(array, slot.bits)
        for name, slot in _layout(model.network, model.input_bits).items()
        if (array := values[name]) is not None
    }


def _assemble(header: dict[str, Any], tensors: dict[str, Bytes]) -> IntegerModel:
    scalars, metadata = header.get("model"), header.get("metadata")
    if not isinstance(scalars, dict):
        raise damaged("The file", "its list of fields is not this version's.")
    network = read_network(header.get("network"))
    check_integer_network(network)
    _check_scalars(network, scalars)
    layout = _layout(network, scalars["input_bits"])
    arrays = unpack_arrays(tensors, layout, _UNSIGNED)
    if tuple(arrays.pop("leak", ())) != network.block_leaks:
        raise damaged("The file", "its leaks are not those of its network.")
    if "feature_shift" in arrays:
        arrays["feature_shift"] += scalars.pop("feature_shift_base")
    values = {**scalars, **arrays}
    layers = [_take_layer(network, index, values) for index in range(network.num_layers)]
    return IntegerModel(
        network, tuple(layers), **values, metadata=metadata if isinstance(metadata, dict) else {}
    )


def _check_scalars(network: Network, scalars: dict[str, Any]) -> None:
    """Refuse numbers that the network does not have, and invalid values of those that the loader uses."""
    if scalars.keys() != _scalar_names(network):
        raise damaged("The file", "its list of fields is not this version's.")
    check_int("input_bits", scalars["input_bits"], 2, 16)
    if network.scales_features:
        check_int("feature_shift_base", scalars["feature_shift_base"], 1, 62)
        if not isinstance(scalars["feature_multiplier"], list):
            raise InputError("feature_multiplier must be a list of numbers.")


def _take_layer(network: Network, index: int, values: dict[str, Any]) -> IntegerLayer:
    """Build one layer, removing its values from `values`."""
    prefix = _prefix(index)
    names = [each.name for each in fields(IntegerLayer) if prefix + each.name in values]
    return IntegerLayer.of(network, index, **{name: values.pop(prefix + name) for name in names})


def unpack_arrays(
    tensors: dict[str, Bytes], layout: Mapping[str, Slot], unsigned: Collection[str]
) -> dict[str, Any]:
    """Unpack the arrays of a file; only those of the raw encoding may be missing."""
    if not layout.keys() - RAW_BITS.keys() <= tensors.keys() <= layout.keys():
        raise damaged("The file", f"it holds the tensors {', '.join(tensors)!r:.120}.")
    return {name: unpack_array(tensors, name, layout[name], unsigned) for name in tensors}


def unpack_array(
    tensors: dict[str, Bytes], name: str, slot: Slot, unsigned: Collection[str]
) -> NDArray[np.int64]:
    """Unpack one array; its bytes are already in memory, so checking their number also bounds the result."""
    data = tensors.get(name)
    if data is None or data.dtype != np.uint8 or data.ndim != 1:
        raise damaged("The file", f"{name} is no string of bytes.")
    codes = unpack(data, math.prod(slot.shape), slot.bits).reshape(slot.shape)
    return codes & (1 << slot.bits) - 1 if name in unsigned else codes


def _layout(network: Network, input_bits: int) -> dict[str, Slot]:
    """Return the shape and bits of every tensor that a file of this network may contain."""
    weight, activation = stored_bits(network.weight_bits), activation_bits(network)
    inputs, features = network.input_size, network.num_features
    layout: dict[str, Slot] = {}
    for index in range(network.num_layers):
        slots = _layer_layout(network, index, weight, activation)
        layout |= {_prefix(index) + name: slot for name, slot in slots.items()}
    layout["output_weight_int"] = Slot((network.output_size, features), weight)
    layout["output_bias_int"] = Slot((network.output_size,), activation)
    if network.block_leaks:
        layout["leak"] = Slot((network.num_blocks,), EXPONENT_BITS)
    if network.thresholds:
        layout["thresholds_int"] = Slot((network.thresholds, network.hidden_size), activation)
    if network.scales_features:
        layout["feature_shift"] = Slot((features,), EXPONENT_BITS)
    if network.vocabulary_size is not None:
        layout["embedding_int"] = Slot((network.vocabulary_size, inputs), input_bits)
    if network.input_kind == "dense":
        layout |= {name: Slot((inputs,), bits) for name, bits in RAW_BITS.items()}
    return layout


def _layer_layout(network: Network, index: int, weight: int, activation: int) -> dict[str, Slot]:
    units, seen = network.widths[index], network.cell_input_sizes[index]
    layout = {"signs": Slot((units,), 1), "input_weight_int": Slot((units, seen), weight)}
    if network.input_bias:
        layout["input_bias_int"] = Slot((units,), activation)
    if network.scales_layers and index < network.num_layers - 1:
        layout |= {name: Slot((units,), activation) for name in ("gain_int", "offset_int")}
    return layout


def _checksum(header: Mapping[str, Any], tensors: Mapping[str, Bytes]) -> str:
    """Return the SHA-256 of the scalars, the metadata and every tensor with its name."""
    digest = hashlib.sha256(_canonical(header).encode())
    for name in sorted(tensors):
        digest.update(json.dumps(name).encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


def _canonical(header: Mapping[str, Any]) -> str:
    return json.dumps(header, sort_keys=True)
