"""Random changes of the training inputs, so that a network does not learn them by heart. Start at `disturb`.

Every draw comes from the generator of the step, so a resumed run sees the same inputs. Validation and test
inputs are never changed.
"""

from __future__ import annotations

import torch
from torch import Generator, Tensor

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.training.config import TrainingConfig

# Settings that change numbers and mean nothing for ids.
OF_NUMBERS = ("input_noise", "time_shift", "time_mask", "channel_mask", "channel_gain", "channel_offset")


def check_disturbance(config: TrainingConfig, splits: Splits) -> None:
    """Refuse settings that do not suit the task's inputs."""
    if config.input_dropout and splits.one_hot:
        raise InputError(
            f"input_dropout hides numbers or embedded words, and the ids of {splits.task} are one-hot. "
            "Leave it out."
        )
    for name in OF_NUMBERS:
        if getattr(config, name) and splits.vocabulary_size is not None:
            raise InputError(f"{name} changes numbers, and the task {splits.task} has ids. Leave it out.")


def disturb(x: Tensor, config: TrainingConfig, generator: Generator) -> Tensor:
    """Return a batch `(batch, time, channels)` of numbers, or ids `(batch, time)`, as a step sees it.

    Hidden words become padding. Of numbers, each row by its own draw:

        x_t,c -> gain_c x_(t-s),c + offset_c + noise_t,c,   then 0 in a band of steps and one of channels
    """
    share = config.input_dropout
    if not x.is_floating_point():
        return x.masked_fill(torch.rand(x.shape, generator=generator) < share, 0) if share else x
    rows, _, channels = x.shape
    if config.time_shift:
        x = _shifted(x, config.time_shift, generator)
    if config.channel_gain:
        x = x * (config.channel_gain * _normal((rows, 1, channels), x, generator)).exp()
    if config.channel_offset:
        x = x + config.channel_offset * _normal((rows, 1, channels), x, generator)
    if config.input_noise:
        x = x + config.input_noise * _normal(x.shape, x, generator)
    if config.time_mask:
        x = x.masked_fill(_band(x, 1, config.time_mask, generator), 0)
    if config.channel_mask:
        x = x.masked_fill(_band(x, 2, config.channel_mask, generator), 0)
    if share:
        x = x * torch.empty_like(x).bernoulli_(1 - share, generator=generator).div_(1 - share)
    return x


def _normal(shape: tuple[int, ...], like: Tensor, generator: Generator) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=like.dtype)


def _shifted(x: Tensor, largest: int, generator: Generator) -> Tensor:
    """Return every row later or earlier by at most `largest` steps; its first or last step fills the gap."""
    shift = torch.randint(-largest, largest + 1, (len(x), 1), generator=generator)
    source = (torch.arange(x.shape[1]) - shift).clamp(0, x.shape[1] - 1)
    return x.gather(1, source[:, :, None].expand_as(x))


def _band(x: Tensor, dim: int, widest: int, generator: Generator) -> Tensor:
    """Return a mask of one band along `dim` for each row, 0 to `widest` wide, at any place."""
    size = x.shape[dim]
    width = torch.randint(0, min(widest, size) + 1, (len(x), 1), generator=generator)
    start = (torch.rand(len(x), 1, generator=generator) * (size - width + 1)).long()
    position = torch.arange(size)
    inside = (position >= start) & (position < start + width)
    return inside[:, :, None] if dim == 1 else inside[:, None, :]
