"""Evaluate a model's metric over a split.

accuracy        fraction of samples whose predicted class is the label, or in its group
cross_entropy   mean over samples and steps, in float64, because in float32 a gap of 17 in logits gives 0
mse             mean squared error over samples and targets
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hadamrnn.data.splits import Metric, Split, TargetScale
from hadamrnn.nn.interface import evaluating
from hadamrnn.nn.model import SequenceModel
from hadamrnn.settings import check

ROWS_AT_ONCE = 256

# A function from x and lengths to logits. A torch module runs in evaluation mode and in its dtype.
Predictor = Callable[[Tensor, Tensor | None], Tensor]


@dataclass(frozen=True)
class MetricsRow:
    """One row of metrics.jsonl, with the mean `loss` and the number of sign `flips` since the last row."""

    step: int
    epoch: float
    loss: float
    validation_metric: float | None
    flips: int
    learning_rate: float
    seconds: float


def evaluate(model: Predictor, split: Split, metric: Metric) -> float:
    """Return the metric of `model` over all samples of `split`."""
    check("metric", metric, Metric)
    if metric == "cross_entropy" and isinstance(model, nn.Module):
        model = copy.deepcopy(model).double()
    split.check_labelled("A metric")
    total, count = 0.0, 0
    for logits, target in _outputs(model, split):
        assert target is not None
        if metric == "accuracy":
            total += float(split.same(decide(logits), target).sum())
            count += target.numel()
        elif metric == "cross_entropy":
            total += float(
                nn.functional.cross_entropy(logits.flatten(0, -2), target.flatten(), reduction="sum")
            )
            count += target.numel()
        else:
            total += float((logits.double() - target.reshape(logits.shape)).square().sum())
            count += logits.numel()
    return total / count


def predict_logits(model: Predictor, split: Split) -> Tensor:
    """Return the logits of all samples: `(n, output_size)`, or `(n, time, output_size)`."""
    return torch.cat([logits for logits, _ in _outputs(model, split)])


def decide(logits: Tensor) -> Tensor:
    """Return the class of each row of logits: the largest, or for a single logit whether it exceeds 0.

    >>> decide(torch.tensor([[-1.0], [2.0]])), decide(torch.tensor([[0.0, 3.0, 1.0]]))
    (tensor([0, 1]), tensor([1]))
    """
    if logits.shape[-1] == 1:
        return (logits.squeeze(-1) > 0).long()
    return logits.argmax(-1)


def confusion(model: Predictor, split: Split, classes: int) -> Tensor:
    """Return the confusion matrix, counts `(classes, classes)`: rows true, columns predicted."""
    counts = torch.zeros(classes, classes, dtype=torch.int64)
    for logits, target in _outputs(model, split):
        assert target is not None
        pairs = classes * target.flatten() + decide(logits).flatten()
        counts += pairs.bincount(minlength=classes**2).reshape(classes, classes)
    return counts


def accuracy_of(counts: Tensor, split: Split) -> float:
    """Return the accuracy over `split`, given its confusion matrix `counts`."""
    classes = torch.arange(len(counts))
    right = split.same(classes[None, :], classes[:, None])
    return int(counts[right].sum()) / int(counts.sum())


def show_metric(metric: Metric, value: float) -> str:
    """Format a metric as text.

    >>> show_metric("accuracy", 0.9512), show_metric("cross_entropy", 1.64e-7)
    ('accuracy 95.12 %', 'cross_entropy 1.64e-07')
    """
    return f"accuracy {100 * value:.2f} %" if metric == "accuracy" else f"{metric} {value:.4g}"


def is_better(metric: Metric, value: float, than: float | None) -> bool:
    """Return whether `value` beats the best so far: a higher accuracy, or a lower value otherwise."""
    if than is None:
        return True
    return value > than if metric == "accuracy" else value < than


@dataclass(frozen=True)
class Errors:
    """The errors of predicted values: root mean square, mean absolute, and R^2 averaged over targets.

    R^2 is None if a target is constant.
    """

    rmse: float
    mae: float
    r2: float | None

    @property
    def mse(self) -> float:
        return self.rmse**2

    @classmethod
    def of(cls, predicted: Tensor, actual: Tensor) -> Errors:
        """Return the errors of values `(n, targets)`.

        >>> Errors.of(torch.tensor([[1.0], [2.0]]), torch.tensor([[1.0], [3.0]]))
        Errors(rmse=0.7071067811865476, mae=0.5, r2=0.5)
        """
        predicted, actual = (each.double().reshape(len(actual), -1) for each in (predicted, actual))
        squared = (predicted - actual).square().mean(0)
        spread = actual.var(0, correction=0)
        varies = bool((spread > 0).all())
        return cls(
            rmse=float(squared.mean().sqrt()),
            mae=float((predicted - actual).abs().mean()),
            r2=float((1 - squared / spread).mean()) if varies else None,
        )


def value_errors(model: Predictor, split: Split, units: TargetScale | None) -> dict[str, Errors]:
    """Return the errors of a regression and of simple predictors, in the units of the data.

    `constant` predicts the mean of the training targets, which is known if they were standardised.
    `last_value` predicts the target one hop earlier, if the targets form a series.
    """
    assert split.y is not None
    found = {"model": predict_logits(model, split)}
    if units is not None:
        found["constant"] = torch.zeros_like(split.y)
        if split.last is not None:
            found["last_value"] = split.last
    actual = split.y if units is None else units.values(split.y)
    return {
        name: Errors.of(values if units is None else units.values(values), actual)
        for name, values in found.items()
    }


@torch.no_grad()
def _outputs(model: Predictor, split: Split) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield logits and targets by slices of the samples."""
    module = model if isinstance(model, nn.Module) else None
    dtype = torch.float64 if module is None else next(module.parameters()).dtype
    with nullcontext() if module is None else evaluating(module):
        for start in range(0, len(split), ROWS_AT_ONCE):
            x, target, lengths = split.batch(slice(start, start + ROWS_AT_ONCE))
            yield model(x.to(dtype) if x.is_floating_point() else x, lengths), target


class Objective(nn.Module):
    """The model's own loss, and the task's metric over validation data; subclasses may change both."""

    def __init__(self, model: SequenceModel) -> None:
        super().__init__()
        self.model = model  # registered as a submodule, so that data-parallel training finds the parameters

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the mean loss of a batch."""
        return self.model.loss(x, target, lengths)

    def score(self, model: SequenceModel, split: Split, metric: Metric) -> float:
        """Return the metric of `model`, which is the model in training or the average of its weights."""
        return evaluate(model, split, metric)
