"""How the samples of arrays are divided into training, validation and test. Start at `divide_arrays`."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.options import HeldOutFiles
from hadamrnn.data.samples import PARTS, group_parts, stratified_parts
from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError, short


def divide_arrays(
    labels: NDArray[np.int64],
    groups: NDArray[np.generic],
    origin: NDArray[np.int64],
    held_out: HeldOutFiles,
    seed: int,
    grouped: bool,
) -> list[Tensor]:
    """Return the samples of each part. Copies of held-out samples, or of their groups, do not train."""
    own = np.flatnonzero((origin == 0) & ~np.isin(groups, groups[origin > 0]))
    if not any(held_out.shares):
        parts = [torch.arange(len(own)), *[torch.empty(0, dtype=torch.int64)] * 2]
    elif grouped:
        parts = group_parts(groups[own], labels[own], seed, shares=held_out.shares)
    else:
        parts = stratified_parts(labels[own], seed, groups[own], held_out.shares)
    parts = [torch.from_numpy(own)[part] for part in parts]
    for number, part in enumerate(held_out.parts, 1):
        parts[part] = torch.from_numpy(np.flatnonzero(origin == number))
    return parts


def check_training(parts: Sequence[Tensor], labels: NDArray[np.int64], names: Sequence[str]) -> None:
    """Refuse a training part without a sample of some class."""
    for unseen in sorted(set(range(len(names))) - set(labels[parts[0].numpy()].tolist())):
        raise InputError(
            f"Training must see every class, and has no sample of {short(names[unseen])}. "
            "Record it in more groups."
        )


def array_table(splits: Splits, groups: NDArray[np.generic] | None) -> list[str]:
    """Return a small table of what went where, and of which classes a part has no sample."""
    lines = [
        f"parts       {'groups':>6} {'samples':>8}  {'of each class' if splits.class_names else ''}".rstrip()
    ]
    remarks = []
    parts = (splits.train, splits.validation, splits.test)
    for called, part, rows in zip(PARTS, parts, splits.members, strict=True):
        count = "-" if groups is None else str(len(np.unique(groups[list(rows)])))
        shown = ""
        if splits.class_names and part.y is not None:
            counts = part.y.bincount(minlength=len(splits.class_names)).tolist()
            pairs = list(zip(splits.class_names, counts, strict=True))
            shown = ", ".join(f"{name} {count:,}" for name, count in pairs[:10])
            shown += f" and {len(pairs) - 10} more" if len(pairs) > 10 else ""
            absent = [name for name, count in pairs if not count]
            if absent and called != "training":
                remarks.append(f"note: {called} has no sample of {short(', '.join(absent))}")
        lines.append(f"  {called:<10}{count:>6} {len(rows):>8,}  {shown}".rstrip())
    return lines + remarks
