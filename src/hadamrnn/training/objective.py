"""What a run minimises, and how its weights are judged."""

from __future__ import annotations

from torch import Tensor, nn

from hadamrnn.data.splits import Metric, Split
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.evaluate import evaluate


class Objective(nn.Module):
    """The model's own loss, and the task's metric over validation data; subclasses may change both.

    Args:
        model: the network in training, a submodule so that processes find its parameters.
    """

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the mean loss of a batch."""
        return self.model.loss(x, target, lengths)

    def score(self, model: SequenceModel, split: Split, metric: Metric) -> float:
        """Return the metric of `model`: the one in training, or the average of its weights."""
        return evaluate(model, split, metric)
