"""The cost of the training loop: a step of `fit` beside forward, backward and Adam alone.

`fit` draws and converts a batch, checks the loss, clips, and counts sign flips. A watcher runs the bare step
after every step of the loop, so both see the same load on the machine. Start at `time_loop`.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from hadamrnn.baselines.networks import build_model
from hadamrnn.data.splits import Metric, Split, Splits
from hadamrnn.network import Network
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.loop import fit
from hadamrnn.training.progress import Watcher

WARM_UP = 3
LEVELS = 255  # dense inputs are stored as MNIST's pixels are
BATCHES = 8  # of the training set


@dataclass(frozen=True)
class LoopTimes:
    """Means over the steps; `share` is (loop - engine) / loop."""

    loop_ms: float
    engine_ms: float
    share: float


class _Turns(Watcher):
    """Times the loop's steps and, between them, `bare` ones."""

    def __init__(self, bare: Callable[[], None]) -> None:
        self._bare = bare
        self.pairs: list[tuple[float, float]] = []

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        self._began = time.perf_counter()

    def advance(self, step: int, loss: float) -> None:
        turn = time.perf_counter()
        self._bare()
        end = time.perf_counter()
        self.pairs.append((1e3 * (turn - self._began), 1e3 * (end - turn)))
        self._began = time.perf_counter()


def time_loop(
    network: Network, x: Tensor, target: Tensor, bare: Callable[[], None], *, steps: int
) -> LoopTimes:
    """Train a network for `steps` steps on batches like `(x, target)`, and time it and `bare` in turns."""
    turns = _Turns(bare)
    total = steps + WARM_UP
    recipe = TrainingConfig(
        task="bench", steps=total, evaluate_every=total, batch_size=len(x), gradient_clip=1.0
    )
    fit(build_model(network), _splits(network, x, target), recipe, watcher=turns)
    pairs = turns.pairs[WARM_UP:]
    # Sums, not medians: a clock with coarse ticks says 0 of many a short step. It has at least a microsecond.
    loop = max(sum(pair[0] for pair in pairs), 1e-3)
    engine = sum(pair[1] for pair in pairs)
    return LoopTimes(loop_ms=loop / len(pairs), engine_ms=engine / len(pairs), share=(loop - engine) / loop)


def _splits(network: Network, x: Tensor, target: Tensor) -> Splits:
    """Return the batch as a task, stored as tasks are."""
    dense = x.is_floating_point()
    stored = (LEVELS * x).to(torch.uint8) if dense else x
    batch = Split(stored, target, levels=LEVELS if dense else None)
    train = Split(torch.cat([stored] * BATCHES), torch.cat([target] * BATCHES), levels=batch.levels)
    return Splits(
        "bench",
        train,
        batch,
        batch,
        x.shape[1],
        network.input_size,
        network.output_size,
        vocabulary_size=network.vocabulary_size,
        one_hot=network.input_kind == "one_hot",
        every_output=network.every_output,
    )
