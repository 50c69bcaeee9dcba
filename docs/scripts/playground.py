"""Write the playground: shipped networks at work in one page, on test data stored beside this script.

python docs/scripts/playground.py PAGE.html          write the page
python docs/scripts/playground.py --draw             select the stored sequences from the data sets again
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from hadamrnn.data.files import fetch
from hadamrnn.data.har import SLOW, STILL
from hadamrnn.data.tasks import load_task
from hadamrnn.export.page import Clip, Stored, drawing_pad, live_network, live_part
from hadamrnn.fixedpoint.encoding import raw_from_inputs
from hadamrnn.models import find
from hadamrnn.pages.document import Document, Live, Section, to_html
from hadamrnn.quantization.chain import input_codes
from hadamrnn_paper.data.keywords import FILES, WORDS, expand
from hadamrnn_paper.data.mnist import pixel_permutation

STORED = Path(__file__).with_name("playground.npz")
EACH, WINDOWS, SENTENCES, CLIPS = 6, 16, 4, 3
PERSON = 302  # windows of the first person of UCI HAR's test set
SIDE, LEVELS, BOX, PEN = 28, 255, 17.5, 1.25
RATE = 50  # readings a second of UCI HAR
MOTION_NETWORK = "motion-6kb"
KEYWORD_NETWORK = "keywords-16kb"
PLAYED = ("yes", "no", "stop")  # words whose first test clip is stored as sound
LEAD = (
    "Five small neural networks run on this page, with the same integers as on a microcontroller. Each reads "
    "its input one step at a time and remembers what it needs in a small memory, so you can watch it decide. "
    "Nothing leaves your computer."
)
SOURCES = (
    "Digits: MNIST by LeCun, Cortes and Burges (CC BY-SA 3.0). Motion: UCI HAR by Reyes-Ortiz et al. (CC BY "
    "4.0). Words: Speech Commands by Warden (CC BY 4.0), as frequency bands, and three as 8-bit sound. All "
    "examples are from test sets: the networks were not trained on them."
)


def draw() -> None:
    """Store the first test digits and clips of each class, and windows of the first test person."""
    digits, keywords = load_task("smnist"), load_task("keywords")
    motion = load_task("har6", left_out=None, fine=True)
    assert digits.test.y is not None and motion.test.y is not None and keywords.test.y is not None
    first = [torch.nonzero(digits.test.y == digit)[:EACH, 0] for digit in range(10)]
    chosen = torch.cat(first).sort().values
    rows = slice(0, PERSON // WINDOWS * WINDOWS, PERSON // WINDOWS)
    codes, _ = input_codes(find(MOTION_NETWORK).load(), motion.test.batch(rows)[0])
    spoken = [torch.nonzero(keywords.test.y == word)[:CLIPS, 0] for word in (*range(2, len(WORDS)), 1, 0)]
    clips = torch.stack(spoken, dim=1).flatten()  # every word once, then every word again
    readings = raw_from_inputs(find(KEYWORD_NETWORK).load(), keywords.test.x[clips].numpy())
    with np.load(fetch(FILES["sound"], None)) as arrays:
        recordings = [arrays["x_test"][arrays["y_test"] == WORDS.index(word)][0] for word in PLAYED]
    np.savez_compressed(
        STORED,
        digits=digits.test.x[chosen, :, 0].numpy(),
        labels=digits.test.y[chosen].numpy(),
        motion=codes.astype(np.int16),
        motion_labels=motion.test.y[rows].numpy(),
        keywords=readings.astype(np.int16),
        keyword_labels=keywords.test.y[clips].numpy(),
        recordings=np.stack(recordings),
    )


def page() -> str:
    """Return the page."""
    networks = (
        digits("smnist", "Row by row", None),
        digits("pmnist", "In a fixed random order", pixel_permutation()),
        word(),
        motion(),
        keywords(),
    )
    sources = Section("sources", "Where the data is from", (SOURCES,))
    return to_html(Document("Playground", (LEAD,), (sources,), live=live_part(*networks)))


def stored() -> dict[str, NDArray[Any]]:
    with np.load(STORED) as arrays:
        return dict(arrays)


def digits(task: str, title: str, order: NDArray[Any] | None) -> Live:
    arrays = stored()
    model = find("digits-4kb" if order is None else "permuted-digits-4kb").load()
    pixels = torch.arange(LEVELS + 1).reshape(-1, 1, 1) / LEVELS
    codes = input_codes(model, pixels)[0].reshape(-1)
    images = arrays["digits"] if order is None else arrays["digits"][:, order]
    about = (
        "Draw a digit, and both networks read it, one pixel per step. This one reads row by row, so "
        "neighbouring pixels arrive soon after one another.",
        "This network reads the same pixels in a random order that never changes. Neighbouring pixels may "
        "arrive hundreds of steps apart, so the network has to remember all of them.",
    )
    return live_network(
        model,
        task,
        title,
        Stored(codes[images][:, :, None], arrays["labels"]),
        paragraphs=(about[task == "pmnist"],),
        pad=drawing_pad(SIDE, codes, BOX, PEN, by_mass=True, order=order),
        together="digits",
    )


def word() -> Live:
    splits = load_task("copy", train_size=1, validation_size=1, test_size=SENTENCES)
    x, y, _ = splits.test.batch(slice(None))
    assert y is not None
    return live_network(
        find("copy-1kb").load(),
        "copy",
        "A word, a thousand steps later",
        Stored(x.numpy(), y.numpy()),
        paragraphs=(
            "Type a word. The network reads two symbols for each letter, waits a thousand empty steps, and "
            "repeats the word when asked. During that time the word exists only in its memory: flip a single "
            "sign and see what is left of it.",
        ),
        classes=("none", *(f"{k}" for k in range(1, 9))),
        word={"example": "hello", "symbols": 10, "delay": 1000, "marker": 9, "base": 8},
    )


def motion() -> Live:
    arrays = stored()
    return live_network(
        find(MOTION_NETWORK).load(),
        "motion",
        "A person in motion",
        Stored(arrays["motion"], arrays["motion_labels"]),
        paragraphs=(
            "Recordings of 2.56 s from a phone worn at the waist: nine channels of acceleration and "
            f"rotation, {RATE} readings per second, and magnified copies of small movements. The network "
            "decides between six activities, from walking to lying down.",
            "On a phone you can use the phone's own sensor instead, if the browser allows it. Wear the phone "
            "at the waist.",
        ),
        sensor={
            "still": STILL,
            "slow": SLOW,
            "rate": RATE,
        },
    )


def keywords() -> Live:
    arrays = stored()
    return live_network(
        find(KEYWORD_NETWORK).load(),
        "keywords",
        "A spoken word",
        Stored(arrays["keywords"], arrays["keyword_labels"], raw=True),
        paragraphs=(
            f"Say one of ten words: {', '.join(WORDS[2:])}. A network of 16 kB listens. It also recognises "
            "silence and other words (unknown). The examples below are spoken by people whose voices were "
            "not used for training.",
        ),
        clips=[
            Clip(expand(sound), WORDS.index(word))
            for word, sound in zip(PLAYED, arrays["recordings"], strict=True)
        ],
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["--draw"]:
        draw()
    else:
        Path(sys.argv[1]).write_text(page(), encoding="utf-8")
