"""Describe a row of a table: a setup to run, and the figures that the paper printed.

A `Setup` is a network and a task. Several rows may share one: the 4-bit HadamRNN for pMNIST is in four
tables, and the row with 12-bit activations uses the same training run.
Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

from hadamrnn.architecture import WeightBits
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.network import Network
from hadamrnn_paper.baselines.cost import baseline_size
from hadamrnn_paper.baselines.networks import KINDS, Baseline

Described = TypeVar("Described", Network, Baseline)
INTEGER_BITS = 12  # bits of states in integer networks, unless the setup says otherwise


@dataclass(frozen=True)
class Added:
    """The extra inputs and outputs that a task's option adds to those in the paper."""

    words: str
    channels: int = 0
    outputs: int = 0


FINE = Added("fine channels", channels=12)
# The settings of a Hadamard network that the setup fixes and presets cannot change.
HADAMARD_NAMES = (
    *("weight_bits", "num_blocks", "recurrence", "switches", "num_layers", "leak", "readouts", "thresholds"),
    *("layer_sizes", "normalize", "skip", "stride"),
)
# Presets may set them.
ADDED = {
    "har2": {"fine": FINE, "activities": Added("by activity", outputs=5)},
    "har6": {"fine": FINE},
}


@dataclass(frozen=True)
class Task:
    """A task as the paper states it.

    Args:
        epochs: number of epochs in the paper; None if it gives none.
        baseline: cross-entropy of guessing; a row at or above it is "BL".
        note: shown with every table of this task.
        own_split: whether the split is ours because the paper does not give its own; the report then says so.
    """

    name: str
    title: str
    seq_length: int
    input_size: int
    output_size: int
    metric: str = "accuracy"
    epochs: int | None = None
    baseline: float | None = None
    vocabulary_size: int | None = None
    note: str = ""
    own_split: bool = False

    def network(self, network: Described, options: Mapping[str, Any] | None = None) -> Described:
        """Return the network with the inputs and outputs of this task and these options."""
        added = [each for name, each in ADDED.get(self.name, {}).items() if (options or {}).get(name)]
        return replace(
            network,
            input_size=self.input_size + sum(each.channels for each in added),
            output_size=self.output_size + sum(each.outputs for each in added),
            vocabulary_size=self.vocabulary_size,
            input_kind="dense" if self.vocabulary_size is None else "embedded",
        )


@dataclass(frozen=True)
class Setup:
    """A network on a task; a preset supplies the rest.

    Args:
        added: enabled options from `ADDED`; without any, the inputs and outputs are the paper's, whatever
            the preset says.

    >>> setup("pmnist", 512, 4, num_blocks=8).key
    'pmnist-512-4bit-q8'
    >>> setup("har6", 64, 4, 8, num_layers=2, leak=(1, 2), readouts=("mean", "max"), normalize=True).key
    'har6-64x64-4bit-q8-k1.2-mean-max-normalize'
    """

    task: str
    network: Network | Baseline
    learning_rate: float | None = None
    task_options: dict[str, Any] = field(default_factory=dict, hash=False)
    added: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The name of this setup, in file names and on the command line."""
        if isinstance(self.network, Network):
            parts = [self.task, *_hadamard_key(self.network)]
        else:
            kind, bits = self.network.kind, self.network.bits
            parts = [self.task, kind, str(self.network.hidden_size), f"{bits}bit" if bits else "fp"]
        parts += [name if value is True else f"{name}{value}" for name, value in self.task_options.items()]
        parts += [f"lr{self.learning_rate:g}"] if self.learning_rate is not None else []
        return "-".join(parts)

    @property
    def title(self) -> str:
        """A description of the network in words.

        >>> setup("har6", 64, 4, 8, num_layers=2, leak=(1, 2), readouts=("mean", "max"), normalize=True).title
        '2 layers of 64 leaky units, 4 bits'
        >>> setup("imdb", 512, 4, recurrence="relu", input_bias=False).title
        '512 units, 4 bits, ReLU recurrence, without b_i'
        """
        network = self.network
        if isinstance(network, Network):
            parts = _hadamard_title(network)
        else:
            bits = f"{network.bits} bits" if network.bits else "float"
            parts = [f"{network.kind} of {network.hidden_size} units", bits]
        parts += [ADDED[self.task][name].words for name in self.added]
        parts += [name if value is True else f"{name} {value}" for name, value in self.task_options.items()]
        parts += [f"rate {self.learning_rate:g}"] if self.learning_rate is not None else []
        return ", ".join(parts)

    @property
    def integer_bits(self) -> int:
        """The bits of states and biases in the measured integer network."""
        chosen = self.network.activation_bits if isinstance(self.network, Network) else None
        return chosen or INTEGER_BITS

    @property
    def settings(self) -> dict[str, Any]:
        """The setup's changes to a preset. The preset decides whether b_i is learnt, if there is a b_i."""
        network = self.network
        settings: dict[str, Any] = {"model": network.kind, "hidden_size": network.hidden_size}
        if isinstance(network, Network):
            names = [*HADAMARD_NAMES, *([] if network.input_bias else ["input_bias"])]
            settings |= {name: getattr(network, name) for name in names}
        elif network.bits is not None:
            settings["weight_bits"] = network.bits
        if self.learning_rate is not None:
            settings["learning_rate"] = self.learning_rate
        if self.options:
            settings["task_options"] = self.options
        return settings

    @property
    def options(self) -> dict[str, Any]:
        """The task's options; those in `ADDED` are always included, true or false."""
        added = {name: name in self.added for name in ADDED.get(self.task, {})}
        return {**added, **self.task_options}

    def kilobytes(
        self, task: Task, activation_bits: int | None = None, config: Mapping[str, Any] | None = None
    ) -> float:
        """Return the size in kilobytes by the rule that the paper's tables use for this kind of network.

        Args:
            config: a run's configuration, for the task's options and whether b_i was learnt. By default it
                is learnt, as in the paper.
        """
        options = self.options if config is None else config.get("task_options", {})
        if isinstance(self.network, Baseline):
            return baseline_size(task.network(self.network, options)).kilobytes
        network = task.network(self.network, options)
        input_bias = network.input_bias if config is None else config.get("input_bias", True)
        return network_size(
            replace(network, activation_bits=activation_bits, input_bias=input_bias)
        ).kilobytes


