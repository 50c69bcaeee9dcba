"""Load scikit-learn's 8 x 8 digits, one pixel per step: a task that needs no download."""

from __future__ import annotations

import numpy as np
import torch

from hadamrnn.data.samples import stratified_parts
from hadamrnn.data.splits import Image, Split, Splits, in_parts
from hadamrnn.data.tasks import Task


def load_digits() -> Splits:
    """Return the 1,797 digits as 64-step sequences of one pixel k / 16, k = 0 ... 16."""
    from sklearn.datasets import load_digits as sklearn_digits

    digits = sklearn_digits()
    x = torch.from_numpy(digits.data.astype(np.uint8)).unsqueeze(-1)
    y = torch.from_numpy(digits.target.astype(np.int64))
    parts = (Split(x[rows], y[rows], levels=16) for rows in stratified_parts(digits.target, seed=0))
    image = Image(side=8, box=6.4, pen=0.7)
    return in_parts("digits", parts, class_names=tuple("0123456789"), image=image)


DIGITS = Task(
    load_digits,
    help="scikit-learn's handwritten digits, 8 x 8 pixels; no download",
    recipes={
        "paper": {"hidden_size": 64, "epochs": 60},  # the paper's recipe for MNIST, scaled down
        "quick": {"hidden_size": 64, "epochs": 40, "batch_size": 32, "learning_rate": 0.003},
        "best": {"hidden_size": 128, "epochs": 100, "batch_size": 32, "learning_rate": 0.002},
    },
)
