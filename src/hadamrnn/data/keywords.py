"""Google-12 from samples: the twelve classes of `google12`, one second at 16 kHz behind the front end.

Of most training clips only log filterbanks in steps of half a nat are known; they become codes of the front
end. The rest of training and the whole test are sound, and their codes are those that a device computes.
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
from hadamrnn.data.speech import FILES as FILTERBANKS
from hadamrnn.data.speech import GOOGLE12, OFFSET, STEP, WORDS
from hadamrnn.data.splits import Split, Splits
from hadamrnn.data.tasks import Task
from hadamrnn.front_end import FrontEnd, compute_bands
from hadamrnn.front_end.description import CODES_PER_OCTAVE

FRONT_END = FrontEnd("mel", rate=16_000, frame=400, hop=160, bands=32)  # the filters of FastGRNN's Google-12
FRAMES = FRONT_END.num_frames(16_000)
CODES_PER_NAT = CODES_PER_OCTAVE / log(2)
FILES = {
    **FILTERBANKS,
    "sound": DataFile(
        paths=("speech_commands/google12_raw.npz",),
        home="https://arxiv.org/abs/1804.03209",
        sha256="3c430193c0f874696034da81a2073d2bd2e7db64ffaa79b382ef7999eda8bacb",
        obtain="no public file: cut clips of Speech Commands v0.01 to a second, as 8-bit mu-law codes",
    ),
}


def load_keywords(data_dir: str | Path | None = None) -> Splits:
    """Return codes of the front end: training by filterbanks and sound, test by sound alone.

    Validation is the published list, by filterbanks; the test's speakers are in no other part.
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

    A step stands for a range of values; one of them is drawn by `seed`.
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
    """Return the codes `(n, 98, 32)` of sound, and labels."""
    with np.load(path) as arrays:
        clips, labels = expand(arrays[f"x{suffix}"]), arrays[f"y{suffix}"].astype(np.int64)
    codes = np.stack([compute_bands(FRONT_END, clip) for clip in clips]).astype(np.float32)
    return torch.from_numpy(codes), torch.from_numpy(labels)


def expand(codes: NDArray[np.uint8]) -> NDArray[np.int16]:
    """Return int16 samples of 8-bit mu-law codes.

    >>> expand(np.array([0, 127, 128, 255], np.uint8)).tolist()
    [-32768, -3, 3, 32767]
    """
    level = np.arange(256) * 2 / 255 - 1
    values = np.rint(np.sign(level) * (256 ** abs(level) - 1) / 255 * 32768)
    table: NDArray[np.int16] = np.clip(values, -32768, 32767).astype(np.int16)
    return table[codes]


KEYWORDS = Task(
    load_keywords,
    GOOGLE12.recipes,
    "google12 from samples at 16 kHz: the network begins with a front end",
    FILES,
)
