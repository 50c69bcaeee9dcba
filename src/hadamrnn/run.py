"""A run directory: configuration, data, model and integer model that belong together.

An integer model names the model that it was made from by the SHA-256 of `model.safetensors`, and a run
refuses the integer model of another one. torch is imported only where it is needed: integers need none.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn import fixedpoint
from hadamrnn.errors import InputError
from hadamrnn.files import MAX_TENSOR_BYTES, read_regular
from hadamrnn.version import package_version

if TYPE_CHECKING:
    from hadamrnn.fixedpoint import FileSize, IntegerModel

MODEL = "model.safetensors"
INTEGER = fixedpoint.FILE_NAME
SOURCE = "source"  # the metadata entry of an integer model that names its float model


def load_integer(path: Path) -> IntegerModel:
    """Return the integer model of a run directory, or of a file; in a run it must be that of its model."""
    if not path.exists():
        raise InputError(f"RUN must be a run folder or an integer model file, but there is no {path}.")
    folder, file = (path, path / INTEGER) if path.is_dir() else (path.parent, path)
    if not file.exists():
        raise InputError(f"{path} holds no integer network yet. Make one with: hadamrnn quantize {path}")
    integer = fixedpoint.load(file)
    if file.name == INTEGER and (folder / MODEL).is_file() and integer.metadata.get(SOURCE) != source(folder):
        raise InputError(
            f"{file} must be made from {folder / MODEL}, but it was made from another model. "
            f"Make it again with: hadamrnn quantize {folder}"
        )
    return integer


def save_integer(integer: IntegerModel, folder: Path, figures: dict[str, Any]) -> FileSize:
    """Write the integer model of a run beside the model that it was made from; `figures` become metadata."""
    origin = {SOURCE: source(folder), "hadamrnn": package_version()}
    metadata = {**integer.metadata, **figures, **origin}
    return fixedpoint.save(replace(integer, metadata=metadata), folder / INTEGER)


def source(folder: Path) -> str:
    """Return the SHA-256 of a run's model file."""
    return hashlib.sha256(read_regular(folder / MODEL, MAX_TENSOR_BYTES)).hexdigest()
