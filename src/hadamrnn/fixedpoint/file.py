"""`model.int.safetensors`: an `IntegerModel` packed to the bit, with a version and a checksum.

A safetensors file of one-dimensional byte tensors, so any safetensors reader can list it. The weight
payload is the paper's formula, each tensor rounded up to whole bytes:

    d_h + p d_h (d_in + d_out) + p_a (d_h + d_out) bits

and d_h more for column signs; a network without b_i stores none. What the formula leaves out (an embedding
table, raw encoding) is counted as `extra`, the header as `header`. The loader trusts nothing: it bounds
every size before it allocates, and a damaged file is one `InputError`.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors import numpy as safetensors_numpy

from hadamrnn.errors import InputError
from hadamrnn.files import write_atomically
from hadamrnn.fixedpoint.model import MAX_SIZE, MAX_VOCABULARY, IntegerModel
from hadamrnn.fixedpoint.packing import Bytes, pack, pack_signs, unpack, unpack_signs
from hadamrnn.fixedpoint.validation import check_int

FILE_NAME = "model.int.safetensors"
FORMAT = "hadamrnn-integer-model"
VERSION = 1
ENTRY = "hadamrnn"  # the one entry of safetensors' own metadata
MAX_FILE_BYTES = 1 << 30
MAX_HEADER_BYTES = 1 << 20

# Everything that is neither an array nor metadata; the shapes of all arrays follow from these.
_SCALARS = (
    *("hidden_size", "block_size", "input_size", "output_size"),
    *("weight_bits", "activation_bits", "input_bits", "recurrence", "every_output", "input_kind"),
    *("hidden_shift", "accumulator_frac_bits", "input_bias_shift", "output_bias_shift"),
    *("input_scale", "logit_scale"),
)
_WEIGHTS = ("signs", "input_weight_int", "output_weight_int", "output_bias_int")
_EXTRAS = ("embedding_int", "raw_offset", "raw_multiplier", "raw_shift")  # not in the paper's formula


class Slot(NamedTuple):
    """Where an array goes: its shape and the bits of one entry."""

    shape: tuple[int, ...]
    bits: int


@dataclass(frozen=True)
class FileSize:
    """Bytes of a model file: payload (the paper's formula), extra, header; they sum up to the file."""

    payload: int
    extra: int
    header: int

    @property
    def total(self) -> int:
        return self.payload + self.extra + self.header


def save(model: IntegerModel, path: Path | str) -> FileSize:
    """Write `model` to `path`, whole or not at all; return what it takes."""
    data = to_bytes(model)
    write_atomically(path, data)
    return file_size(model, len(data))


def load(path: Path | str) -> IntegerModel:
    """Read a model; a file that is not one raises `InputError`."""
    path = Path(path)
    if path.stat().st_size > MAX_FILE_BYTES:
        raise InputError(f"An integer model takes at most {MAX_FILE_BYTES} bytes, {path} is larger.")
    try:
        return from_bytes(path.read_bytes())
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def file_size(model: IntegerModel, total: int) -> FileSize:
    """Return how the `total` bytes of a model's file are spent."""
    sizes = {name: len(data) for name, data in _tensors(model).items()}
    extra = sum(sizes.get(name, 0) for name in _EXTRAS)
    payload = sum(sizes.values()) - extra
    return FileSize(payload, extra, total - payload - extra)


def to_bytes(model: IntegerModel) -> bytes:
    """Return the bytes of the model's file; equal models give equal bytes."""
    tensors = _tensors(model)
    story = {
        "format": FORMAT,
        "version": VERSION,
        "model": _scalars(model),
        "metadata": dict(model.metadata),
    }
    sealed = {**story, "sha256": _checksum(story, tensors)}
    # One entry: safetensors writes several in an arbitrary order.
    data: bytes = safetensors_numpy.save(tensors, metadata={ENTRY: _canonical(sealed)})
    return data


def from_bytes(data: bytes) -> IntegerModel:
    """Return the model that `to_bytes` made `data` of; anything else raises `InputError`."""
    story = _story(data)
    if story.get("format") != FORMAT:
        raise InputError(f"This is no {FORMAT} file. `hadamrnn quantize` writes one.")
    if story.get("version") != VERSION:
        raise InputError(f"This reader knows version {VERSION}, the file has {story.get('version')!r:.20}.")
    try:
        tensors: dict[str, Bytes] = safetensors_numpy.load(data)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"The file is damaged: {_one_line(error)}.") from error
    if story.pop("sha256", None) != _checksum(story, tensors):
        raise InputError("The file is damaged: its checksum does not match. Quantize again or copy it anew.")
    return _assemble(story, tensors)


