"""What `fit` adds to the trainer: its loss, the curve of losses, and its threads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from threadpoolctl import threadpool_limits
from torch import Tensor

from hadamrnn.data.splits import Metric, Split
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.evaluate import predict_logits
from hadamrnn.training.objective import Objective
from hadamrnn.training.progress import MetricsRow, Watcher

Loss = Callable[[Tensor, Tensor], Tensor]


class SeriesObjective(Objective):
    """Minimises `loss`, a mean over samples, and judges weights by the same loss of held-out samples."""

    def __init__(self, model: SequenceModel, loss: Loss) -> None:
        super().__init__(model)
        self._loss = loss

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        return self._loss(self.model(x, lengths), target)

    def score(self, model: SequenceModel, split: Split, metric: Metric) -> float:
        assert split.y is not None
        return float(self._loss(predict_logits(model, split), split.y))


class Curve(Watcher):
    """Keeps the loss of every step, and passes everything on to another watcher."""

    def __init__(self, shown: Watcher) -> None:
        self._shown = shown
        self.losses: list[float] = []

    def start(self, step: int, total_steps: int, epochs: float, metric: Metric) -> None:
        self._shown.start(step, total_steps, epochs, metric)

    def advance(self, step: int, loss: float) -> None:
        self.losses.append(loss)
        self._shown.advance(step, loss)

    def row(self, row: MetricsRow, best: bool) -> None:
        self._shown.row(row, best)

    def close(self) -> None:
        self._shown.close()


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Let torch use this many threads when called from this thread; other threads keep their number."""
    torch.get_num_threads()  # the first call in a thread sets its number, so it must come before
    with threadpool_limits(count, user_api="openmp"):
        yield
