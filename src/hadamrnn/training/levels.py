"""Choose how far training shifts the levels of channels. Start at `decide_offset`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from hadamrnn.data.splits import Splits
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.evaluate import show_metric
from hadamrnn.training.loop import Watcher, fit
from hadamrnn.training.models import build

OFFSETS = (1.0, 0.25)  # standard deviations of a channel, the largest first


def decide_offset(
    config: TrainingConfig,
    splits: Splits,
    watcher: Watcher | None = None,
    stop: Callable[[], bool] = lambda: False,
) -> TrainingConfig:
    """Return the configuration with the largest offset that validates at least as well as smaller ones.

    Large offsets help at loads absent from training, unless levels alone distinguish classes. A
    network is trained with each offset, until one makes no error.
    """
    if config.channel_offset is not None:
        return config
    chosen, least = replace(config, channel_offset=OFFSETS[0]), float("inf")
    for offset in OFFSETS:
        tried = replace(config, channel_offset=offset)
        metric = fit(build(tried, splits), splits, tried, stop=stop).best_metric
        if metric is None or stop():
            break
        error = 1 - metric if splits.metric == "accuracy" else metric
        if error < least:
            chosen, least = tried, error
        if watcher is not None:
            shown = show_metric(splits.metric, metric)
            watcher.remark(f"levels      random offsets of {offset:g} in training: validation {shown}")
        if error == 0:
            break
    return chosen
