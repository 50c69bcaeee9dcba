"""A row of a table: a setup that can be run, and what the paper printed for it.

A `Setup` is a network and a task. Several rows may share one: the 4-bit HadamRNN on pMNIST is in four
tables, and its 12-bit activations are another row of the same training run.
Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hadamrnn.bits import WeightBits
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.network import BEYOND_PAPER, Network
from hadamrnn_paper.baselines.cost import baseline_size

INTEGER_BITS = 12  # of a setup's integer network, unless the setup names others


@dataclass(frozen=True)
class Added:
    """What an option of a task adds to the inputs and outputs that it has in the paper."""

    words: str
    channels: int = 0
    outputs: int = 0


FINE = Added("fine channels", channels=12)
# Presets may set them.
ADDED = {
    "har2": {"fine": FINE, "activities": Added("by activity", outputs=5)},
    "har6": {"fine": FINE},
}


@dataclass(frozen=True)
class Task:
    """A task as the paper states it.

    Args:
        epochs: of the paper's training; None where it gives no number.
        baseline: cross-entropy of guessing, at and above which a row is "BL".
        note: shown with every table of this task.
        own_split: the paper does not name its split; ours is named beside its figures, which are compared.
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

    def network(self, network: Network, options: Mapping[str, Any] | None = None) -> Network:
        """Return the network with the inputs and outputs that this task has with these options."""
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
        added: options of `ADDED` that the task has; without them its inputs and outputs are the paper's,
            whatever the preset says.

    >>> setup("pmnist", 512, 4, num_blocks=8).key
    'pmnist-512-4bit-q8'
    >>> setup("har6", 64, 4, 8, num_layers=2, leak=(1, 2), readouts=("mean", "max"), normalize=True).key
    'har6-64x64-4bit-q8-k1.2-mean-max-normalize'
    """

    task: str
    network: Network
    learning_rate: float | None = None
    task_options: dict[str, Any] = field(default_factory=dict, hash=False)
    added: tuple[str, ...] = ()

    @cached_property
    def key(self) -> str:
        """The name of this setup in files and on the command line."""
        network, bits = self.network, self.network.weight_bits
        parts = [self.task, *([] if network.is_hadamard else [network.model])]
        parts += ["x".join(map(str, network.widths))]
        parts.append(f"{bits}bit" if isinstance(bits, int) else bits or "fp")
        parts += [f"q{network.num_blocks}"] if network.num_blocks > 1 else []
        parts += [network.recurrence] if network.recurrence != "linear" else []
        parts += ["columns"] if network.column_switches else []
        parts += ["k" + ".".join(map(str, network.leak))] if network.leak else []
        parts += network.readouts if network.is_pooled else []
        parts += [f"t{network.thresholds}"] if network.thresholds else []
        parts += [name for name in ("normalize", "skip") if getattr(network, name)]
        parts += [f"s{network.stride}"] if network.stride > 1 else []
        parts += [] if network.input_bias else ["unbiased"]
        parts += [name if value is True else f"{name}{value}" for name, value in self.task_options.items()]
        parts += [f"lr{self.learning_rate:g}"] if self.learning_rate is not None else []
        return "-".join(parts)

    @property
    def title(self) -> str:
        """The network in words.

        >>> setup("har6", 64, 4, 8, num_layers=2, leak=(1, 2), readouts=("mean", "max"), normalize=True).title
        '2 layers of 64 units that forget, 4 bits'
        >>> setup("imdb", 512, 4, recurrence="relu", input_bias=False).title
        '512 units, 4 bits, ReLU recurrence, without b_i'
        """
        network, bits = self.network, self.network.weight_bits
        widths = network.widths[:1] if len(set(network.widths)) == 1 else network.widths
        layers = f"{network.num_layers} layers of " if network.num_layers > 1 else ""
        units = f"{layers}{', '.join(map(str, widths))} units{' that forget' if network.leak else ''}"
        parts = [units if network.is_hadamard else f"{network.model} of {units}"]
        parts.append(f"{bits} bits" if isinstance(bits, int) else bits or "float")
        parts += [f"{network.num_blocks} blocks"] if network.num_blocks > 1 and not network.leak else []
        parts += ["ReLU recurrence"] if network.recurrence == "relu" else []
        parts += ["row and column switches"] if network.column_switches else []
        parts += [] if network.input_bias else ["without b_i"]
        parts += [ADDED[self.task][name].words for name in self.added]
        parts += [name if value is True else f"{name} {value}" for name, value in self.task_options.items()]
        parts += [f"rate {self.learning_rate:g}"] if self.learning_rate is not None else []
        return ", ".join(parts)

    @property
    def integer_bits(self) -> int:
        """The bits of states and biases in the integer network that is measured."""
        return self.network.activation_bits or INTEGER_BITS

    @property
    def settings(self) -> dict[str, Any]:
        """What to change in a preset. The preset says whether b_i is learnt, unless the setup has no b_i."""
        network = self.network
        names = ["hidden_size", "weight_bits", "model"]
        if network.is_hadamard:
            names += ["num_blocks", "recurrence", "switches", "num_layers", *BEYOND_PAPER]
        names += [] if network.input_bias else ["input_bias"]
        settings: dict[str, Any] = {name: getattr(network, name) for name in names}
        if self.learning_rate is not None:
            settings["learning_rate"] = self.learning_rate
        if self.options:
            settings["task_options"] = self.options
        return settings

    @property
    def options(self) -> dict[str, Any]:
        """The task's options; those of `ADDED` are always there, true or false."""
        added = {name: name in self.added for name in ADDED.get(self.task, {})}
        return {**added, **self.task_options}

    def kilobytes(
        self, task: Task, activation_bits: int | None = None, config: Mapping[str, Any] | None = None
    ) -> float:
        """Return the size by the rule that the paper's tables follow for this kind of network.

        Args:
            config: of a run: which options the task had, and whether b_i was learnt. The paper's networks
                learn it.
        """
        options = self.options if config is None else config.get("task_options", {})
        network = task.network(self.network, options)
        if not network.is_hadamard:
            return baseline_size(network).kilobytes
        input_bias = network.input_bias if config is None else config.get("input_bias", True)
        return network_size(
            replace(network, activation_bits=activation_bits, input_bias=input_bias)
        ).kilobytes


