"""`hadamrnn bench training --model all`: time a training step of each kind of network against HadamRNN's.

All have the same hidden size, batch and number of threads, and take turns in one process. A row's ratio is
its median divided by HadamRNN's. Start at `run_models`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median

from hadamrnn import packages
from hadamrnn.architecture import Architecture
from hadamrnn.errors import check_name
from hadamrnn.network import HADAMRNN, architecture
from hadamrnn_benchmarks.training import Workload, make_batch, make_step, milliseconds, torch_threads

# The fields that the task sets in any network.
TASK_FIELDS = ("input_size", "output_size", "input_kind", "vocabulary_size", "padding_id", "every_output")


@dataclass(frozen=True)
class ModelRow:
    """The figures of one kind of network; `ratio` is the time of its step divided by HadamRNN's."""

    model: str
    shape: str
    ratio: float
    milliseconds: float
    hidden_size: int
    rounds: int
    threads: int


def run_models(
    names: Sequence[str],
    shape: Workload,
    *,
    hidden_size: int,
    rounds: int,
    threads: int,
    data_dir: Path | None = None,
) -> list[ModelRow]:
    """Measure the kinds of network in `names` ("all" for every kind) on a shape's batch, HadamRNN first."""
    known = (HADAMRNN, *packages.names(packages.NETWORKS))
    chosen = known if "all" in names else tuple(dict.fromkeys((HADAMRNN, *names)))
    for name in chosen:
        check_name("model", name, ("all", *known))
    x, target = make_batch(shape, data_dir)
    with torch_threads(threads):
        steps = {}
        for name in chosen:
            network = kind_network(name, shape.network, hidden_size)
            steps[name] = make_step(replace(shape, network=network), "engine", x, target)
            steps[name]()  # the first step includes initialisation
        times = [{name: milliseconds(step) for name, step in steps.items()} for _ in range(rounds)]
    medians = {name: median(one[name] for one in times) for name in chosen}
    return [
        ModelRow(
            name, shape.name, medians[name] / medians[HADAMRNN], medians[name], hidden_size, rounds, threads
        )
        for name in chosen
    ]


def kind_network(name: str, shaped: Architecture, hidden_size: int) -> Architecture:
    """Return a network of this kind for the task of `shaped`, with the kind's default bits.

    >>> from hadamrnn.network import Network
    >>> kind_network("qornn", Network(1, 512, 10, num_blocks=32), 128).weight_bits
    8
    """
    if name == HADAMRNN:
        return replace(shaped, hidden_size=hidden_size)
    task = {field: getattr(shaped, field) for field in TASK_FIELDS}
    return architecture(name)(hidden_size=hidden_size, **task)
