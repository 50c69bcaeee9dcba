"""Define the schedule and the optimizer of a run.

The learning rate, whether signs are still trained, the next samples and the seed of dropout depend only on
the step number, so a run can be resumed without its history.

`Adam` is torch's AdamW, computed by numpy in the calling thread only. torch would divide every parameter
among its threads, however small it is. Waking them costs more than the step, and afterwards they spin on
cores that the kernels' own threads need.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.optim.optimizer import ParamsT

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.training.config import TrainingConfig

SETTLED_RATE = 0.1  # relative to the initial rate; at higher rates, differences in loss are mostly noise
# Above this number of elements, torch's threads are faster.
LARGEST = 1 << 16
DTYPES = (torch.float32, torch.float64)  # dtypes that numpy has too

MOMENTS = ("step", "exp_avg", "exp_avg_sq")  # names of the state of Adam


@dataclass(frozen=True)
class Schedule:
    """The schedule of a run over a training set; each process takes `batch_size` samples per step."""

    config: TrainingConfig
    samples: int
    processes: int = 1

    def __post_init__(self) -> None:
        if self.samples < self.processes:
            raise InputError(f"{self.processes} processes need at least one sample each, got {self.samples}.")

    @property
    def batch_size(self) -> int:
        """The number of samples per step over all processes, at most the size of the training set."""
        wanted = self.config.batch_size * self.processes
        return wanted if wanted <= self.samples else self.samples - self.samples % self.processes

    @property
    def steps_per_epoch(self) -> int:
        """The number of whole batches per epoch; the remaining samples are skipped."""
        return self.samples // self.batch_size

    @property
    def total_steps(self) -> int:
        if self.config.steps is not None:
            return self.config.steps
        assert self.config.epochs is not None
        return self.stretch * self.config.epochs * self.steps_per_epoch

    @property
    def stretch(self) -> int:
        """The factor by which `min_steps` multiplies the epochs, and so the steps between validations."""
        if self.config.min_steps is None or self.config.epochs is None:
            return 1
        return math.ceil(self.config.min_steps / (self.config.epochs * self.steps_per_epoch))

    @property
    def row_steps(self) -> int:
        """The number of steps between validations."""
        return self.config.evaluate_every or self.stretch * self.steps_per_epoch

    def ends_row(self, step: int) -> bool:
        """Return whether there is a validation after `step` steps."""
        return step % self.row_steps == 0 or step == self.total_steps

    def row_start(self, step: int) -> int:
        """Return the step at which the row that ends at `step` began."""
        return (step - 1) // self.row_steps * self.row_steps

    def rate_factor(self, step: int) -> float:
        """Return the factor by which learning rates are multiplied.

        exponential: factor^floor(step / steps_per_epoch)     cosine: (1 + cos(pi step / total)) / 2
        """
        if self.config.decay == "cosine":
            return (1 + math.cos(math.pi * step / self.total_steps)) / 2
        if self.config.decay == "exponential":
            return float(self.config.decay_factor ** (step // self.steps_per_epoch))
        return 1.0

    def may_stop(self, step: int) -> bool:
        """Return whether early stopping is active; with a cosine, only once the learning rate has fallen."""
        return self.config.decay != "cosine" or self.rate_factor(step) <= SETTLED_RATE

    def signs_learn(self, step: int) -> bool:
        freeze = self.config.sign_freeze_epoch
        return freeze is None or step < freeze * self.steps_per_epoch

    def dropout_seed(self, step: int, rank: int) -> int:
        return (self.config.seed << 32) + step * self.processes + rank


def epoch_order(split: Split, seed: int, epoch: int, balanced: bool) -> Tensor:
    """Return the order of the samples in an epoch, a function of seed and epoch.

    The order is a permutation or, if `balanced`, sampled with replacement and equally likely classes.
    """
    state = np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)
    generator = torch.Generator().manual_seed(int(state[0]) >> 1)
    if not balanced:
        return torch.randperm(len(split), generator=generator)
    if split.y is None or split.y.dim() != 1 or split.y.is_floating_point():
        raise InputError("balanced draws need one class label per sample. Leave balanced out.")
    labels = split.y.long()
    weights = labels.bincount().double().reciprocal()[labels]
    return torch.multinomial(weights, len(split), replacement=True, generator=generator)


class Adam(torch.optim.AdamW):
    """AdamW with the state of torch.optim.AdamW and, up to rounding, its results; groups set weight decay."""

    def __init__(self, parameters: ParamsT, *, lr: float, betas: tuple[float, float] = (0.9, 0.999)) -> None:
        super().__init__(parameters, lr, betas, weight_decay=0.0, fused=True)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        parameters = [parameter for group in self.param_groups for parameter in group["params"]]
        if not all(map(_is_small, parameters)):
            return super().step(closure)
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        with np.errstate(all="ignore"):  # divergence is detected in the loss
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        _step(parameter, self.state[parameter], group)
        return loss


def _is_small(parameter: Tensor) -> bool:
    known = parameter.device.type == "cpu" and parameter.dtype in DTYPES
    return known and parameter.numel() <= LARGEST


def _step(parameter: nn.Parameter, state: dict[str, Tensor], group: dict[str, Any]) -> None:
    """Update a parameter w by its gradient g, with learning rate r and weight decay d.

    m = b_1 m + (1 - b_1) g,  v = b_2 v + (1 - b_2) g^2
    w = (1 - r d) w - r m / (1 - b_1^t) / (sqrt(v / (1 - b_2^t)) + epsilon)
    """
    if not state:
        moments = {name: torch.zeros_like(parameter) for name in ("exp_avg", "exp_avg_sq")}
        state.update(step=torch.zeros(()), **moments)
    state["step"] += 1
    time, rate, (beta1, beta2) = state["step"].item(), group["lr"], group["betas"]
    assert parameter.grad is not None
    w, g = parameter.numpy(), parameter.grad.numpy()
    m, v = state["exp_avg"].numpy(), state["exp_avg_sq"].numpy()
    m += (1 - beta1) * (g - m)
    v *= beta2
    v += (1 - beta2) * (g * g)
    spread = np.sqrt(v)
    spread /= (1 - beta2**time) ** 0.5
    spread += group["eps"]
    w *= 1 - rate * group["weight_decay"]
    w -= rate / (1 - beta1**time) * (m / spread)


def adam_tensors(optimizer: torch.optim.Adam, model: nn.Module) -> dict[str, dict[str, Tensor]]:
    """Return Adam's state by parameter name, in one group for each moment."""
    states = {name: optimizer.state.get(parameter, {}) for name, parameter in model.named_parameters()}
    return {
        f"adam_{moment}": {name: state[moment] for name, state in states.items() if state}
        for moment in MOMENTS
    }


def restore_adam(
    optimizer: torch.optim.Adam, model: nn.Module, groups: Mapping[str, Mapping[str, Tensor]]
) -> None:
    """Restore the state that `adam_tensors` returned."""
    for name, parameter in model.named_parameters():
        found = {moment: groups.get(f"adam_{moment}", {}).get(name) for moment in MOMENTS}
        state = {moment: tensor for moment, tensor in found.items() if tensor is not None}
        if state:
            optimizer.state[parameter] = state