def _hadamard_key(network: Network) -> list[str]:
    """Return the parts of a key that name a Hadamard network."""
    bits = network.weight_bits
    parts = ["x".join(map(str, network.widths)), f"{bits}bit" if isinstance(bits, int) else bits or "fp"]
    parts += [f"q{network.num_blocks}"] if network.num_blocks > 1 else []
    parts += [network.recurrence] if network.recurrence != "linear" else []
    parts += ["columns"] if network.column_switches else []
    parts += ["k" + ".".join(map(str, network.leak))] if network.leak else []
    parts += network.readouts if network.is_pooled else []
    parts += [f"t{network.thresholds}"] if network.thresholds else []
    parts += [name for name in ("normalize", "skip") if getattr(network, name)]
    parts += [f"s{network.stride}"] if network.stride > 1 else []
    return [*parts, *([] if network.input_bias else ["unbiased"])]


def _hadamard_title(network: Network) -> list[str]:
    """Return the parts of a title that describe a Hadamard network."""
    bits = network.weight_bits
    widths = network.widths[:1] if len(set(network.widths)) == 1 else network.widths
    layers = f"{network.num_layers} layers of " if network.num_layers > 1 else ""
    parts = [f"{layers}{', '.join(map(str, widths))} {'leaky ' if network.leak else ''}units"]
    parts.append(f"{bits} bits" if isinstance(bits, int) else bits or "float")
    parts += [f"{network.num_blocks} blocks"] if network.num_blocks > 1 and not network.leak else []
    parts += ["ReLU recurrence"] if network.recurrence == "relu" else []
    parts += ["row and column switches"] if network.column_switches else []
    return [*parts, *([] if network.input_bias else ["without b_i"])]


def setup(
    task: str,
    hidden_size: int,
    weight_bits: WeightBits = 4,
    num_blocks: int = 1,
    *,
    learning_rate: float | None = None,
    **fields: Any,
) -> Setup:
    """Return the setup of a Hadamard network, from the fields that the tables name."""
    network = Network(hidden_size=hidden_size, weight_bits=weight_bits, num_blocks=num_blocks, **fields)
    return Setup(task, network, learning_rate)


def baseline(task: str, kind: str, hidden_size: int, weight_bits: WeightBits = None) -> Setup:
    """Return the setup of a competitor; pass bits of None for kinds without that choice.

    >>> baseline("pmnist", "qornn", 170, 8).key
    'pmnist-qornn-170-8bit'
    """
    bits: dict[str, Any] = {} if weight_bits is None else {"weight_bits": weight_bits}
    return Setup(task, KINDS[kind](hidden_size=hidden_size, **bits))


@dataclass(frozen=True)
class Row:
    """One row of a table. The paper's figures are text as printed, empty if there is none.

    Args:
        table, task: names of the table and the task.
        model: name of the model in the paper.
        published: performance: accuracy in percent, cross-entropy, or BL (failed to learn).
        setup: what to run; None for a row that is only quoted.
        activation_bits: bits of the measured integer network, mostly 12; None for floats.
        hidden_size, recurrent_bits, weight_bits, activations, kilobytes: the row's other cells.
        additions: additions of W h in a step.
        minutes: minutes of the paper's training, if its table has them.
        deviation: standard deviation over the seeds.
        seeds: seeds of the runs in the row.
        source: publication that a baseline's figure comes from.
        misprint: whether the printed size contradicts the paper's own rule; `note` explains it.
    """

    task: str
    model: str
    published: str
    setup: Setup | None = None
    activation_bits: int | None = None
    hidden_size: int | None = None
    recurrent_bits: str = ""
    weight_bits: str = ""
    activations: str = ""
    kilobytes: str = ""
    additions: int | None = None
    minutes: float | None = None
    deviation: str = ""
    seeds: tuple[int, ...] = (0,)
    source: str = ""
    misprint: bool = False
    note: str = ""
    table: str = ""

    @property
    def key(self) -> str | None:
        """The name of its setup; None for a row that is only quoted."""
        return None if self.setup is None else self.setup.key

    @property
    def value(self) -> float | None:
        """The published figure as a number; None for BL and for rows that are not in the paper.

        >>> Row("copy", "HadamRNN", "1.6e-7").value, Row("copy", "HadamRNN", "BL").value
        (1.6e-07, None)
        """
        return None if self.published in ("", "BL") else float(self.published)


@dataclass(frozen=True)
class Table:
    """A table of the paper, or an additional one.

    Args:
        name: name on the command line.
        label: label in the paper's source; empty for an additional table.
        where: table number and section in the paper.
    """

    name: str
    title: str
    label: str
    where: str
    rows: tuple[Row, ...]
    note: str = ""
