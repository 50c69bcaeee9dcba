"""Find the trained integer models of a few kB that are bundled with the package. Start at `shipped`.

Each is a file NAME.int.safetensors with a NAME.json that has its inputs, its training data, its metric on the
test set, and the command that made it. Numpy only, no torch.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from pathlib import Path

from hadamrnn.errors import check_name, damaged
from hadamrnn.files import MAX_TENSOR_BYTES, parse_json, read_regular, write_atomically
from hadamrnn.fixedpoint import IntegerModel, load
from hadamrnn.settings import from_json

FOLDER = Path(__file__).parent
SUFFIX = ".int.safetensors"


@dataclass(frozen=True)
class InputDescription:
    """The inputs of a model.

    Args:
        channels: number and meaning of the channels, in order.
        unit: unit of the values before standardisation, which the model does itself.
        rate: number of steps per second, as text.
        steps: the length of a training sequence.
        preprocessing: what must be done with the sensor's values to get the channels.
    """

    channels: str
    unit: str
    rate: str
    steps: int
    preprocessing: str


@dataclass(frozen=True)
class Shipped:
    """A bundled model and its metadata; the settings of the network are in its file.

    Args:
        name: purpose and size, such as `motion-6kb`.
        test: the metric of the integer network over the task's test set.
        kilobytes: size of weights, biases and signs; the file adds a header.
        command: the command that repeats the training, in a clone of the repository.
    """

    name: str
    task: str
    metric: str
    test: float | None
    kilobytes: float
    activation_bits: int
    inputs: InputDescription
    command: str
    sha256: str

    def path(self, folder: Path | None = None) -> Path:
        return (folder or FOLDER) / f"{self.name}{SUFFIX}"

    def load(self, folder: Path | None = None) -> IntegerModel:
        """Load the network; refuse a file that does not match its metadata."""
        self._checked(folder)
        return load(self.path(folder))

    def _checked(self, folder: Path | None) -> bytes:
        """Return the content of the file, which must match its metadata."""
        path = self.path(folder)
        content = read_regular(path, MAX_TENSOR_BYTES)
        if digest(content) != self.sha256:
            raise damaged(path, f"{self.name}.json describes another file. Install hadamrnn again.")
        return content


def shipped(folder: Path | None = None) -> list[Shipped]:
    """Return the models in a folder by name; by default the bundled ones."""
    models = []
    for path in sorted((folder or FOLDER).glob("*.json")):
        model = from_json(Shipped, parse_json(read_regular(path), path), path)
        if path.name != f"{model.name}.json":
            raise damaged(path, f"it describes the model {model.name}, whose name its file must have.")
        models.append(model)
    return models


def find(name: str, folder: Path | None = None) -> Shipped:
    """Return one model by name."""
    found = {model.name: model for model in shipped(folder)}
    check_name("A model", name, found)
    return found[name]


def copy(model: Shipped, out: Path, folder: Path | None = None) -> list[Path]:
    """Copy a model and its metadata into `out` and return both paths."""
    return add(model, model._checked(folder), out)


def add(model: Shipped, content: bytes, folder: Path) -> list[Path]:
    """Write a model and its metadata into `folder` and return both paths."""
    folder.mkdir(parents=True, exist_ok=True)
    metadata = folder / f"{model.name}.json"
    write_atomically(model.path(folder), content)
    write_atomically(metadata, (json.dumps(asdict(model), indent=1) + "\n").encode())
    return [model.path(folder), metadata]


def digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
