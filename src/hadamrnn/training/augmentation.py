"""Augment training inputs by random changes. Start at `augment`.

All random numbers come from the step's generator, so a resumed run sees the same inputs. Validation and test
inputs are never changed.
"""

from __future__ import annotations

import math

import torch
from torch import Generator, Tensor, nn

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.training.config import TrainingConfig

# Settings that change numeric inputs and do not apply to ids.
OF_NUMBERS = (
    "input_noise",
    "time_shift",
    "time_mask",
    "channel_mask",
    "channel_gain",
    "channel_offset",
    "level_offset",
    "rotation",
)


def check_suited(config: TrainingConfig, splits: Splits) -> None:
    """Refuse settings that have no effect on this task or kind of network."""
    task, has_ids = f"the task {splits.task}", splits.vocabulary_size is not None
    reasons = {}
    if not has_ids or splits.one_hot:
        reasons = dict.fromkeys(("embedding_size", "embedding_scale"), f"{task} has no embedding")
    if has_ids:
        reasons |= dict.fromkeys(OF_NUMBERS, f"it changes numbers, and {task} has ids")
    if splits.one_hot:
        reasons["input_dropout"] = f"it hides numbers or embedded words, and the ids of {task} are one-hot"
    if has_ids or splits.metric != "accuracy" or splits.train.lengths is not None:
        reasons["class_mixing"] = f"it mixes numbers of one length and one class, and {task} has others"
    if not splits.device_channels:
        reasons["rotation"] = f"it turns sensors, and {task} does not say which channels are the axes of one"
    if not isinstance(config.network, Network):
        reasons["negative_signs"] = f"a {config.network.kind} has no signs"
    for name, reason in reasons.items():
        if getattr(config, name) != getattr(TrainingConfig, name):
            raise InputError(f"{name} has no effect here: {reason}. Leave it out.")


def augment(
    x: Tensor,
    config: TrainingConfig,
    splits: Splits,
    generator: Generator,
    lengths: Tensor | None = None,
    classes: Tensor | None = None,
) -> Tensor:
    """Augment a batch of numbers `(batch, time, channels)` or ids `(batch, time)`.

    Masked words become padding. Numbers are changed independently in each row:

        x_t,c -> gain_c x_(t-s),c + offset_c + level + noise_t,c,
        then 0 in a band of steps and in a band of channels

    Before that, each device is rotated about its own axis, and each row is mixed with another row of its
    class.
    """
    share = config.input_dropout
    if not x.is_floating_point():
        return x.masked_fill(torch.rand(x.shape, generator=generator) < share, 0) if share else x
    rows, _, channels = x.shape
    if config.rotation:
        x = _turned(x, config.rotation, splits, generator)
    if config.class_mixing and classes is not None:
        x = _mixed(x, classes, config.class_mixing, generator)
    if config.time_shift:
        x = _shifted(x, lengths, config.time_shift, generator)
    if config.channel_gain:
        x = x * (config.channel_gain * _normal((rows, 1, channels), x, generator)).exp()
    if config.channel_offset:
        x = x + config.channel_offset * _normal((rows, 1, channels), x, generator)
    if config.level_offset:
        x = x + config.level_offset * _normal((rows, 1, 1), x, generator)
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


def _turned(x: Tensor, degrees: float, splits: Splits, generator: Generator) -> Tensor:
    """Rotate the sensors of each row as if worn differently, with one rotation for all vectors of a device.

        v -> exp(angle [axis]_x) v,   with a normal angle of this standard deviation and a uniform axis

    Vectors are triples of channels in the sensor's own units, so standardisation is undone first.
    """
    assert splits.offset is not None and splits.scale is not None
    offset, scale = splits.offset.to(x), splits.scale.to(x)
    devices = x.shape[-1] // splits.device_channels
    axis = nn.functional.normalize(_normal((len(x), devices, 3), x, generator), dim=-1)
    angle = math.radians(degrees) * _normal((len(x), devices, 1), x, generator)
    basis = torch.eye(3, dtype=x.dtype).expand(len(x), devices, 3, 3)
    turns = torch.linalg.matrix_exp(torch.linalg.cross((angle * axis)[:, :, None, :].expand_as(basis), basis))
    vectors = (x * scale + offset).reshape(*x.shape[:2], devices, -1, 3)
    turned = torch.einsum("ntdvi,ndij->ntdvj", vectors, turns)
    return (turned.reshape(x.shape) - offset) / scale


def _mixed(x: Tensor, classes: Tensor, largest: float, generator: Generator) -> Tensor:
    """Mix each row with another of its class, x -> x + share (other - x), share uniform up to `largest`.

    Two random orders of the rows, both sorted by class, pair every row with a row of its class.
    """
    rows, other = len(x), torch.empty(len(x), dtype=torch.int64)
    first, second = (
        (classes + torch.rand(rows, generator=generator, dtype=torch.float64)).argsort() for _ in range(2)
    )
    other[first] = second
    share = largest * torch.rand((rows, 1, 1), generator=generator, dtype=x.dtype)
    return x + share * (x[other] - x)


def _shifted(x: Tensor, lengths: Tensor | None, largest: int, generator: Generator) -> Tensor:
    """Shift every row in time by at most `largest` steps, filling the gap with its first or last step.

    The last step is the last valid step, so no padding moves into a row.
    """
    shift = torch.randint(-largest, largest + 1, (len(x), 1), generator=generator)
    steps = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
    last = (steps[:, None] - 1).clamp(min=0)
    source = (torch.arange(x.shape[1]) - shift).clamp(min=0).minimum(last)
    return x.gather(1, source[:, :, None].expand_as(x))


def _band(x: Tensor, dim: int, widest: int, generator: Generator) -> Tensor:
    """Return a mask with one band per row along `dim`, 0 to `widest` wide, at a random position."""
    size = x.shape[dim]
    width = torch.randint(0, min(widest, size) + 1, (len(x), 1), generator=generator)
    start = (torch.rand(len(x), 1, generator=generator) * (size - width + 1)).long()
    position = torch.arange(size)
    inside = (position >= start) & (position < start + width)
    return inside[:, :, None] if dim == 1 else inside[:, None, :]
