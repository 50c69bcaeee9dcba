"""Random integer models of every shape that C has to hold."""

from __future__ import annotations

from typing import Any, Literal, cast

import numpy as np

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.encoding import raw_encoding
from hadamrnn.fixedpoint.model import IntegerModel, signed_range

InputKind = Literal["dense", "one_hot", "embedded"]
POWERS = (1, 2, 4, 8, 16, 32, 64, 128)
LARGE_FACTORS = (12, 20, 24, 28, 36, 40, 48, 52, 60, 92)


def random_model(rng: np.random.Generator, **fixed: Any) -> IntegerModel:
    """Return a model with every choice drawn, but for those that `fixed` names."""
    while True:
        fields = _draw(rng, fixed)
        try:
            return IntegerModel(**fields)
        except InputError:  # its accumulator could overflow: draw again
            continue


def _draw(rng: np.random.Generator, fixed: dict[str, Any]) -> dict[str, Any]:
    def choose(name: str, *choices: Any) -> Any:
        drawn = choices[rng.integers(len(choices))]
        return fixed.get(name, drawn)

    block = int(choose("block_size", *POWERS, *POWERS, *LARGE_FACTORS))
    hidden = int(fixed.get("hidden_size", block * int(rng.integers(1, 2 + 64 // block))))
    kind = cast(InputKind, choose("input_kind", "dense", "dense", "one_hot", "embedded"))
    inputs = int(choose("input_size", 1, 1, 2, 3, 9))
    outputs = int(choose("output_size", 1, 2, 3, 10))
    weight_bits = choose("weight_bits", "ternary", 2, 3, 4, 4, 5, 6, 7, 8)
    activation = int(choose("activation_bits", 2, 4, 6, 8, 10, 12, 12, 12, 13, 14, 15, 16))
    input_bits = 2 if kind == "one_hot" else int(choose("input_bits", 2, 5, 8, 9, 12, 16))
    frac = 0 if weight_bits == "ternary" else weight_bits - 1
    hidden_shift = int(choose("hidden_shift", 0, 1, 2, 4, 6))
    natural = max(activation - hidden_shift, frac + input_bits - 1)
    lowest = activation - hidden_shift  # state_shift >= 0
    acc_bits = int(rng.integers(lowest, max(natural, lowest) + 1)) if rng.random() < 0.3 else natural
    low, high = (-1, 1) if weight_bits == "ternary" else signed_range(weight_bits)
    weight_scale = bool(fixed.get("reads", rng.random() < 0.9))  # some models read nothing
    bias_low, bias_high = signed_range(activation)
    with_bias = bool(fixed.get("biased", rng.random() < 0.7))
    with_raw = bool(fixed.get("raw", rng.random() < 0.5)) and kind == "dense"
    raw = _raw(rng, inputs, input_bits) if with_raw else {}
    vocabulary = int(rng.integers(1, 12))
    code_low, code_high = signed_range(input_bits)
    return {
        "hidden_size": hidden,
        "block_size": block,
        "input_size": inputs,
        "output_size": outputs,
        "weight_bits": weight_bits,
        "activation_bits": activation,
        "input_bits": input_bits,
        "recurrence": choose("recurrence", "linear", "linear", "relu"),
        "every_output": bool(choose("every_output", False, True)),
        "input_kind": kind,
        "signs": rng.choice([-1, 1], hidden),
        "input_weight_int": rng.integers(low, high + 1, (hidden, inputs)) * weight_scale,
        "input_bias_int": rng.integers(bias_low, bias_high + 1, hidden) * with_bias,
        "output_weight_int": rng.integers(low, high + 1, (outputs, hidden)),
        "output_bias_int": rng.integers(bias_low, bias_high + 1, outputs) * with_bias,
        "hidden_shift": hidden_shift,
        "accumulator_frac_bits": acc_bits,
        "input_bias_shift": int(rng.integers(0, 6)),
        "output_bias_shift": int(rng.integers(0, 8)),
        "input_scale": 1.0,
        "logit_scale": 0.001,
        "column_signs": rng.choice([-1, 1], hidden) if choose("columns", False, False, True) else None,
        "embedding_int": rng.integers(code_low, code_high + 1, (vocabulary, inputs))
        if kind == "embedded"
        else None,
        "metadata": {"task": "random"},
        **raw,
    }


def _raw(rng: np.random.Generator, inputs: int, input_bits: int) -> dict[str, Any]:
    offset, multiplier, shift = raw_encoding(
        np.exp(rng.uniform(-8, 2, inputs)) * rng.choice([-1, 1], inputs),
        rng.integers(-1000, 1000, inputs),
        input_scale=1.0,
        input_bits=input_bits,
    )
    return {"raw_offset": offset, "raw_multiplier": multiplier, "raw_shift": shift}