def setup(
    task: str,
    hidden_size: int,
    weight_bits: WeightBits = 4,
    num_blocks: int = 1,
    *,
    learning_rate: float | None = None,
    **fields: Any,
) -> Setup:
    """Return a setup by the fields of its network that the tables name."""
    network = Network(hidden_size=hidden_size, weight_bits=weight_bits, num_blocks=num_blocks, **fields)
    return Setup(task, network, learning_rate)


@dataclass(frozen=True)
class Row:
    """One row. The paper's figures are text as printed; empty if there is none.

    Args:
        table, task: their names.
        model: as the paper calls it.
        published: performance: accuracy in percent, cross-entropy, or BL (failed to learn).
        setup: what to run; None for a row that is published only.
        activation_bits: of the integer network whose figure is measured, mostly 12; None for floats.
        hidden_size, recurrent_bits, weight_bits, activations, kilobytes: the row's other cells.
        additions: of W h, in a step.
        minutes: of the paper's training, where its table has them.
        deviation: over the seeds.
        seeds: runs that make the row.
        source: who published a baseline's figure.
        misprint: the printed size is not what the paper's own rule gives; `note` says more.
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
        """The name of its setup; None for a row that is published only."""
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
    """A table of the paper, or one of ours.

    Args:
        name: on the command line.
        label: in the paper's source; empty for a table of ours.
        where: number and section.
    """

    name: str
    title: str
    label: str
    where: str
    rows: tuple[Row, ...]
    note: str = ""
