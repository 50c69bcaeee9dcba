"""Small random networks of the whole family with inputs, on which engines and exports must agree."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.drawn import draw_integers, draw_model
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from hadamrnn.network import READOUTS, Network

BLOCKS = (1, 2, 4, 8, 16, 12, 20)
TRIES = 1000


def family_network(rng: np.random.Generator, **fixed: Any) -> Network:
    """Return a network with every choice drawn, except the fields in `fixed`."""

    def choose(*choices: Any) -> Any:
        return choices[rng.integers(len(choices))]

    for _ in range(TRIES):
        layers, blocks = int(choose(1, 1, 2, 2, 3)), int(choose(1, 1, 2, 3))
        widths = tuple(int(choose(*BLOCKS)) * blocks for _ in range(layers))
        widths = widths[:1] * layers if rng.random() < 0.4 else widths
        kind = choose("dense", "dense", "one_hot", "embedded")
        every = rng.random() < 0.15
        pooled = tuple(rng.permutation(READOUTS).tolist()[: choose(1, 2, 4)])
        readouts = ("last",) if every or rng.random() < 0.3 else pooled
        counted = {*readouts} & {"mean", "positive"}
        fields = {
            "input_size": widths[0] if kind == "dense" and rng.random() < 0.3 else int(choose(1, 2, 3, 5)),
            "output_size": int(choose(1, 2, 3)),
            "layer_sizes": widths,
            "num_blocks": blocks,
            "weight_bits": choose("ternary", 2, 3, 4, 4, 6, 8),
            "activation_bits": int(choose(4, 8, 10, 12, 12, 12, 14, 16)),
            "recurrence": choose("linear", "linear", "linear", "relu"),
            "input_bias": bool(choose(True, True, False)),
            "leak": choose((), (1,), (3, 1), (0, 2, 5), (15,))[:blocks],
            "readouts": readouts,
            "thresholds": int(choose(0, 1, 3)) if counted else 0,
            "normalize": bool(choose(False, True)),
            "skip": bool(choose(False, True)),
            "stride": 1 if every else int(choose(1, 1, 2, 3)),
            "input_kind": kind,
            "vocabulary_size": 6 if kind == "embedded" else None,
            "every_output": every,
        }
        try:
            return Network(**{**fields, **fixed})
        except InputError as refusal:
            error = refusal
    raise error


def family_model(rng: np.random.Generator, *, extreme: bool = False, **fixed: Any) -> IntegerModel:
    """Return a random model of a random network; `extreme` draws codes from the ends of their ranges."""

    def ends(low: int, high: int, shape: Any) -> Any:
        return np.where(rng.random(shape) < 0.5, low, high)

    for _ in range(TRIES):
        network = family_network(rng, **fixed)
        bits = int(rng.choice([2, 5, 9, 12, 16]))
        try:
            model = draw_integers(network, rng, draw=ends if extreme else None, input_bits=bits)
            return replace(model, output_bias_shift=int(rng.integers(0, 6)), metadata={"task": "random"})
        except InputError as refusal:  # no provable form: draw again
            error = refusal
    raise error


def family_codes(rng: np.random.Generator, model: IntegerModel, batch: int, time: int) -> NDArray[np.int64]:
    """Return inputs `(batch, time, ...)`, the first row at the ends of the range."""
    if model.input_kind != "dense":
        return rng.integers(0, model.vocabulary_size, (batch, time))
    low, high = signed_range(model.input_bits)
    codes = rng.integers(low, high + 1, (batch, time, model.input_size))
    if batch:
        codes[0] = rng.choice([low, high], codes[0].shape)
    return codes


def noisy(steps: int) -> NDArray[np.int16]:
    """Return the beginning of an endless stream for `leaky_model`, `(1, steps, 2)`."""
    return np.random.default_rng(0).integers(-180, 181, (1, steps, 2), dtype=np.int16)


def leaky_model() -> IntegerModel:
    """Return a leaking network whose states never saturate on `noisy` inputs."""
    network = Network(2, 32, 3, num_blocks=4, leak=(1, 2, 3), activation_bits=12, input_bias=False)
    return draw_model(network)
