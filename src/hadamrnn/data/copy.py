"""The copy task of Section 4.1: remember K symbols over L blanks, then repeat them.

input   s_1 ... s_K   a_0 (L times)   a_9   a_0 (K - 1 times)      T = L + 2K
target  a_0 (L + K times)                   s_1 ... s_K            s_k uniform in a_1 ... a_8
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from hadamrnn.data.splits import Batch, Split, Splits, in_parts, rows
from hadamrnn.data.tasks import Task
from hadamrnn.settings import Count, Range, Seed, check_int

BLANK, MARKER, SYMBOLS = 0, 9, 10
MOST_SYMBOLS = 500_000_000  # one byte per symbol
Length = Annotated[int, Range(1, 100_000)]


@dataclass(frozen=True, eq=False)
class CopySplit(Split):
    """Store only the symbols, `x` of shape `(n, K)`; `batch` builds the sequences of T = L + 2K steps.

    >>> split = CopySplit(torch.tensor([[3, 8]], dtype=torch.uint8), None, delay=3)
    >>> x, y, _ = split.batch(slice(None))
    >>> x.tolist(), y.tolist()
    ([[3, 8, 0, 0, 0, 9, 0]], [[0, 0, 0, 0, 0, 3, 8]])
    """

    delay: int = field(kw_only=True)

    @property
    def labelled(self) -> bool:
        return True  # the symbols are their own target

    def batch(self, index: Tensor | slice) -> Batch:
        sentence = rows(self.x, index).long()
        count, length = sentence.shape
        x = sentence.new_full((count, self.delay + 2 * length), BLANK)
        y = torch.full_like(x, BLANK)
        x[:, :length] = y[:, -length:] = sentence
        x[:, length + self.delay] = MARKER
        return x, y, None


def load_copy(
    *,
    sentence_length: Length = 10,
    delay: Length = 1000,
    train_size: Count = 512_000,
    validation_size: Count = 2_000,
    test_size: Count = 2_000,
    seed: Seed = 0,
) -> Splits:
    """Generate the copy task; the defaults are the paper's K = 10, L = 1000 and sample counts.

    The same seed gives the same symbols, and each part is independent of the sizes of the others.
    """
    sizes = (train_size, validation_size, test_size)
    check_int("The number of symbols in a part", max(sizes) * sentence_length, 1, MOST_SYMBOLS)

    def draw(part: int, size: int) -> CopySplit:
        # numpy guarantees RandomState's stream, so a seed always gives the same symbols.
        symbols = np.random.RandomState([seed, part]).randint(
            1, MARKER, (size, sentence_length), dtype=np.uint8
        )
        return CopySplit(torch.from_numpy(symbols), None, delay=delay)

    return in_parts(
        "copy",
        (draw(part, size) for part, size in enumerate(sizes)),
        seq_length=delay + 2 * sentence_length,
        input_size=SYMBOLS,
        output_size=MARKER,
        vocabulary_size=SYMBOLS,
        one_hot=True,
        every_output=True,
        metric="cross_entropy",
        class_names=tuple(f"a{symbol}" for symbol in range(MARKER)),
    )


# The loss falls by orders of magnitude, and so does its gradient. With the usual beta2 of 0.999, Adam divides
# by the large gradients of a thousand steps ago and stalls: at delay 150 and with the same seed, 1500 steps
# reach 1.5e-2 (learning rate 1e-3) or 2.5e-4 (1e-2), but 1.3e-8 (1e-2) with 0.95. At delay 1000, 2000 steps
# reach 2.1e-7.
FAST = {"hidden_size": 128, "batch_size": 128, "learning_rate": 0.01, "adam_beta2": 0.95}

COPY = Task(
    load_copy,
    help="repeat random symbols after a delay",
    recipes={
        "paper": {"hidden_size": 128, "epochs": 10, "batch_size": 128, "learning_rate": 0.0001},
        "quick": {**FAST, "steps": 1500, "evaluate_every": 250},
        "best": {**FAST, "steps": 10_000, "evaluate_every": 500},
    },
)
