"""Our own rows: smaller and larger networks than the paper trained, and baselines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hadamrnn.paper.rows import ADDED, INTEGER_BITS, Row, Setup, Table, competitor, hadam, setup, trained
from hadamrnn.training.config import resolve_config

# The lowest layer reads every pixel, the next one means of 4 steps, the last one means of 16. Blocks of 8
# units that forget slowly want fine states over 784 steps: 12 bits lose 8.5 points, 14 a tenth of one.
SMNIST_STACK: dict[str, Any] = {
    "hidden_size": 64,
    "num_layers": 3,
    "weight_bits": 3,
    "num_blocks": 8,
    "leak": (1, 2, 3, 4, 5, 6),
    "readouts": ("mean", "max"),
    "normalize": True,
    "stride": 4,
}
# One layer more, the lowest of half the width, and no b_i, which the normalisation above takes away again.
SMNIST_DEEP = SMNIST_STACK | {
    "layer_sizes": (32, 64, 64, 64),
    "stride": 3,
    "input_bias": False,
}
# Pixels in a drawn order have no neighbours: every layer must remember long, and is read at the end as well.
PMNIST_STACK: dict[str, Any] = {
    "layer_sizes": (64, 128, 128),
    "weight_bits": 3,
    "num_blocks": 8,
    "leak": (3, 4, 5, 6, 7, 8, 9, 0),
    "readouts": ("last", "mean", "max"),
    "normalize": True,
    "skip": True,
    "stride": 2,
}


def _ours(task: str, hidden_size: int, bits: int, num_blocks: int = 1, *, input_bias: bool = True) -> Row:
    row = hadam(setup(task, hidden_size, bits, num_blocks, input_bias=input_bias), "", INTEGER_BITS)
    return row if input_bias else replace(row, model=f"{row.model} without b_i")


def _stack(
    task: str,
    task_options: dict[str, Any] | None = None,
    bits: int = INTEGER_BITS,
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4),
    **settings: Any,
) -> Row:
    """Return the network of the task's preset `best`, or one that differs from it by `settings`.

    Args:
        bits: of the integer network's states.
    """
    config = resolve_config(task, preset="best", overrides=settings)
    network = replace(config.network, activation_bits=bits)
    name = f"{network.num_layers} layers that forget, {' and '.join(network.readouts)}"
    name += ", skips" if network.skip else ""
    name += "" if network.input_bias else ", without b_i"
    added = tuple(name for name in ADDED.get(task, {}) if config.task_options.get(name))
    name += "".join(f", {ADDED[task][option].words}" for option in added)
    name += ", people swapped" if task_options else ""
    chosen = Setup(task, network, task_options=task_options or {}, added=added)
    return hadam(chosen, "", bits, model=name, seeds=seeds)


BEYOND = Table(
    "beyond",
    "Past the paper: larger and smaller networks",
    "",
    "not in the paper",
    (
        _ours("copy", 64, 4),
        _ours("copy", 128, 3),
        _ours("copy", 128, 3, input_bias=False),
        _ours("copy", 128, 4, input_bias=False),
        _ours("pmnist", 256, 4),
        _ours("pmnist", 256, 6),
        _ours("pmnist", 512, 2, input_bias=False),
        _ours("pmnist", 512, 4, input_bias=False),
        _ours("pmnist", 704, 2),
        _ours("pmnist", 1024, 2, input_bias=False),
        _ours("pmnist", 1024, 4),
        _ours("pmnist", 2048, 2, input_bias=False),
        _ours("pmnist", 2048, 4),
        _ours("pmnist", 5120, 2, input_bias=False),
        _stack("pmnist", bits=16, seeds=(0,), **PMNIST_STACK),
        _ours("smnist", 256, 4),
        _ours("smnist", 256, 6),
        _ours("smnist", 512, 2, input_bias=False),
        _ours("smnist", 704, 2),
        _ours("smnist", 1024, 2, input_bias=False),
        _ours("smnist", 1024, 4),
        _ours("smnist", 2048, 2, input_bias=False),
        _ours("smnist", 2048, 4),
        _ours("smnist", 5120, 2, input_bias=False),
        _stack("smnist", bits=16, **SMNIST_STACK),
        _stack("smnist", bits=16, **SMNIST_DEEP),
        _ours("imdb", 32, 2),
        _ours("imdb", 64, 2),
        _ours("imdb", 128, 4),
        _ours("imdb", 256, 4),
        _ours("sst2", 32, 2),
        _ours("sst2", 64, 2),
        _ours("har2", 256, 4, num_blocks=2),
        _ours("har2", 256, 8, num_blocks=2),
        _ours("har2", 2048, 2, num_blocks=16, input_bias=False),
        _stack("har2"),
        _stack("har6"),
        _stack("google12"),
        _stack("google12", hidden_size=64, num_layers=3, weight_bits=3, skip=True, input_bias=False),
        competitor("google12", "FastGRNN", "Kusupati et al. 2018", "92.10", "5.5"),
        _stack("dsa19"),
        _stack("dsa19", {"swap": True}),
    ),
    note="The aim for MNIST was 98.5 % (permuted) and 98.6 % (sequential) under 15 kB; one layer has "
    "neither. A linear recurrence read once is a layer of random features: U shapes their spectrum, V alone "
    "learns classes, and doubling the units gains about half a point. So many units of 2 bits go further "
    "than few of 4, and b_i, 12 bits a unit, is worth more units. Tried with 2048 units: 20 and 60 epochs, 5 "
    "to 20 % of the pixels hidden, images shifted by a pixel. Layers that forget learn more than that, "
    "where neighbouring pixels follow each other, and four of them more than three. Of pixels in a drawn "
    "order three layers that remember long learn the training images by heart, and stay behind one layer.",
)


BASELINES = Table(
    "baselines",
    "Smaller baselines trained here",
    "",
    "not in the paper",
    (
        trained(competitor("smnist", "LSTM", "", "", "", 64, "FP FP")),
        trained(competitor("smnist", "FastGRNN", "", "", "", 64, "8 8")),
        trained(competitor("har2", "LSTM", "", "", "", 80, "FP FP")),
    ),
    note="Competitors that were trained here at the printed size stand in the paper's own tables. The others "
    "take long: by preset best, on one thread of an AMD EPYC, 1.2 hours (LSTM 80, copy task; 0.9 s a step), "
    "2 hours (ORNN and QORNN 256, copy task; 1.4 s), 3 hours (FastGRNN 170, sequential MNIST; 1.4 s) and "
    "8 hours (LSTM 170, permuted MNIST; 3.6 s). HadamRNN takes 3 minutes on the copy task (0.04 s a step).",
)
