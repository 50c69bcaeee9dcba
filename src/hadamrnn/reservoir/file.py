"""Read and write the file of an `IntegerReservoir`: packed arrays with a version and a checksum.

The container is the same as in `fixedpoint.file`. The payload is what `cost.reservoir_size` counts, with each
array rounded up to whole bytes; the encoding of raw codes is `extra`, and the `header` has the groups. The
loader does not trust the file.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np

from hadamrnn.architecture import EXPONENT_BITS
from hadamrnn.errors import InputError, damaged, naming
from hadamrnn.files import read_regular, write_atomically
from hadamrnn.fixedpoint import file as integer_file
from hadamrnn.fixedpoint.file import (
    RAW_BITS,
    FileSize,
    Slot,
    divided,
    file_format,
    open_arrays,
    seal_arrays,
    unpack_array,
    unpack_arrays,
)
from hadamrnn.fixedpoint.integers import Bytes, pack
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.reservoir.constants import SEGMENT_BITS, channel_bytes, is_segmented
from hadamrnn.reservoir.cost import BIAS_BITS
from hadamrnn.reservoir.description import Reservoir
from hadamrnn.reservoir.model import IntegerReservoir
from hadamrnn.reservoir.reference import STATE_BITS
from hadamrnn.reservoir.units import FEATURE_COUNT_BITS, INPUT_WEIGHT_BITS, Features, Units
from hadamrnn.settings import from_json

FORMAT = "hadamrnn-integer-reservoir"
VERSION = 1
_SCALARS = ("output_bias_shift", "input_scale", "logit_scale")
_UNSIGNED = ("channel", "features_per_unit", "segment", "exponents")


def save(model: IntegerReservoir, path: Path | str) -> FileSize:
    """Write `model` to `path` atomically; return its size."""
    data = to_bytes(model)
    write_atomically(path, data)
    return file_size(model, len(data))


def load(path: Path | str) -> IntegerReservoir:
    """Read a model; raise `InputError` if the file is not one."""
    model = load_any(path)
    if not isinstance(model, IntegerReservoir):
        raise InputError(f"{path} must hold a reservoir, it holds {model!r}. Load it as an IntegerModel.")
    return model


def load_any(path: Path | str) -> IntegerModel | IntegerReservoir:
    """Read an integer network or reservoir; raise `InputError` if the file is neither."""
    data = read_regular(path, integer_file.MAX_FILE_BYTES)
    with naming(path):
        is_reservoir = file_format(data) == FORMAT
        return from_bytes(data) if is_reservoir else integer_file.from_bytes(data)


def file_size(model: IntegerReservoir, total: int) -> FileSize:
    """Divide the `total` bytes of a model's file into payload, extra and header."""
    return divided(_tensors(model), total)


def to_bytes(model: IntegerReservoir) -> bytes:
    """Return the bytes of the model's file; equal models give equal bytes."""
    header = {
        "format": FORMAT,
        "version": VERSION,
        "network": dataclasses.asdict(model.network),
        "model": {name: getattr(model, name) for name in _SCALARS},
        "metadata": dict(model.metadata),
    }
    return seal_arrays(header, _tensors(model))


def from_bytes(data: bytes) -> IntegerReservoir:
    """Return the model from the output of `to_bytes`; raise `InputError` for anything else."""
    header, tensors = open_arrays(data, FORMAT, VERSION)
    network = from_json(Reservoir, header.get("network"), "The network")
    scalars, metadata = header.get("model"), header.get("metadata")
    if not isinstance(scalars, dict) or scalars.keys() != set(_SCALARS) or not isinstance(metadata, dict):
        raise damaged("The file", "its list of fields is not this version's.")
    counts = unpack_array(
        tensors, "features_per_unit", Slot((network.hidden_size,), FEATURE_COUNT_BITS), _UNSIGNED
    )
    unit = np.repeat(np.arange(network.hidden_size), counts)
    zeros = np.zeros(len(unit), np.int64)
    features = Features(network, unit, zeros, zeros)
    arrays = unpack_arrays(tensors, _layout(features), _UNSIGNED)
    segment = zeros.copy()
    segment[is_segmented(features)] = arrays.pop("segment", 0)
    del arrays["features_per_unit"]
    channel = arrays.pop("channel", np.zeros(network.num_blocks, np.int64))
    units = Units(network, channel, arrays.pop("signs"), arrays.pop("input_weight_int"))
    features = Features(network, unit, arrays.pop("threshold"), segment)
    fields: dict[str, Any] = {**arrays, **scalars}
    fields["output_weight_int"] = arrays["output_weight_int"].T
    return IntegerReservoir(network, units, features, **fields, metadata=metadata)


def _layout(features: Features) -> dict[str, Slot]:
    """Return the shape and bits of every tensor that a file with these features may contain."""
    network, count = features.network, len(features)
    units, inputs = network.hidden_size, network.input_size
    layout = {
        "signs": Slot((units,), 1),
        "input_weight_int": Slot((units,), INPUT_WEIGHT_BITS),
        "features_per_unit": Slot((units,), FEATURE_COUNT_BITS),
        "threshold": Slot((count,), STATE_BITS),
        "exponents": Slot((count,), EXPONENT_BITS),
        "output_weight_int": Slot((count, network.output_size), network.weight_bits),
        "output_bias_int": Slot((network.output_size,), BIAS_BITS),
        **{name: Slot((inputs,), bits) for name, bits in RAW_BITS.items()},
    }
    if channel_bytes(network):
        layout["channel"] = Slot((network.num_blocks,), 8 * channel_bytes(network))
    if is_segmented(features).any():
        layout["segment"] = Slot((int(is_segmented(features).sum()),), SEGMENT_BITS)
    return layout


def _tensors(model: IntegerReservoir) -> dict[str, Bytes]:
    features = model.features
    values = {
        **vars(model),
        **vars(model.units),
        **vars(features),
        "features_per_unit": features.per_unit,
        "segment": features.segment[is_segmented(features)],
        "output_weight_int": model.output_weight_int.T,
    }
    slots = _layout(features).items()
    return {name: pack(values[name], slot.bits) for name, slot in slots if values[name] is not None}
