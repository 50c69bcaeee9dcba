"""Recipes by name and task, from `presets.yaml`, and what few bits or another kind of network change."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from hadamrnn.errors import check_name
from hadamrnn.network import HADAMARD_ONLY, Network

SOURCE = Path(__file__).with_name("presets.yaml")
PRESETS = ("paper", "best", "quick")
DEFAULT_PRESET = "quick"

Values = dict[str, Any]


def preset_values(task: str, preset: str) -> Values:
    """Return the values of a preset for a task.

    >>> preset_values("copy", "paper")["learning_rate"]
    0.0001
    """
    check_name("A preset", preset, PRESETS)
    recipes = read_recipes()[preset]
    tasks = [name for name in recipes if name != "*"]
    check_name("A task", task, tasks)
    return {**recipes["*"], **recipes[task]}


@cache
def read_recipes() -> dict[str, dict[str, Values]]:
    """Return the recipes of every preset by task; `*` holds what all recipes of a preset share."""
    import yaml

    recipes: dict[str, dict[str, Values]] = yaml.safe_load(SOURCE.read_text(encoding="utf-8"))
    return {preset: recipes[preset] for preset in PRESETS}


# The grid spans the largest weight. With few points and one large weight, most others round to zero.
# pMNIST, 512 units, 2 bits, validation after 8 epochs: 90.7 % without clipping, 94.2 % with it.
FEW_BITS: dict[str, Values] = {
    "ternary": {"weight_clip": 1.5},
    "2": {"weight_clip": 1.5},
    "3": {"weight_clip": 2.0},
}


def bits_values(preset: str, weight_bits: object) -> Values:
    """Return what a recipe changes for weights of few bits; nothing in the paper's recipes.

    >>> bits_values("best", 2), bits_values("best", 4), bits_values("paper", 2)
    ({'weight_clip': 1.5}, {}, {})
    """
    return {} if preset == "paper" else FEW_BITS.get(str(weight_bits), {})


# The recipes are HadamRNN's. A baseline has one layer, no signs, no blocks and its own weight bits, and since
# a step costs d_h^2, a smaller state by default.
BASELINE: Values = {
    "hidden_size": 128,
    "num_layers": 1,
    **{name: getattr(Network, name) for name in HADAMARD_ONLY},
    "negative_signs": None,
    "sign_freeze_epoch": None,
    "weight_bits": None,
    "weight_clip": None,
    "gradient_clip": 1.0,
}
# A learnt W is raised to the power T - 1, so it wants small steps: pMNIST, ORNN of 170 units, preset best,
# validation after 8 epochs: 88.0 % at rate 1e-3, 89.0 % at 3e-4, 86.4 % at 1e-4.
ORTHOGONAL: Values = {**BASELINE, "learning_rate": 3e-4}
MODEL_VALUES: dict[str, Values] = {
    **dict.fromkeys(("lstm", "gru", "rnn", "binary_lstm", "ternary_lstm"), BASELINE),
    "ornn": ORTHOGONAL,
    "qornn": {**ORTHOGONAL, "weight_bits": 8},
    "fastgrnn": {**BASELINE, "weight_bits": 8},
    "quantized_lstm": {**BASELINE, "weight_bits": 4},
    "naive_binary_rnn": {**BASELINE, "weight_bits": 4},
}


def model_values(model: str) -> Values:
    """Return what a recipe changes for a kind of network; nothing for HadamRNN and unknown names.

    >>> model_values("fastgrnn")["weight_bits"], model_values("hadamrnn")
    (8, {})
    """
    return MODEL_VALUES.get(model, {})
