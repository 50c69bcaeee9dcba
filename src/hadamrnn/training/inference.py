"""Read a user's arrays for a run, and turn logits into labels or values."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.labels import class_numbers
from hadamrnn.data.npz import check_array, check_inputs, check_regression, read_npz, time_first
from hadamrnn.data.recordings import read_like
from hadamrnn.data.scaling import scaled_alike
from hadamrnn.data.splits import Preparation, Split
from hadamrnn.errors import InputError
from hadamrnn.nn.model import SequenceModel
from hadamrnn.settings import check_equal
from hadamrnn.training.evaluate import decide
from hadamrnn.training.folder import RunFolder

Arrays = dict[str, NDArray[np.generic]]


def read_split(
    path: Path, folder: RunFolder, model: SequenceModel, layout: str | None, labelled: bool
) -> tuple[Split, Arrays]:
    """Read a user's new data for a run; return it scaled as in training, and the original arrays.

    Args:
        path: an npz file, or recordings, which are cut into windows as for training.
        layout: layout of x; None for the layout of the run's own data.
        labelled: whether to read y as well.
    """
    arrays = _read_arrays(path, folder, labelled)
    split = _inputs(arrays, model, folder, path, layout)
    return _with_labels(arrays, split, folder.facts, path) if labelled else split, arrays


def _read_arrays(path: Path, folder: RunFolder, labelled: bool) -> Arrays:
    """Return x and, if `labelled`, y; for recordings also a `note`, and `file` and `row` of each window."""
    if folder.config.task != "recordings":
        if path.suffix.lower() != ".npz":
            raise InputError(
                f"This run was trained on {folder.config.task}: FILE must be an npz file, got {path}."
            )
        return read_npz(path)
    windows = read_like(path, folder.config.task_options, labelled)
    arrays: Arrays = {"x": windows.x, "file": windows.files, "row": windows.starts}
    arrays["note"] = np.array(windows.note)
    if windows.last is not None:
        arrays["last"] = windows.last
    return {**arrays, "y": windows.y} if labelled else arrays


def _inputs(arrays: Arrays, model: SequenceModel, folder: RunFolder, path: Path, layout: str | None) -> Split:
    """Return the arrays `x` and `lengths` as a split without labels, scaled as in training.

    standardised tasks:   x = (raw - offset) / scale
    whole-numbered codes: x = code / levels, if the array holds integers
    """
    if model.network.takes_ids:
        return Split(_check_ids(arrays, path), None)
    facts, expected = folder.facts, model.network.input_size
    if facts.task != "recordings":
        arrays = time_first(arrays, layout or folder.config.task_options.get("layout"), path, expected)
    x, lengths = check_inputs(arrays, path)
    check_equal(f"The number of channels in {path}", x.shape[2], expected)
    x = scaled_alike(x, facts)
    if facts.offset is None and facts.levels is not None and arrays["x"].dtype.kind in "iu":
        x = x / facts.levels
    return Split(x.float(), None, lengths, note=str(arrays.get("note", "")))


def _with_labels(arrays: Arrays, split: Split, facts: Preparation, path: Path) -> Split:
    """Return the split with the array `y`: names of the run's classes, or values."""
    if not facts.class_names:
        values, units = check_regression(arrays.get("y"), len(split), path), facts.targets
        if units is None:
            return replace(split, y=values.float())
        check_equal(f"The number of targets in {path}", values.shape[1], len(units.scale))
        last = arrays.get("last")
        before = None if last is None else units.standard(torch.from_numpy(last)[:, None])
        return replace(split, y=units.standard(values), last=before)
    rule = f"{len(split)} labels, integers or strings"
    y = check_array("y", arrays.get("y"), path, rule, "iubUO", (1,), len(split))
    return replace(split, y=class_numbers(y, facts.class_names, path))


def readable(logits: Tensor, facts: Preparation) -> list[Any]:
    """Return predictions in a form for the user: class names, or numbers for a regression."""
    if not facts.class_names:
        units = facts.targets
        return list((logits if units is None else units.values(logits)).tolist())
    return list(np.array(facts.class_names, dtype=object)[decide(logits).numpy()].tolist())


def _check_ids(arrays: Arrays, path: Path) -> Tensor:
    ids = check_array("x", arrays.get("x"), path, "integer ids (n, time)", "iu", (2,))
    if "lengths" in arrays:
        raise InputError(
            f"Rows of ids count whole, got lengths in {path}. Leave them out, and pad on the left with 0."
        )
    return torch.from_numpy(ids.astype(np.int64))
