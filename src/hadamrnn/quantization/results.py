"""Describe the results of a run, and store and load its integer model.

An integer model identifies its float model by the SHA-256 of `model.safetensors`, and a run refuses another
run's integer model. Reading an integer model needs no torch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hadamrnn import fixedpoint
from hadamrnn.errors import InputError
from hadamrnn.files import INTEGER_FILE, MAX_TENSOR_BYTES, MODEL_FILE, read_regular
from hadamrnn.fixedpoint import FileSize, IntegerModel
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.fixedpoint.encoding import input_meaning
from hadamrnn.packages import package_version

if TYPE_CHECKING:
    from hadamrnn.training.evaluate import Errors

# A smaller loss needs no advice, because the paper's networks lose as much at 12 bits.
BEARABLE_LOSS = 0.003  # largest loss of accuracy without advice
BEARABLE_RATIO, SMALL_CROSS_ENTROPY = 2.0, 3e-7

SOURCE = "source"  # metadata entry of an integer model that identifies its float model


@dataclass(frozen=True, kw_only=True)
class Saturation:
    """The number of states and of inputs that an integer model has clipped."""

    states: int
    inputs: int

    def __str__(self) -> str:
        return f"{self.states} states and {self.inputs} inputs saturated"

    def figures(self) -> dict[str, int]:
        return {"saturations": self.states, "input_saturations": self.inputs}


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """A model's metric over some data, with the confusion matrix of a classifier.

    Args:
        value: the metric; None without labels.
        confusion: confusion matrix (rows true, columns predicted), in the order of the classes; None if the
            metric is not accuracy.
        errors: a regression's errors by predictor: model, constant, last_value.
        note: remark that must accompany the figure; may be empty.
        saturation: saturation of an integer model.
    """

    samples: int
    metric: str
    value: float | None
    class_names: tuple[str, ...] = ()
    confusion: list[list[int]] | None = None
    errors: dict[str, Errors] = field(default_factory=dict)
    note: str = ""
    saturation: Saturation | None = None

    @property
    def recall(self) -> dict[str, float | None]:
        """The recall of each class; None without samples."""
        rows = enumerate(self.confusion or [])
        shares = [row[index] / sum(row) if sum(row) else None for index, row in rows]
        return dict(zip(self.class_names, shares, strict=False))

    @property
    def absent_classes(self) -> list[str]:
        """The classes without samples."""
        return [name for name, share in self.recall.items() if share is None]


@dataclass(frozen=True, eq=False)
class Predictions:
    """Predicted class names or values for a user's data, and logits; for recordings `file` and `row`."""

    values: list[Any]
    logits: Any  # (n, outputs), a tensor; scores of a detector, an array
    places: dict[str, list[Any]]
    saturation: Saturation | None
    note: str = ""


@dataclass(frozen=True, kw_only=True)
class Quantization:
    """A run's integer model: its file, its metric and the float model's metric (None without labels)."""

    metric: str
    split: str
    float_value: float | None
    integer_value: float | None
    saturation: Saturation | None
    model: IntegerModel
    file: Path
    size: FileSize


def saturation(network: object) -> Saturation | None:
    """Return the clipping counts of an integer network; None for a float one."""
    from hadamrnn.quantization.chain import IntegerNetwork

    if not isinstance(network, IntegerNetwork):
        return None
    return Saturation(states=network.saturations, inputs=network.input_saturations)


def load_integer(path: Path) -> IntegerModel:
    """Load the integer model of a run directory, checking that it belongs to the run, or of a file."""
    if not path.exists():
        raise InputError(f"RUN must be a run folder or an integer model file, but {path} does not exist.")
    folder, file = (path, path / INTEGER_FILE) if path.is_dir() else (path.parent, path)
    if not file.exists():
        raise InputError(f"{path} holds no integer network yet. Make one with: hadamrnn quantize {path}")
    integer = fixedpoint.load(file)
    in_run = file.name == INTEGER_FILE and (folder / MODEL_FILE).is_file()
    if in_run and integer.metadata.get(SOURCE) != source(folder):
        raise InputError(
            f"{file} must be made from {folder / MODEL_FILE}, but it was made from another model. "
            f"Make it again with: hadamrnn quantize {folder}"
        )
    return integer


def save_integer(integer: IntegerModel, folder: Path, figures: dict[str, Any]) -> FileSize:
    """Write a run's integer model next to its float model; `figures` become metadata."""
    origin = {SOURCE: source(folder), "hadamrnn": package_version()}
    metadata = {**integer.metadata, **figures, **origin}
    return fixedpoint.save(replace(integer, metadata=metadata), folder / INTEGER_FILE)


def source(folder: Path) -> str:
    """Return the SHA-256 of a run's model file."""
    return hashlib.sha256(read_regular(folder / MODEL_FILE, MAX_TENSOR_BYTES)).hexdigest()


def quantize_figures(found: Quantization) -> dict[str, Any]:
    """Return a quantization for --json."""
    figures: dict[str, Any] = {"metric": found.metric, "split": found.split}
    figures |= {"activation_bits": found.model.activation_bits, "inputs": input_meaning(found.model)}
    if found.saturation is not None:
        figures |= {"float": found.float_value, "integer": found.integer_value}
        figures |= found.saturation.figures()
    return figures | {
        "file": str(found.file),
        "payload_bytes": found.size.payload,
        "extra_bytes": found.size.extra,
        "header_bytes": found.size.header,
        "kilobytes": round(found.size.payload / 1024, 4),
        "paper_kilobytes": round(network_size(found.model.network).kilobytes, 4),
    }


def quantize_lines(figures: dict[str, Any]) -> list[str]:
    from hadamrnn.training.evaluate import show_metric

    metrics = []
    if "float" in figures:
        metrics = [
            f"float     {show_metric(figures['metric'], figures['float'])} over {figures['split']}",
            f"integer   {show_metric(figures['metric'], figures['integer'])}, "
            f"{figures['saturations']} states and {figures['input_saturations']} inputs saturated",
            *_advice(figures),
        ]
    extra = f", {figures['extra_bytes'] / 1024:.2f} kB of tables beside it" if figures["extra_bytes"] else ""
    return [
        *metrics,
        f"weights   {figures['kilobytes']:.2f} kB (the paper's formula: {figures['paper_kilobytes']:.2f} kB)"
        f"{extra}, header {figures['header_bytes']} bytes",
        f"inputs    {figures['inputs']}",
        f"written   {figures['file']}",
    ]


def _advice(figures: dict[str, Any]) -> list[str]:
    """Return advice if quantization has degraded the metric, else an empty text."""
    exact, rounded, bits = figures["float"], figures["integer"], figures["activation_bits"]
    if figures["metric"] == "accuracy":
        lost, spoilt = f"{100 * (exact - rounded):.2f} points", exact - rounded > BEARABLE_LOSS
    else:
        spoilt = rounded > max(BEARABLE_RATIO * exact, SMALL_CROSS_ENTROPY)
        lost = f"{rounded - exact:.2g} of {figures['metric'].replace('_', '-')}"
    more = f"--activation-bits {min(bits + 2, 16)} or " if bits < 16 else ""
    return [f"advice    {bits}-bit states cost {lost}: try {more}--finetune"] if spoilt else []
