"""From a user's arrays to labels or values, by a model and the facts of its task."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.npz import check_inputs
from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.evaluate import decide, predict_logits
from hadamrnn.training.folder import TaskFacts


def prepare_arrays(
    arrays: dict[str, NDArray[np.generic]], model: SequenceModel, facts: TaskFacts, path: str | Path
) -> Split:
    """Return the arrays `x` and `lengths` as a split without labels, scaled as in training.

    standardised tasks:   x = (raw - offset) / scale
    whole-numbered codes: x = code / levels, if the array holds integers
    """
    if model.takes_ids:
        return Split(_check_ids(arrays, path), None)
    x, lengths = check_inputs(arrays, path)
    expected = int(torch.as_tensor(model.recurrent.input_size))
    if x.shape[2] != expected:
        raise InputError(f"x must have {expected} channels, as in training, got {x.shape[2]} in {path}.")
    if facts.offset is not None and facts.scale is not None:
        x = (x - torch.tensor(facts.offset)) / torch.tensor(facts.scale)
    elif facts.levels is not None and arrays["x"].dtype.kind in "iu":
        x = x / facts.levels
    return Split(x, None, lengths)


def predict(model: SequenceModel, split: Split, facts: TaskFacts) -> tuple[Tensor, Tensor]:
    """Return the predictions, class numbers or values, and the logits behind them."""
    logits = predict_logits(model, split)
    return (logits if facts.metric == "mse" else decide(logits)), logits


def named(prediction: Tensor, facts: TaskFacts) -> list[Any]:
    """Return predictions as people read them: class names, or numbers for regression."""

    def name(value: Any) -> Any:
        if isinstance(value, list):
            return [name(part) for part in value]
        return facts.class_names[value] if facts.class_names else value

    return [name(value) for value in prediction.tolist()]


def _check_ids(arrays: dict[str, NDArray[np.generic]], path: str | Path) -> Tensor:
    if "x" not in arrays:
        raise InputError(f"{path} must hold an array x of ids, got {', '.join(sorted(arrays)) or 'none'}.")
    ids = arrays["x"]
    if ids.ndim != 2 or ids.dtype.kind not in "iu" or 0 in ids.shape:
        raise InputError(f"x must be integer ids (n, time), got {ids.dtype} of shape {ids.shape} in {path}.")
    return torch.from_numpy(ids.astype(np.int64))
