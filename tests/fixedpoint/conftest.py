"""Random integer models, edge values included, as a hypothesis strategy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import strategies as st
from numpy.typing import NDArray

from hadamrnn.errors import InputError
from hadamrnn.fixedpoint import IntegerModel
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.fixedpoint.model import WeightBits
from tests.integer_models import integer_model

ModelStrategy = Callable[..., st.SearchStrategy[IntegerModel]]
WEIGHT_BITS: list[WeightBits] = [2, 3, 4, 6, 8, "ternary"]
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 12, 20, 24)


def random_codes(rng: np.random.Generator, low: int, high: int, shape: Any, edge: str) -> NDArray[np.int64]:
    """Return codes in low..high: anywhere, or at an edge of the range."""
    if edge in ("lowest", "highest"):
        return np.full(shape, low if edge == "lowest" else high, np.int64)
    codes: NDArray[np.int64] = rng.integers(low, high + 1, shape)
    return codes if edge == "anywhere" else np.where(codes > (low + high) / 2, high, low)


EDGES = st.sampled_from(["anywhere", "anywhere", "anywhere", "extremes", "lowest", "highest"])


@st.composite
def _integer_models(draw: st.DrawFn, /, **fixed: Any) -> IntegerModel:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    edge = draw(EDGES)
    block_size = draw(st.sampled_from(BLOCK_SIZES))
    hidden = block_size * draw(st.integers(1, 3 if block_size < 16 else 1))
    weight_bits: WeightBits = draw(st.sampled_from(WEIGHT_BITS))
    activation_bits = draw(st.integers(2, 16))
    kind = draw(st.sampled_from(["dense", "one_hot", "embedded"]))
    input_bits = 2 if kind == "one_hot" else draw(st.integers(2, 16))
    inputs, outputs = draw(st.integers(1, 5)), draw(st.integers(1, 4))
    weights = (-1, 1) if weight_bits == "ternary" else signed_range(weight_bits)
    states = signed_range(activation_bits)
    raw = kind == "dense" and draw(st.booleans())
    hidden_shift = draw(st.integers(0, 8))
    product_frac_bits = (0 if weight_bits == "ternary" else weight_bits - 1) + input_bits - 1
    lowered = draw(st.integers(0, 3))
    arguments: dict[str, Any] = {
        "hidden_size": hidden,
        "block_size": block_size,
        "input_size": inputs,
        "output_size": outputs,
        "weight_bits": weight_bits,
        "activation_bits": activation_bits,
        "input_bits": input_bits,
        "recurrence": draw(st.sampled_from(["linear", "relu"])),
        "every_output": draw(st.booleans()),
        "input_kind": kind,
        "signs": rng.choice([-1, 1], hidden),
        "input_weight_int": random_codes(rng, *weights, (hidden, inputs), edge),
        "input_bias_int": random_codes(rng, *states, hidden, draw(EDGES)),
        "output_weight_int": random_codes(rng, *weights, (outputs, hidden), draw(EDGES)),
        "output_bias_int": random_codes(rng, *states, outputs, edge),
        "hidden_shift": hidden_shift,
        "accumulator_frac_bits": max(activation_bits - hidden_shift, product_frac_bits - lowered),
        "input_bias_shift": draw(st.integers(0, 6)),
        "output_bias_shift": draw(st.integers(0, 6)),
        "input_scale": draw(st.floats(0.1, 10)),
        "logit_scale": draw(st.floats(1e-6, 1)),
        "metadata": {"task": "random", "accuracy": 0.5},
    }
    if kind == "embedded":
        rows = draw(st.integers(1, 7))
        arguments["embedding_int"] = random_codes(rng, *signed_range(input_bits), (rows, inputs), edge)
    if raw:
        arguments["raw_offset"] = random_codes(rng, *signed_range(32), inputs, draw(EDGES))
        arguments["raw_multiplier"] = random_codes(rng, -0xFFFF, 0xFFFF, inputs, draw(EDGES))
        arguments["raw_shift"] = random_codes(rng, 0, 46, inputs, draw(EDGES))
        arguments["raw_knee"] = random_codes(rng, 0, 30, inputs, draw(EDGES)) if draw(st.booleans()) else None
    return _lowered_until_proven({**arguments, **fixed})


def _lowered_until_proven(arguments: dict[str, Any]) -> IntegerModel:
    """Reduce the accumulator's precision, then the shifts of the biases, until its bound is proven."""
    lowest = arguments["activation_bits"] - arguments["hidden_shift"]
    while True:
        try:
            return integer_model(**arguments)
        except InputError:
            if arguments["accumulator_frac_bits"] > lowest:
                arguments["accumulator_frac_bits"] -= 1
            else:
                assert arguments["input_bias_shift"] > 0, "a model this small has a provable form"
                arguments["input_bias_shift"] -= 1


@pytest.fixture(scope="session")
def integer_models() -> ModelStrategy:
    """Return the strategy; keyword arguments fix fields on which no other field depends."""
    return _integer_models


@st.composite
def _code_batches(
    draw: st.DrawFn, model: IntegerModel, batch: int | None = None, time: int | None = None
) -> NDArray[np.int64]:
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    shape: tuple[int, ...] = (
        draw(st.integers(0, 3)) if batch is None else batch,
        draw(st.integers(0, 8)) if time is None else time,
    )
    if model.input_kind == "dense":
        bounds = signed_range(model.input_bits)
        return random_codes(rng, *bounds, (*shape, model.input_size), draw(EDGES))
    return random_codes(rng, 0, model.vocabulary_size - 1, shape, draw(EDGES))


@pytest.fixture(scope="session")
def code_batches() -> Callable[..., st.SearchStrategy[NDArray[np.int64]]]:
    """Return the strategy of input batches for a model."""
    return _code_batches
