"""Trained integer models of a few kB that ship with the package. Start at `shipped`.

Each is a file NAME.int.safetensors and, beside it, NAME.json: what it was trained on, what it reaches on the
test set, and the command that made it. Numpy only, no torch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hadamrnn.errors import InputError, did_you_mean
from hadamrnn.files import write_atomically
from hadamrnn.fixedpoint import IntegerModel, load

FOLDER = Path(__file__).parent
SUFFIX = ".int.safetensors"


@dataclass(frozen=True)
class Shipped:
    """A model and its metadata.

    Args:
        test: the metric of the integer network over the task's test set.
        kilobytes: of weights, biases and signs; the file adds a header.
        command: what made it.
    """

    name: str
    task: str
    metric: str
    test: float | None
    kilobytes: float
    activation_bits: int
    command: str
    sha256: str

    def path(self, folder: Path | None = None) -> Path:
        return (folder or FOLDER) / f"{self.name}{SUFFIX}"

    def load(self, folder: Path | None = None) -> IntegerModel:
        """Return the network; a file that is not what its metadata says is refused."""
        path = self.path(folder)
        if digest(path) != self.sha256:
            raise InputError(
                f"{path} is not the file that {self.name}.json describes. Install hadamrnn again."
            )
        return load(path)


def shipped(folder: Path | None = None) -> list[Shipped]:
    """Return what ships, by name; the list may be empty."""
    descriptions = (
        json.loads(path.read_text(encoding="utf-8")) for path in sorted((folder or FOLDER).glob("*.json"))
    )
    return [Shipped(**metadata) for metadata in descriptions]


def find(name: str, folder: Path | None = None) -> Shipped:
    """Return one model by name."""
    found = {model.name: model for model in shipped(folder)}
    if name not in found:
        raise InputError(f"There is no model {name!r}.{did_you_mean(name, found)} hadamrnn models lists all.")
    return found[name]


def copy(model: Shipped, out: Path, folder: Path | None = None) -> list[Path]:
    """Copy a model and its metadata into `out` and return both paths."""
    model.load(folder)
    return add(model, model.path(folder).read_bytes(), out)


def add(model: Shipped, content: bytes, folder: Path) -> list[Path]:
    """Write a model and its metadata into `folder` and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = folder / f"{model.name}.json"
    write_atomically(model.path(folder), content)
    write_atomically(metadata, (json.dumps(asdict(model), indent=1) + "\n").encode())
    return [model.path(folder), metadata]


def digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
