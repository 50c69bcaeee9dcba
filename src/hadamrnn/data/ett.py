"""ETTh1 and ETTh2: forecast the loads and the oil temperature of a transformer, hour by hour.

The split is that of the forecasting papers: 12 months for training, 4 for validation, 4 for testing. The
seven channels are standardised over the training months. All seven are forecast over the horizon from the
previous hours, and the mean squared error is computed on standardised values.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.files import DataFile, fetch, present
from hadamrnn.data.samples import cut_windows, read_numbers
from hadamrnn.data.scaling import standardise
from hadamrnn.data.splits import Split, Splits, in_parts
from hadamrnn.data.tasks import PAPER_SENSORS, Task, Values
from hadamrnn.errors import InputError, check_name
from hadamrnn.settings import Range

CHANNELS = ("HUFL", "HULL", "MUFL", "MULL", "LUFL", "LULL", "OT")
MONTH = 30 * 24
ENDS = (12 * MONTH, 16 * MONTH, 20 * MONTH)
ROWS = 17_420
HOME = "https://github.com/zhouhaoyi/ETDataset"
RAW = "https://raw.githubusercontent.com/zhouhaoyi/ETDataset/main/ETT-small"
SHA256 = {  # checksums of the original file and of its compressed copy
    "ETTh1": (
        "f18de3ad269cef59bb07b5438d79bb3042d3be49bdeecf01c1cd6d29695ee066",
        "f1141f82f9d46968f05afa77ba16abfc4f790fe07583f9de06bb685b29a5411f",
    ),
    "ETTh2": (
        "a3dc2c597b9218c7ce1cd55eb77b283fd459a1d09d753063f944967dd6b9218b",
        "a549927e8cd45bd1c20a8ec51529cd037bf6da38fe37c2ba3dc0e9c8446d6cb5",
    ),
}
FILES = {
    name.lower(): {
        "original": DataFile(
            (f"ett/{name}.csv", f"ETT-small/{name}.csv"), HOME, f"{RAW}/{name}.csv", original
        ),
        "compact": DataFile(
            paths=(f"ett/{name}.csv.gz",),
            home=HOME,
            sha256=compressed,
            obtain="a compressed copy of the original, which is read if this file is missing",
        ),
    }
    for name, (original, compressed) in SHA256.items()
}
Hours = Annotated[int, Range(1, 1440)]


def load_etth1(data_dir: str | Path | None = None, *, look_back: Hours = 336, horizon: Hours = 96) -> Splits:
    """Return ETTh1: `look_back` hours of seven channels, and the following `horizon` hours to forecast."""
    return _load("ETTh1", data_dir, look_back, horizon)


def load_etth2(data_dir: str | Path | None = None, *, look_back: Hours = 336, horizon: Hours = 96) -> Splits:
    """Return ETTh2, in the same form as ETTh1."""
    return _load("ETTh2", data_dir, look_back, horizon)


def _load(name: str, data_dir: str | Path | None, look_back: int, horizon: int) -> Splits:
    raw = torch.from_numpy(read_ett(name, data_dir))
    offset, scale, unit = standardise(raw[None, : ENDS[0]])
    hours = (raw - offset) / scale
    starts = (0, ENDS[0] - look_back, ENDS[1] - look_back)
    return in_parts(
        name.lower(),
        (split(hours[start:end], look_back, horizon) for start, end in zip(starts, ENDS, strict=True)),
        output_size=horizon * len(CHANNELS),
        metric="mse",
        offset=offset,
        scale=scale,
        raw_unit=unit,
        fingerprint=hashlib.sha256(raw.numpy().data).hexdigest(),
    )


def read_ett(name: str, data_dir: str | Path | None = None) -> NDArray[np.float32]:
    """Return ETTh1 or ETTh2 as recorded, `(17420, 7)`: a row per hour, a column per channel in `CHANNELS`."""
    task = str(name).lower()
    check_name("A series of ETT", task, ("etth1", "etth2"))
    files = FILES[task]
    return read_hours(present(files["compact"], data_dir) or fetch(files["original"], data_dir))


def split(hours: Tensor, look_back: int, horizon: int) -> Split:
    """Return all windows of a series `(rows, channels)`, one per hour: the first hours as x, the rest as y.

    >>> part = split(torch.arange(5.0)[:, None], look_back=2, horizon=2)
    >>> part.x.squeeze(-1).tolist(), part.y.tolist()
    ([[0.0, 1.0], [1.0, 2.0]], [[2.0, 3.0], [3.0, 4.0]])
    """
    cut = cut_windows(hours.numpy(), look_back + horizon)
    targets = cut[:, look_back:].reshape(len(cut), -1).copy()
    return Split(torch.from_numpy(cut[:, :look_back].copy()), torch.from_numpy(targets))


def read_hours(path: Path) -> NDArray[np.float32]:
    """Return the seven channels `(17420, 7)` of a csv file, gzipped or not."""
    table = read_numbers(path, ",", skiprows=1, usecols=range(1, 1 + len(CHANNELS)))
    if table.shape != (ROWS, len(CHANNELS)) or not np.isfinite(table).all():
        raise InputError(
            f"{path} must hold {ROWS} rows of {len(CHANNELS)} finite numbers, got {table.shape}."
        )
    return table


RECIPES: dict[str, Values] = {
    "paper": {**PAPER_SENSORS, "num_blocks": 16, "epochs": 20},
    "quick": {"hidden_size": 128, "num_blocks": 16, "epochs": 5},
    "best": {
        "hidden_size": 512,
        "num_blocks": 16,
        "epochs": 10,
        "batch_size": 256,
        "learning_rate": 0.002,
        "weight_average": 0.99,
        "input_dropout": 0.3,
    },
}
ETTH1 = Task(load_etth1, RECIPES, "forecast a transformer's loads and temperature", FILES["etth1"])
ETTH2 = Task(load_etth2, RECIPES, "the same, another transformer", FILES["etth2"])
