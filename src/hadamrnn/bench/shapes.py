"""Networks of a given shape with drawn weights: what a step costs does not depend on their values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from hadamrnn.fixedpoint.model import IntegerModel, WeightBits, signed_range


@dataclass(frozen=True)
class Shape:
    """A network's sizes; one block and 12-bit states unless said otherwise."""

    name: str
    hidden_size: int
    input_size: int
    output_size: int
    num_blocks: int = 1
    input_kind: Literal["dense", "one_hot"] = "dense"
    weight_bits: WeightBits = 4
    activation_bits: int = 12


SHAPES = (
    Shape("copy 128", 128, 10, 9, input_kind="one_hot"),
    Shape("128, one channel", 128, 1, 10),
    Shape("HAR 128, nine channels", 128, 9, 2),
    Shape("pMNIST 512", 512, 1, 10),
    Shape("1024 in two blocks", 1024, 1, 10, num_blocks=2),
)


def draw_model(shape: Shape, seed: int = 0) -> IntegerModel:
    """Return an integer network of `shape` whose states neither vanish nor mostly saturate."""
    rng = np.random.default_rng(seed)
    hidden, bits, activation = shape.hidden_size, shape.weight_bits, shape.activation_bits
    input_bits = 2 if shape.input_kind == "one_hot" else 9
    hidden_shift = 2
    low, high = (-1, 1) if bits == "ternary" else signed_range(bits)
    frac_bits = 0 if bits == "ternary" else bits - 1
    return IntegerModel(
        hidden_size=hidden,
        block_size=hidden // shape.num_blocks,
        input_size=shape.input_size,
        output_size=shape.output_size,
        weight_bits=bits,
        activation_bits=activation,
        input_bits=input_bits,
        recurrence="linear",
        every_output=False,
        input_kind=shape.input_kind,
        signs=rng.choice([-1, 1], hidden).astype(np.int8),
        input_weight_int=rng.integers(low, high + 1, (hidden, shape.input_size), np.int8),
        input_bias_int=rng.integers(-64, 65, hidden, np.int16),
        output_weight_int=rng.integers(low, high + 1, (shape.output_size, hidden), np.int8),
        output_bias_int=rng.integers(-64, 65, shape.output_size, np.int16),
        hidden_shift=hidden_shift,
        accumulator_frac_bits=max(activation - hidden_shift, frac_bits + input_bits - 1),
        input_bias_shift=0,
        output_bias_shift=0,
        input_scale=1.0,
        logit_scale=1.0,
        metadata={"task": shape.name},
    )
