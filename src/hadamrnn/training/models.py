"""From a configuration and a task to a network. Start at `build`."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import torch

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.hadamard.orders import order_factors
from hadamrnn.network import Network
from hadamrnn.nn.build import build_model
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.stack import HadamStack
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.draws import Draws

THRESHOLD_SAMPLES = 64  # of the training part; thresholds are quantiles of their states
CONTAINER_LIMIT = Path("/sys/fs/cgroup/memory.max")
UNKNOWN = 8 * 2**30  # assumed if the system does not say


def task_network(config: TrainingConfig, splits: Splits) -> Network:
    """Return the configuration's network with the inputs and outputs of the task."""
    embedded = splits.vocabulary_size is not None and not splits.one_hot
    if config.embedding_size is not None and not embedded:
        raise InputError(f"The task {splits.task} has no embedding: leave embedding_size out.")
    return replace(
        config.network,
        input_size=config.embedding_size or splits.input_size,
        output_size=splits.output_size,
        input_kind="one_hot" if splits.one_hot else "embedded" if embedded else "dense",
        vocabulary_size=splits.vocabulary_size if embedded else None,
        padding_id=0 if embedded else None,
        every_output=splits.every_output,
    )


def build(config: TrainingConfig, splits: Splits) -> SequenceModel:
    """Return the network that a run starts from; its weights depend only on the configuration's seed."""
    network = task_network(config, splits)
    needed = weight_bytes(network) + batch_bytes(network, config, splits)
    present = memory_bytes()
    if needed > present:
        raise InputError(
            f"Training must fit into {present / 2**30:.1f} GB of memory, but it needs about "
            f"{needed / 2**30:,.1f} GB. Choose a smaller hidden_size, num_layers or batch_size."
        )
    with Draws(config.seed):
        model = build_model(network)
        if config.negative_signs is not None:
            if not isinstance(model.recurrent, HadamStack):
                raise InputError(f"A {network.model} has no signs: leave negative_signs out.")
            for index in range(len(model.recurrent.cells)):
                model.recurrent.cell(index).draw_signs(config.negative_signs)
    if model.embedding is not None:
        with torch.no_grad():
            model.embedding.weight.mul_(config.embedding_scale)
    elif config.embedding_scale != 1.0:
        raise InputError(f"The task {config.task} has no embedding: leave embedding_scale out.")
    if config.network.thresholds:
        x, _, lengths = splits.train.batch(slice(0, THRESHOLD_SAMPLES))
        model.set_thresholds(x, lengths)
    return model


def weight_bytes(network: Network) -> int:
    """Return the bytes that training needs for the weights, their gradient and Adam's two averages.

    The network is built on torch's meta device, where tensors have a shape but no memory. A Paley or
    Williamson factor of W is kept as a matrix.
    """
    if network.model == "ornn":  # torch's parametrization needs real tensors; an rnn has the same sizes
        network = replace(network, model="rnn", recurrence="linear", model_options={})
    with torch.device("meta"):
        model = build_model(network)
    largest = max(order_factors(network.block_size), default=1) if network.is_hadamard else 0
    return 16 * sum(parameter.numel() for parameter in model.parameters()) + 8 * largest**2


def batch_bytes(network: Network, config: TrainingConfig, splits: Splits) -> int:
    """Return what a batch takes: inputs, targets and outputs; of a baseline also its states."""
    steps = min(config.batch_size, len(splits.train)) * splits.seq_length
    numbers = 2 if network.takes_ids else network.input_size
    numbers += 3 * network.output_size if network.every_output else 0
    numbers += 0 if network.is_hadamard else 4 * network.hidden_size * network.cells
    return 8 * steps * numbers


def memory_bytes() -> int:
    """Return the memory of this machine, or of its container if that allows less."""
    try:
        machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        machine = UNKNOWN
    try:
        return min(machine, int(CONTAINER_LIMIT.read_text()))
    except (OSError, ValueError):  # no container, or one without a limit
        return machine
