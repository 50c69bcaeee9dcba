"""Quantization-aware fine-tuning: the forward pass runs in integers, the gradient passes straight through.

    y = f(theta) + stop(f_int(theta) - f(theta))

The value of y is exactly the integer network's logits, its gradient the float network's. For a linear
recurrence that is the straight-through gradient of every rounding at every step, because rounding counts
as the identity and W does not change. Signs are held; U, V, the biases and an embedding move.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.nn.loss import target_loss
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.network import IntegerNetwork

Lower = Callable[[SequenceModel], IntegerModel]
Batches = Iterator[tuple[Tensor, Tensor, Tensor | None]]


@dataclass(frozen=True)
class FinetuneConfig:
    """How long and how fast. Adam, its rate falling linearly to zero."""

    steps: int = 200
    learning_rate: float = 1e-3
    evaluate_every: int = 50

    def __post_init__(self) -> None:
        if self.steps < 1 or self.evaluate_every < 1 or not self.learning_rate > 0:
            raise InputError(f"Fine-tuning needs positive steps, intervals and rates, got {self}.")


def finetune(
    model: SequenceModel,
    lower: Lower,
    batches: Batches,
    score: Callable[[IntegerModel], float],
    config: FinetuneConfig | None = None,
) -> SequenceModel:
    """Return a copy of `model` that does better in integers, or an equal one: it is never worse.

    Args:
        model: the trained float network; it stays as it is.
        lower: makes the integer network of a float one, with a fixed calibration.
        batches: training batches `(x, target, lengths)`, as many as there are steps.
        score: of an integer network on validation data; higher is better.
    """
    config = config or FinetuneConfig()
    tuned = copy.deepcopy(model).train()
    best_score, best_state = score(lower(tuned)), copy.deepcopy(tuned.state_dict())
    parameters = [parameter for name, parameter in tuned.named_parameters() if "latent" not in name]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=config.steps)
    for step, (x, target, lengths) in zip(range(1, config.steps + 1), batches, strict=False):
        optimizer.zero_grad()
        target_loss(integer_logits(tuned, lower(tuned), x, lengths), target).backward()
        optimizer.step()
        schedule.step()
        if step % config.evaluate_every == 0 or step == config.steps:
            found = score(lower(tuned))
            if found > best_score:
                best_score, best_state = found, copy.deepcopy(tuned.state_dict())
    tuned.load_state_dict(best_state)
    return tuned.train(model.training)


def integer_logits(
    model: SequenceModel, integer: IntegerModel, x: Tensor, lengths: Tensor | None = None
) -> Tensor:
    """Return the logits of `integer`, with the gradient of `model`'s."""
    logits: Tensor = model(x, lengths)
    exact: Tensor = IntegerNetwork(integer)(x, lengths).to(logits.dtype)
    # exact + 0: logits + (exact - logits) would not return exact to the last bit.
    return exact + (logits - logits.detach())
