"""Build the network of a configuration and a task. Start at `build`.

torch draws initial weights and dropout masks from one generator that all threads share. `RandomGenerator`
replaces it, only in the thread that enters the context. So runs in different threads do not influence each
other, and the caller's random stream does not change.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from hadamrnn.architecture import Architecture
from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.training.augmentation import check_suited
from hadamrnn.training.config import TrainingConfig

THRESHOLD_SAMPLES = 64  # training samples whose states determine thresholds, as quantiles


class RandomGenerator(TorchDispatchMode):
    """A context in which torch draws from `generator`; `used` is whether it did.

    The bits are the same as with torch's own generator after `manual_seed(seed)`.

    >>> with RandomGenerator(seed=3):
    ...     first = torch.nn.Linear(2, 2).weight
    >>> generator = torch.manual_seed(3)
    >>> torch.equal(first, torch.nn.Linear(2, 2).weight)
    True
    """

    def __init__(self, seed: int = 0) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.generator = torch.Generator().manual_seed(seed)
        self.used = False

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Skip torch's guard for `torch.compile`, which would import the compiler (3 seconds and 90 MB)."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded in func.tags:
            self.used = True
            names = [argument.name for argument in func._schema.arguments]
            if "generator" not in names:  # true for rand, false for its overload rand.generator
                func = func.overloadpacket.generator
            kwargs = {**kwargs, "generator": self.generator}
        return func(*args, **kwargs)


def task_network(config: TrainingConfig, splits: Splits) -> Architecture:
    """Return the configuration's network with the inputs and outputs of the task."""
    check_suited(config, splits)
    embedded = splits.vocabulary_size is not None and not splits.one_hot
    return replace(
        config.network,
        input_size=config.embedding_size or splits.input_size,
        output_size=splits.output_size,
        input_kind="one_hot" if splits.one_hot else "embedded" if embedded else "dense",
        vocabulary_size=splits.vocabulary_size if embedded else None,
        padding_id=0 if embedded else None,
        every_output=splits.every_output,
        front_end=splits.front_end,
    )


def build(config: TrainingConfig, splits: Splits) -> SequenceModel:
    """Build the initial network of a run, whose weights depend only on the configuration's seed."""
    network = task_network(config, splits)
    if isinstance(network, Network):
        _check_memory(network)
    with RandomGenerator(config.seed):
        model = SequenceModel(network)
        if config.negative_signs is not None:
            for index in range(len(model.hadamard_layers.cells)):
                model.hadamard_layers.cell(index).draw_signs(config.negative_signs)
    if model.embedding is not None:
        with torch.no_grad():
            model.embedding.weight.mul_(config.embedding_scale)
    if model.thresholds is not None:
        x, _, lengths = splits.train.batch(slice(0, THRESHOLD_SAMPLES))
        model.set_thresholds(x, lengths)
    return model


def _check_memory(network: Network) -> None:
    """Refuse weights that, with their gradient and Adam's two averages, do not fit into memory."""
    needed = 16 * network.num_weights
    try:
        present = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):  # the system does not report its memory
        return
    if needed > present:
        raise InputError(
            f"Training must fit into {present / 2**30:.1f} GB of memory, but it needs about "
            f"{needed / 2**30:,.1f} GB. Choose a smaller hidden_size or num_layers."
        )
