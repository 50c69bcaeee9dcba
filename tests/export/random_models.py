"""Random integer models of every shape that C must support."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import raw_encoding
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import IntegerModel
from tests.integer_models import integer_model

InputKind = Literal["dense", "one_hot", "embedded"]
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
LARGE_FACTORS = (12, 20, 24, 28, 36, 40, 48, 52, 60, 92)


def random_model(rng: np.random.Generator, **fixed: Any) -> IntegerModel:
    """Return a model with every choice drawn, except those in `fixed`."""
    while True:
        fields = _draw(rng, fixed)
        try:
            return integer_model(**fields)
        except InputError:  # its accumulator could overflow: draw again
            continue


def _draw(rng: np.random.Generator, fixed: dict[str, Any]) -> dict[str, Any]:
    def choose(name: str, *choices: Any) -> Any:
        drawn = choices[rng.integers(len(choices))]
        return fixed.get(name, drawn)

    block = int(choose("block_size", *POWERS, *POWERS, *LARGE_FACTORS))
    hidden = int(fixed.get("hidden_size", block * int(rng.integers(1, 2 + 64 // block))))
    kind = cast(InputKind, choose("input_kind", "dense", "dense", "one_hot", "embedded"))
    weight_bits = choose("weight_bits", "ternary", 2, 3, 4, 4, 5, 6, 7, 8)
    activation = int(choose("activation_bits", 2, 4, 6, 8, 10, 12, 12, 12, 13, 14, 15, 16))
    input_bits = 2 if kind == "one_hot" else int(choose("input_bits", 2, 5, 8, 9, 12, 16))
    frac = 0 if weight_bits == "ternary" else weight_bits - 1
    hidden_shift = int(choose("hidden_shift", 0, 1, 2, 4, 6))
    lowest = activation - hidden_shift  # state_shift >= 0
    natural = max(lowest, frac + input_bits - 1)
    sizes = {
        "hidden_size": hidden,
        "block_size": block,
        "input_size": int(choose("input_size", 1, 1, 2, 3, 9)),
        "output_size": int(choose("output_size", 1, 2, 3, 10)),
        "weight_bits": weight_bits,
        "activation_bits": activation,
        "input_bits": input_bits,
        "recurrence": choose("recurrence", "linear", "linear", "relu"),
        "every_output": bool(choose("every_output", False, True)),
        "input_kind": kind,
        "hidden_shift": hidden_shift,
        # Below the natural shift, U x is shifted right.
        "accumulator_frac_bits": int(rng.integers(lowest, natural + 1)) if rng.random() < 0.3 else natural,
        "input_bias_shift": int(rng.integers(0, 6)),
        "output_bias_shift": int(rng.integers(0, 8)),
        "input_scale": 1.0,
        "logit_scale": 0.001,
        "metadata": {"task": "random"},
    }
    options = {
        "reads": fixed.get("reads", rng.random() < 0.9),  # some models have no input
        "biased": fixed.get("biased", rng.random() < 0.7),
        "raw": fixed.get("raw", rng.random() < 0.5) and kind == "dense",
    }
    return {**sizes, **_arrays(rng, sizes, options)}


def _arrays(rng: np.random.Generator, sizes: dict[str, Any], options: dict[str, Any]) -> dict[str, Any]:
    hidden, inputs, outputs = sizes["hidden_size"], sizes["input_size"], sizes["output_size"]

    def draw(bits: int | str, *shape: int) -> Any:
        low, high = (-1, 1) if isinstance(bits, str) else signed_range(bits)
        return rng.integers(low, high + 1, shape)

    weight_bits, activation_bits = sizes["weight_bits"], sizes["activation_bits"]
    embedded = sizes["input_kind"] == "embedded"
    return {
        "signs": rng.choice([-1, 1], hidden),
        "input_weight_int": draw(weight_bits, hidden, inputs) * bool(options["reads"]),
        "input_bias_int": draw(activation_bits, hidden) if options["biased"] else None,
        "output_weight_int": draw(weight_bits, outputs, hidden),
        "output_bias_int": draw(activation_bits, outputs) * bool(options["biased"]),
        "embedding_int": draw(sizes["input_bits"], int(rng.integers(1, 12)), inputs) if embedded else None,
        **(_raw(rng, inputs, sizes["input_bits"]) if options["raw"] else {}),
    }


def _raw(rng: np.random.Generator, inputs: int, input_bits: int) -> dict[str, Any]:
    offset, multiplier, shift = raw_encoding(
        np.minimum(np.exp(rng.uniform(-8, 2, inputs)), 1.5) * rng.choice([-1, 1], inputs),
        rng.integers(-1000, 1000, inputs),
        input_scale=1.0,
        input_bits=input_bits,
    )
    knee = rng.integers(0, 31, inputs) if rng.random() < 0.5 else None
    return {"raw_offset": offset, "raw_multiplier": multiplier, "raw_shift": shift, "raw_knee": knee}
