"""Hold a task in memory: three splits, and the facts about them that a model needs.

Storage is compact (pixels and word ids take one or two bytes); `Split.batch` converts stored rows to model
inputs, so that a training loop need not know the storage format. Start at `Splits`.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.labels import check_label
from hadamrnn.errors import InputError, short
from hadamrnn.front_end import FrontEnd
from hadamrnn.settings import Range, check_equal

Batch = tuple[Tensor, Tensor | None, Tensor | None]
Metric = Literal["accuracy", "cross_entropy", "mse"]
Steps = Annotated[int, Range(1, 2**31 - 1)]


@dataclass(frozen=True, eq=False)
class Split:
    """Samples in storage form: `n = len(split)` rows; read them with `batch`.

    Args:
        x: dense inputs `(n, time, channels)`, float32, or uint8 codes k that mean k / `levels`;
            or symbol ids `(n, time)` of any integer type.
        y: `(n,)` integer labels; `(n, time)` if every output is used; `(n, output_size)` float32
            targets of a regression; None if the labels are private (GLUE's tests).
        lengths: `(n,)` valid steps of each row, None if all are valid. Padded text has None:
            it is padded on the left with id 0, whose embedding must stay zero.
        levels: the code that means 1.0 (MNIST: 255); None for float32 inputs and for ids.
        groups: group of each class if a prediction only has to be in the right group; otherwise None.
        last: `(n, targets)`, the target one hop before each window's own, if the targets form a series.
        note: remarks on the files that the samples were read from.

    >>> split = Split(torch.tensor([[[0], [51]]], dtype=torch.uint8), torch.tensor([1]), levels=255)
    >>> x, y, lengths = split.batch(torch.tensor([0]))
    >>> x.squeeze(), y, lengths
    (tensor([0.0000, 0.2000]), tensor([1]), None)
    """

    x: Tensor
    y: Tensor | None
    lengths: Tensor | None = None
    levels: int | None = None
    groups: tuple[int, ...] | None = None
    last: Tensor | None = None
    note: str = ""

    def __post_init__(self) -> None:
        for name, values in (("x", self.x), ("y", self.y), ("lengths", self.lengths)):
            if values is not None and not isinstance(values, Tensor):
                raise InputError(f"{name} must be a tensor, got {short(values)}. torch.as_tensor makes one.")
            if values is not None:
                check_equal(f"The number of rows of {name}", len(values), len(self.x))

    def __len__(self) -> int:
        return len(self.x)

    @property
    def labelled(self) -> bool:
        """Whether `batch` returns a y; false for GLUE's private tests."""
        return self.y is not None

    def check_labelled(self, purpose: str) -> None:
        """Refuse a part without samples or without labels."""
        if not self.labelled or not len(self):
            raise InputError(f"{purpose} needs labels, and this part of the data has none.")

    def same(self, decided: Tensor, target: Tensor) -> Tensor:
        """Return which predictions are correct.

        >>> split = Split(torch.zeros(2, 1, 1), torch.tensor([0, 1]), groups=(0, 1, 0))
        >>> split.same(torch.tensor([2, 2]), split.y)
        tensor([ True, False])
        """
        if self.groups is None:
            return decided == target
        groups = torch.tensor(self.groups)
        return groups[decided] == groups[target]

    def batch(self, index: Tensor | slice) -> Batch:
        """Return `(x, y, lengths)` of the rows at `index`: x float32 or int64 ids, labels int64."""
        x = rows(self.x, index)
        if self.levels is not None:
            x = x.float() / self.levels
        elif not x.is_floating_point():
            x = x.long()
        y = None if self.y is None else rows(self.y, index)
        if y is not None and not y.is_floating_point():
            y = y.long()
        return x, y, None if self.lengths is None else rows(self.lengths, index).long()


def rows(stored: Tensor, index: Tensor | slice) -> Tensor:
    """Return `stored[index]`, by index_select because it is 3 to 12 times faster than `[]`."""
    return stored[index] if isinstance(index, slice) else stored.index_select(0, index)


@dataclass(frozen=True, eq=False)
class Image:
    """The square image that a sequence of pixels represents, and the settings of a drawing pad for it.

    Args:
        side: width and height in pixels.
        box: the larger side of a drawing's bounding box, in pixels, measured between line centres.
        pen: radius of the pen, in pixels.
        by_mass: whether images are centred by their centre of mass instead of their bounding box.
        order: index of the pixel that each step reads; None for row by row.
    """

    side: int
    box: float
    pen: float
    by_mass: bool = False
    order: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class TargetScale:
    """The scale and offset of each standardised target: y = output * scale + offset.

    >>> units = TargetScale(offset=(100.0,), scale=(2.0,))
    >>> units.standard(torch.tensor([[104.0]])), units.values(torch.tensor([[2.0]]))
    (tensor([[2.]]), tensor([[104.]], dtype=torch.float64))
    """

    offset: tuple[float, ...]
    scale: tuple[float, ...]

    def standard(self, values: Tensor) -> Tensor:
        """Return the float32 outputs that represent values `(n, targets)`."""
        offset, scale = (torch.tensor(each, dtype=torch.float64) for each in (self.offset, self.scale))
        return ((values.double() - offset) / scale).float()

    def values(self, outputs: Tensor) -> Tensor:
        """Convert a network's outputs to values in the units of the data, float64."""
        offset, scale = (torch.tensor(each, dtype=torch.float64) for each in (self.offset, self.scale))
        return outputs.double() * scale + offset


@dataclass(frozen=True)
class Preparation:
    """The facts about a task that its model needs, and everything that a loader derived from the data.

    A run stores it, and `load_task` applies it again.

    Args:
        task, metric, seq_length, levels: as in `Splits`.
        fingerprint: SHA-256 of the data as read, before any scaling.
        class_names: class names in the order of the outputs; empty for regression.
        offset, scale: offset and scale of every channel; None if inputs are not standardised.
        members: contents of training, validation and test: sample numbers for an npz file; for recordings,
            flattened row ranges `file, start, stop`. Empty if the task's files determine its parts.
        targets: scale of standardised targets over the training part; None if not standardised.
    """

    task: str
    metric: Metric
    seq_length: Steps
    levels: Steps | None
    fingerprint: str
    class_names: tuple[str, ...]
    offset: tuple[float, ...] | None
    scale: tuple[float, ...] | None
    members: tuple[tuple[int, ...], ...] = ()
    targets: TargetScale | None = None

    def __post_init__(self) -> None:
        pairs: list[Any] = [(self.offset, self.scale)]
        pairs += [] if self.targets is None else [(self.targets.offset, self.targets.scale)]
        for offset, scale in pairs:
            sizes = {len(each) for each in (offset, scale) if each is not None}
            finite = all(math.isfinite(value) for value in (*(offset or ()), *(scale or ())))
            if len(sizes) > 1 or not finite or 0 in (scale or ()):
                raise InputError(
                    "offset and scale must hold equally many finite values, and no scale may be 0."
                )
        for name in self.class_names:
            check_label(name, f"the task {self.task}")

    def check(self, fingerprint: str, source: str | Path) -> None:
        """Refuse data that differ from the data of the preparation."""
        if fingerprint != self.fingerprint:
            raise InputError(
                f"A run is measured on the data it was trained with, and {source} has changed since. Restore "
                "it, or evaluate the new data with: hadamrnn eval RUN FILE."
            )


@dataclass(frozen=True, eq=False)
class Splits:
    """A task in memory: its three splits and what a model needs to know about them.

    Args:
        task: name of the task, one of `task_names()`.
        seq_length: T, number of steps in a (padded) sequence.
        input_size: d_in, the number of dense channels, or of symbols with `one_hot`. For embedded ids it
            is the paper's embedding size, which a model may change.
        output_size: d_out; 1 for the two-class tasks of the paper, with labels 0 and 1 and one logit.
        vocabulary_size: number of ids; None for dense inputs.
        one_hot: whether ids are read as one-hot vectors (copy task) instead of being embedded.
        every_output: whether the outputs of all steps are used, not only the last.
        metric: the metric that evaluation reports.
        class_names: a name for each class (two if `output_size` is 1); empty for regression.
        offset, scale: `(input_size,)` if inputs were standardised as x = (value - offset) / scale, so that
            an integer network can read raw sensor values; float64 if the values were.
        raw_unit: value of one raw code of the sensor, value = code * raw_unit; see `scaling.raw_unit`.
        device_channels: number of channels of one motion sensor, in triples x, y, z; 0 if inputs are not
            such triples.
        note: remark that must accompany every reported figure; may be empty.
        options: the loader's options, completed by it; a run stores these instead of the given ones.
        assumptions: lines that tell the user what was read and decided.
        image: the image that a sequence of pixels represents; None if there is none.
        fingerprint, members, targets: see `Preparation`; `load_task` sets the fingerprint.
        front_end: the front end that computed the inputs from a signal; None if there is none.
    """

    task: str
    train: Split
    validation: Split
    test: Split
    seq_length: int
    input_size: int
    output_size: int
    vocabulary_size: int | None = None
    one_hot: bool = False
    every_output: bool = False
    metric: Metric = "accuracy"
    class_names: tuple[str, ...] = ()
    offset: Tensor | None = None
    scale: Tensor | None = None
    raw_unit: float | None = None
    device_channels: int = 0
    note: str = ""
    options: dict[str, object] = field(default_factory=dict)
    assumptions: tuple[str, ...] = ()
    image: Image | None = None
    fingerprint: str = ""
    members: tuple[tuple[int, ...], ...] = ()
    targets: TargetScale | None = None
    front_end: FrontEnd | None = None

    @property
    def preparation(self) -> Preparation:
        """Everything derived from the data; pass it to `load_task` to load the same task again."""
        offset, scale = (None if each is None else tuple(each.tolist()) for each in (self.offset, self.scale))
        facts = (self.task, self.metric, self.seq_length, self.levels, self.fingerprint, self.class_names)
        return Preparation(*facts, offset, scale, self.members, self.targets)

    @property
    def levels(self) -> int | None:
        """The code that means 1.0, if raw inputs are codes 0, 1, ..., levels; otherwise None."""
        return self.train.levels


def file_fingerprint(paths: Sequence[Path]) -> str:
    """Return the SHA-256 of the files' content and, for several files, their names below a common folder."""
    root = os.path.commonpath(paths)
    digest = hashlib.sha256()
    for path in paths:
        with path.open("rb") as file:
            content = hashlib.file_digest(file, "sha256").hexdigest()
        digest.update(f"{content} {path.relative_to(root).as_posix()}\n".encode())
    return digest.hexdigest()


def joint_fingerprint(each: Sequence[str]) -> str:
    """Return the joint fingerprint of several sources of data; a single source keeps its own."""
    return each[0] if len(each) == 1 else hashlib.sha256(" ".join(each).encode()).hexdigest()


def content_fingerprint(splits: Splits) -> str:
    """Return the SHA-256 of a task's labels, names and inputs.

    For standardised inputs, the loader provides the fingerprint of the raw values, because the last bits of
    standardised values depend on the order of summation.
    """
    digest = hashlib.sha256(repr((splits.task, splits.class_names, splits.fingerprint)).encode())
    for part in (splits.train, splits.validation, splits.test):
        digest.update(repr(tuple(part.x.shape)).encode())
        for tensor in (part.y, part.lengths, part.x):
            if tensor is not None and not (splits.fingerprint and tensor.is_floating_point()):
                digest.update(tensor.contiguous().numpy().data)
    return digest.hexdigest()


def in_parts(task: str, parts: Iterable[Split], **facts: Any) -> Splits:
    """Return a task with the three parts training, validation and test.

    `facts` are fields of `Splits`; missing sizes are taken from `train.x` and the number of classes.
    """
    train, validation, test = parts
    sizes = {
        "seq_length": train.x.shape[1],
        "input_size": train.x.shape[-1],
        "output_size": len(facts.get("class_names", ())),
    }
    return Splits(task, train, validation, test, **{**sizes, **facts})
