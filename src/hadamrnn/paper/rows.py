"""What a row of a table is: an experiment that can be run, and what the paper printed for it.

An `Experiment` is a network and a task. The same one stands behind several rows: the 4-bit HadamRNN on
pMNIST is in four tables, and its 12-bit activations are another row of the same training run.
Nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hadamrnn.bits import WeightBits
from hadamrnn.fixedpoint.baseline_cost import baseline_size
from hadamrnn.fixedpoint.cost import network_size


@dataclass(frozen=True)
class Task:
    """A task as the paper states it.

    Args:
        epochs: of the paper's training; None where it gives no number.
        hours: of the paper's training, on a GeForce RTX 3080.
        baseline: cross-entropy of guessing, at and above which a row is "BL".
        note: what a reader of any row of this task must know.
    """

    name: str
    title: str
    seq_length: int
    input_size: int
    output_size: int
    metric: str = "accuracy"
    epochs: int | None = None
    hours: float | None = None
    baseline: float | None = None
    vocabulary_size: int | None = None
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A network and its task; a preset supplies the rest.

    >>> Experiment("pmnist", 512, 4, num_blocks=8).key
    'pmnist-512-4bit-q8'
    """

    task: str
    hidden_size: int
    weight_bits: WeightBits = 4
    num_blocks: int = 1
    recurrence: str = "linear"
    switches: str = "rows"
    learning_rate: float | None = None
    model: str = "hadamrnn"
    input_bias: bool | None = None  # whether b_i is learnt; by default what the preset says

    @property
    def key(self) -> str:
        """The name of this experiment in files and on the command line."""
        parts = [self.task, *([] if self.model == "hadamrnn" else [self.model]), str(self.hidden_size)]
        parts.append(
            f"{self.weight_bits}bit" if isinstance(self.weight_bits, int) else self.weight_bits or "fp"
        )
        parts += [f"q{self.num_blocks}"] if self.num_blocks > 1 else []
        parts += [self.recurrence] if self.recurrence != "linear" else []
        parts += ["columns"] if self.switches != "rows" else []
        parts += ["unbiased"] if self.input_bias is False else []
        parts += [f"lr{self.learning_rate:g}"] if self.learning_rate is not None else []
        return "-".join(parts)

    @property
    def settings(self) -> dict[str, Any]:
        """The fields of `TrainingConfig` that make this experiment of a preset."""
        settings: dict[str, Any] = {"hidden_size": self.hidden_size, "weight_bits": self.weight_bits}
        settings["model"] = self.model
        if self.model == "hadamrnn":
            settings |= {"num_blocks": self.num_blocks, "recurrence": self.recurrence}
            settings["switches"] = self.switches
        if self.learning_rate is not None:
            settings["learning_rate"] = self.learning_rate
        if self.input_bias is not None:
            settings["input_bias"] = self.input_bias
        return settings

    def kilobytes(
        self, task: Task, activation_bits: int | None = None, config: Mapping[str, Any] | None = None
    ) -> float:
        """Return the size by the rule that the paper's tables follow for this kind of network.

        Args:
            config: of a run, which says whether b_i was learnt; the paper's networks learn it.
        """
        input_bias = self.input_bias is not False if config is None else config.get("input_bias", True)
        shape = (self.hidden_size, task.input_size, task.output_size)
        if self.model != "hadamrnn":
            return baseline_size(self.model, *shape, weight_bits=self.weight_bits).kilobytes
        return network_size(
            *shape,
            weight_bits=self.weight_bits,
            activation_bits=activation_bits,
            vocabulary_size=task.vocabulary_size,
            column_switches=self.switches != "rows",
            input_bias=input_bias,
        ).kilobytes


@dataclass(frozen=True)
class Row:
    """One row. Figures of the paper are text as printed; empty where it prints none.

    Args:
        task: its name.
        model: as the paper calls it.
        published: performance: accuracy in percent, cross-entropy, or BL (failed to learn).
        experiment: what to run; None for a row that is published only.
        activation_bits: 12 where the measured figure is that of the integer network; None for floats.
        hidden_size, recurrent_bits, weight_bits, activations, kilobytes: the row's other cells.
        additions: of W h, a step.
        minutes: of the paper's training, where its table has them.
        deviation: over the seeds.
        seeds: runs that make the row.
        source: who published a baseline's figure.
        misprint: the printed size is not what the paper's own rule gives; `note` says more.
    """

    task: str
    model: str
    published: str
    experiment: Experiment | None = None
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

    @property
    def value(self) -> float | None:
        """The published figure as a number; None for BL and for rows the paper does not have.

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

    @property
    def experiments(self) -> dict[str, tuple[Experiment, tuple[int, ...]]]:
        """What to run for this table, by key, with its seeds."""
        found: dict[str, tuple[Experiment, tuple[int, ...]]] = {}
        for row in self.rows:
            if row.experiment is not None:
                found[row.experiment.key] = (row.experiment, row.seeds)
        return found