def _story(data: bytes) -> dict[str, Any]:
    """Return what the header tells of the model, having checked the lengths that the file claims."""
    length = int.from_bytes(data[:8], "little")
    if len(data) < 8 or length > min(MAX_HEADER_BYTES, len(data) - 8):
        raise InputError("The file is damaged: it is shorter than its header says.")
    metadata = _parse(data[8 : 8 + length]).get("__metadata__")
    text = metadata.get(ENTRY) if isinstance(metadata, dict) else None
    return _parse(text) if isinstance(text, str) else {}


def _parse(text: str | bytes) -> dict[str, Any]:
    def refuse(constant: str) -> NoReturn:
        raise ValueError(f"{constant} is no number")

    try:
        value = json.loads(text, parse_constant=refuse)
    except (ValueError, RecursionError) as error:
        raise InputError(f"The file is damaged: {_one_line(error)}.") from error
    if not isinstance(value, dict):
        raise InputError("The file is damaged: its header is no JSON object.")
    return value


def _scalars(model: IntegerModel) -> dict[str, Any]:
    rows = model.vocabulary_size if model.input_kind == "embedded" else 0
    return {**{name: getattr(model, name) for name in _SCALARS}, "embedding_rows": rows}


def _tensors(model: IntegerModel) -> dict[str, Bytes]:
    """Return the packed arrays that `model` has."""
    layout = _layout(_scalars(model))
    arrays = {name: getattr(model, name) for name in layout}
    return {
        name: pack_signs(array) if layout[name].bits == 1 else pack(array, layout[name].bits)
        for name, array in arrays.items()
        if array is not None and (name != "input_bias_int" or model.has_input_bias)
    }


def _assemble(story: dict[str, Any], tensors: dict[str, Bytes]) -> IntegerModel:
    scalars, metadata = story.get("model"), story.get("metadata")
    if not isinstance(scalars, dict) or scalars.keys() != {*_SCALARS, "embedding_rows"}:
        raise InputError("The file is damaged: its list of fields is not this version's.")
    layout = _layout(scalars)
    if not set(_WEIGHTS) <= tensors.keys() <= layout.keys():
        raise InputError(f"The file is damaged: it holds the tensors {', '.join(tensors)!s:.120}.")
    arrays: dict[str, Any] = {name: _unpacked(name, data, layout[name]) for name, data in tensors.items()}
    arrays.setdefault("input_bias_int", np.zeros(scalars["hidden_size"], np.int16))
    del scalars["embedding_rows"]
    return IntegerModel(**scalars, **arrays, metadata=metadata if isinstance(metadata, dict) else {})


def _unpacked(name: str, data: Bytes, slot: Slot) -> NDArray[np.int64]:
    """Return one array. Its bytes are in memory already, so a length that fits bounds what it takes."""
    if data.dtype != np.uint8 or data.ndim != 1:
        raise InputError(f"The file is damaged: {name} is no string of bytes.")
    count = math.prod(slot.shape)
    codes = unpack_signs(data, count) if slot.bits == 1 else unpack(data, count, slot.bits)
    return codes.reshape(slot.shape)


def _layout(scalars: Mapping[str, Any]) -> dict[str, Slot]:
    """Return the shape and the bits of every tensor that a file with these scalars may hold."""
    for name in ("hidden_size", "input_size", "output_size"):
        check_int(name, scalars[name], 1, MAX_SIZE)
    check_int("embedding_rows", scalars["embedding_rows"], 0, MAX_VOCABULARY)
    hidden, inputs, outputs = (scalars[name] for name in ("hidden_size", "input_size", "output_size"))
    weight = 2 if scalars["weight_bits"] == "ternary" else scalars["weight_bits"]
    activation, code = scalars["activation_bits"], scalars["input_bits"]
    for name, bits in (("weight_bits", weight), ("activation_bits", activation), ("input_bits", code)):
        check_int(name, bits, 2, 16)
    return {
        "signs": Slot((hidden,), 1),
        "input_weight_int": Slot((hidden, inputs), weight),
        "input_bias_int": Slot((hidden,), activation),
        "output_weight_int": Slot((outputs, hidden), weight),
        "output_bias_int": Slot((outputs,), activation),
        "column_signs": Slot((hidden,), 1),
        "embedding_int": Slot((scalars["embedding_rows"], inputs), code),
        "raw_offset": Slot((inputs,), 32),
        "raw_multiplier": Slot((inputs,), 17),
        "raw_shift": Slot((inputs,), 7),
    }


def _checksum(story: Mapping[str, Any], tensors: Mapping[str, Bytes]) -> str:
    """Return the SHA-256 of the scalars, the metadata and every tensor with its name."""
    digest = hashlib.sha256(_canonical(story).encode())
    for name in sorted(tensors):
        digest.update(json.dumps(name).encode())
        digest.update(np.ascontiguousarray(tensors[name]).tobytes())
    return digest.hexdigest()


def _canonical(story: Mapping[str, Any]) -> str:
    return json.dumps(story, sort_keys=True, allow_nan=False)


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:120]
