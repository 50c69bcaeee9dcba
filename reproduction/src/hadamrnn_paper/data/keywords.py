"""Load Google-12: ten spoken keywords, silence and other words (Speech Commands v0.01), one second at 16 kHz.

`google12` is log filterbanks: 99 frames (25 ms, every 10 ms) of 32 mel filters, as in FastGRNN's Google-12.
`keywords` has the same classes as codes of the integer front end. Most training clips are available only as
filterbanks in steps of half a nat, which are converted to such codes. The other training clips and the whole
test set are sound, so their codes are exactly those that a device computes.
"""

from __future__ import annotations

from math import log
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.data.files import DataFile, fetch
from hadamrnn.data.scaling import standardised
from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import PAPER_SENSORS, STACK, Task, Values
from hadamrnn.front_end import CODES_PER_OCTAVE, FrontEnd
from hadamrnn.front_end.reference import compute_bands

FRONT_END = FrontEnd("mel", rate=16_000, frame=400, hop=160, bands=32)  # the filters of FastGRNN's Google-12
FRAMES = FRONT_END.num_frames(16_000)
CODES_PER_NAT = CODES_PER_OCTAVE / log(2)
STEP, OFFSET = 0.5, 8.0  # a code k of the stored filterbanks means k / 2 - 8, in nats
WORDS = ("silence", "unknown", "yes", "no", "up", "down", "left", "right", "on", "off", "stop", "go")
FILTERBANKS = {
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
FILES = {
    **FILTERBANKS,
    "sound": DataFile(
        paths=("speech_commands/google12_raw.npz",),
        home="https://arxiv.org/abs/1804.03209",
        sha256="3c430193c0f874696034da81a2073d2bd2e7db64ffaa79b382ef7999eda8bacb",
        obtain="no public file: cut clips of Speech Commands v0.01 to a second, as 8-bit mu-law codes",
    ),
}


def load_google12(data_dir: str | Path | None = None) -> Splits:
    """Return Google-12 with the published validation list and the canonical test set, by speaker.

    Filters are standardised by the training part's statistics.
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


def load_keywords(data_dir: str | Path | None = None) -> Splits:
    """Return codes of the front end: training from filterbanks and sound, test from sound alone.

    Validation is the published list, from filterbanks; test speakers appear in no other part.
    """
    train, held_out, sound = (fetch(FILES[name], data_dir) for name in ("train", "held_out", "sound"))
    (x, y), (heard_x, heard_y) = read_filterbanks(train, "", seed=0), read_sound(sound, "_train")
    parts = (
        Split(torch.cat((x, heard_x)), torch.cat((y, heard_y))),
        Split(*read_filterbanks(held_out, "_val", seed=1)),
        Split(*read_sound(sound, "_test")),
    )
    return standardised("keywords", parts, class_names=WORDS, front_end=FRONT_END)


def read_filterbanks(path: Path, suffix: str, seed: int) -> tuple[Tensor, Tensor]:
    """Return log filterbanks as codes `(n, 98, 32)`, and labels.

    A stored step covers a range of values, from which one is sampled with `seed`.
    """
    with np.load(path) as arrays:
        stored, labels = arrays[f"x{suffix}"][:, :, :FRAMES], arrays[f"y{suffix}"].astype(np.int64)
    random = np.random.RandomState(seed)
    codes = np.empty((len(stored), FRAMES, FRONT_END.bands), np.float32)
    for clip, row in zip(stored, codes, strict=True):
        values = (clip + random.uniform(-0.5, 0.5, clip.shape)) * STEP - OFFSET
        row[:] = np.maximum(np.rint(CODES_PER_NAT * values), 0).T
    return torch.from_numpy(codes), torch.from_numpy(labels)


def read_sound(path: Path, suffix: str) -> tuple[Tensor, Tensor]:
    """Return codes `(n, 98, 32)` computed from sound, and labels."""
    with np.load(path) as arrays:
        clips, labels = expand(arrays[f"x{suffix}"]), arrays[f"y{suffix}"].astype(np.int64)
    codes = np.stack([compute_bands(FRONT_END, clip) for clip in clips]).astype(np.float32)
    return torch.from_numpy(codes), torch.from_numpy(labels)


def expand(codes: NDArray[np.uint8]) -> NDArray[np.int16]:
    """Expand 8-bit mu-law codes to int16 samples.

    >>> expand(np.array([0, 64, 127, 128, 255], np.uint8)).tolist()
    [-32768, -1905, -3, 3, 32767]
    """
    level = np.arange(256) * 2 / 255 - 1
    values = np.rint(np.sign(level) * (256 ** abs(level) - 1) / 255 * 32768)
    table: NDArray[np.int16] = np.clip(values, -32768, 32767).astype(np.int16)
    return table[codes]


# Shift clips in time: words begin earlier or later within their second.
SHIFTED: Values = {**STACK, "stride": 2, "time_shift": 8, "weight_average": 0.998}
GOOGLE12 = Task(
    load_google12,
    {
        "paper": {**PAPER_SENSORS, "num_blocks": 16},
        "quick": {**SHIFTED, "hidden_size": 64, "num_layers": 2, "epochs": 6},
        "best": {**SHIFTED, "layer_sizes": (64, 128, 128), "epochs": 12},
    },
    "ten spoken keywords, silence, other words",
    FILTERBANKS,
)
KEYWORDS = Task(
    load_keywords,
    GOOGLE12.recipes,
    "google12 from samples at 16 kHz: the network begins with a front end",
    FILES,
)
