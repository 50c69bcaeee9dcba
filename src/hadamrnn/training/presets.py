"""Presets: a task's recipe by name, and what few bits change in it."""

from __future__ import annotations

from typing import Any

from hadamrnn.errors import check_name

Values = dict[str, Any]

# What all recipes of a preset share. Beyond the paper's, signs stay at their random start: one flip changes
# every power of W, and where position matters it undoes what U and V have learnt.
COMMON: dict[str, Values] = {
    "paper": {"decay": "exponential"},
    "best": {"sign_freeze_epoch": 0.0},
    "quick": {"sign_freeze_epoch": 0.0},
}
PRESETS = tuple(COMMON)
DEFAULT_PRESET = "quick"


def preset_values(task: str, preset: str) -> Values:
    """Return the values of a preset for a task; a task without this recipe has that of arrays.

    >>> preset_values("copy", "paper")["learning_rate"]
    0.0001
    """
    from hadamrnn.data.tasks import find_task

    check_name("A preset", preset, PRESETS)
    recipes = find_task(task).recipes
    recipe = recipes[preset] if preset in recipes else find_task("npz").recipes[preset]
    return {**COMMON[preset], **recipe}


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
