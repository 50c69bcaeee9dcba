"""Google-12: ten spoken keywords, silence and other words (Speech Commands v0.01), as log filterbanks.

A clip of one second is 99 frames (25 ms, every 10 ms) of 32 mel filters, as in FastGRNN's Google-12.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from hadamrnn.data.files import DataFile, fetch
from hadamrnn.data.scaling import standardised
from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import PAPER_SENSORS, STACK, Task, Values

STEP, OFFSET = 0.5, 8.0  # a code k means k / 2 - 8, in nats
WORDS = ("silence", "unknown", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
FILES = {
    "train": DataFile(
        paths=("speech_commands/google12_train.npz",),
        home="https://arxiv.org/abs/1804.03209",
        sha256="7a0f9915c3daa95350f29b0b6320edba44ae98e37caffe6d9b1ea87859ef4708",
        obtain="no public file: compute 99 frames of 32 log mel filters from Speech Commands v0.01",
    ),
    "held_out": DataFile(
        paths=("speech_commands/google12_valtest.npz",),
        home="https://arxiv.org/abs/1804.03209",
        sha256="41497f0673cf6fa5b300f3b737a16c684d73076b9cca3e4ec78e7a94fb0b1783",
        obtain="no public file: compute 99 frames of 32 log mel filters from Speech Commands v0.01",
    ),
}


def load_google12(data_dir: str | Path | None = None) -> Splits:
    """Return Google-12 with the published validation list and the canonical test set, by speaker.

    Filters are standardised with the statistics of the training part.
    """
    train, held_out = (fetch(FILES[name], data_dir) for name in ("train", "held_out"))
    parts = (read_part(train, ""), read_part(held_out, "_val"), read_part(held_out, "_test"))
    return standardised("google12", parts, class_names=WORDS)


def read_part(path: Path, suffix: str) -> Split:
    """Return log filterbanks `(n, 99, 32)` and labels of one part of a file."""
    with np.load(path) as arrays:
        codes, labels = arrays[f"x{suffix}"], arrays[f"y{suffix}"].astype(np.int64)
    frames = torch.from_numpy(np.ascontiguousarray(codes.transpose(0, 2, 1)))
    return Split(frames.float() * STEP - OFFSET, torch.from_numpy(labels))


# Words begin earlier or later in their second.
SHIFTED: Values = {**STACK, "stride": 2, "time_shift": 8, "weight_average": 0.998}
GOOGLE12 = Task(
    load_google12,
    {
        "paper": {**PAPER_SENSORS, "num_blocks": 16},
        "quick": {**SHIFTED, "hidden_size": 64, "num_layers": 2, "epochs": 6},
        "best": {**SHIFTED, "layer_sizes": (64, 128, 128), "epochs": 12},
    },
    "ten spoken keywords, silence, other words",
    FILES,
)
