"""Training on a handful of series: steps rather than epochs, and a stop when the loss stands still.

`hadamrnn.training.loop` is for runs: folders, checkpoints, an accuracy on validation data. A set of forty
series has none to spare and knows class weights, so this loop watches a loss; schedule and order of samples
are the other's. Start at `train_network`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from hadamrnn.data.splits import Split
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import predict_logits
from hadamrnn.training.schedule import Schedule, epoch_order
from hadamrnn.training.trainer import Diverged, sign_parameters

Loss = Callable[[Tensor, Tensor], Tensor]
LOOK_STEPS = 20  # at least, between two looks at the loss: a pass through the data if that is longer


@dataclass(frozen=True)
class Watch:
    """When to stop: after `patience` looks in a row at a loss that did not fall by `tol`; None never stops.

    The loss is that of `held_out` samples, else the mean of the training batches since the last look.
    """

    patience: int | None
    tol: float = 0.0
    held_out: Split | None = None


@dataclass
class Course:
    """How training went: the loss of every step, of every look, and the state of the best."""

    losses: list[float] = field(default_factory=list)
    looks: list[float] = field(default_factory=list)
    best: dict[str, Tensor] = field(default_factory=dict)
    idle: int = 0  # looks since the loss last fell by `tol`

    def note(self, look: float, network: nn.Module, tol: float) -> None:
        previous = min(self.looks, default=math.inf)
        self.idle = 0 if look < previous - tol else self.idle + 1
        if look < previous or not self.best:
            self.best = {name: tensor.detach().clone() for name, tensor in network.state_dict().items()}
        self.looks.append(look)


@contextmanager
def threads(count: int) -> Iterator[None]:
    """Run torch on this many threads: for networks this small a second one only waits for the first."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def train_network(
    network: SequenceModel, train: Split, loss: Loss, config: TrainingConfig, watch: Watch, noise: float
) -> Course:
    """Train `network` in place with Adam and its signs held; return how it went.

    With a patience it ends with the weights of its best look, without one with the last ones.

    Args:
        train: standardised series and their targets.
        loss: of logits and targets, their mean.
        config: steps, rate, decay, batch size, clipping and seed are read.
        watch: when to stop.
        noise: standard deviation of what is added to the standardised inputs, anew in each step.
    """
    schedule = Schedule(config, len(train))
    for latent in sign_parameters(network):
        latent.requires_grad_(False)
    network.train()
    parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)
    course = Course()
    for step, (x, target, lengths) in enumerate(_batches(train, schedule, noise)):
        optimizer.param_groups[0]["lr"] = config.learning_rate * schedule.rate_factor(step)
        value = loss(network(x, lengths), target)
        optimizer.zero_grad()
        value.backward()
        if config.gradient_clip is not None:
            nn.utils.clip_grad_norm_(parameters, config.gradient_clip)
        optimizer.step()
        course.losses.append(value.item())
        if not math.isfinite(course.losses[-1]):
            raise Diverged(f"Training diverged at step {step}. Try a smaller learning_rate.")
        if watch.patience is not None and schedule.ends_row(step + 1):
            recent = course.losses[-schedule.row_steps :]
            look = sum(recent) / len(recent)
            if watch.held_out is not None:
                look = _held_out_loss(network, loss, watch.held_out)
            course.note(look, network, watch.tol)
            if course.idle >= watch.patience:
                break
    if course.best:
        network.load_state_dict(course.best)
    network.eval()
    return course


def _batches(
    train: Split, schedule: Schedule, noise: float
) -> Iterator[tuple[Tensor, Tensor, Tensor | None]]:
    """Yield the samples of every step, with noise on their inputs."""
    seed, size = schedule.config.seed, schedule.batch_size
    generator = torch.Generator().manual_seed(seed)
    for epoch in range(-(-schedule.total_steps // schedule.steps_per_epoch)):
        order = epoch_order(train, seed, epoch, balanced=False)
        left = schedule.total_steps - epoch * schedule.steps_per_epoch
        for position in range(min(left, schedule.steps_per_epoch)):
            x, target, lengths = train.batch(order[position * size : (position + 1) * size])
            assert target is not None
            yield x + noise * torch.randn(x.shape, generator=generator) if noise else x, target, lengths


def _held_out_loss(network: SequenceModel, loss: Loss, samples: Split) -> float:
    assert samples.y is not None
    return float(loss(predict_logits(network, samples), samples.y))
