"""The demo's table: the same lines on the terminal and on the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hadamrnn.demo.chain import BOARD, DemoResult

Line = tuple[str, str]


def headline(result: DemoResult) -> str:
    return (
        f"handwritten digits, one pixel a step: {result.hidden_size} hidden units, "
        f"{result.weight_bits}-bit weights, {result.activation_bits}-bit states"
    )


def table(result: DemoResult) -> list[Line]:
    """Return labels and values; a value that is missing says what to install."""
    return [
        ("test accuracy, float", _percent(result.float_accuracy)),
        ("test accuracy, integer", _percent(result.integer_accuracy)),
        ("test accuracy, C", _or_missing(result, "c_accuracy", _percent)),
        ("C beside Python", _or_missing(result, "c_test", _verdict)),
        ("weights", f"{result.payload_bytes:,} bytes"),
        ("additions for W h", f"{result.additions_per_step:,} a step, no multiplication"),
        (f"instructions, {BOARD}", _or_missing(result, "instructions_per_step", _count)),
        ("training time", f"{result.training_seconds:.1f} s"),
    ]


def _or_missing(result: DemoResult, name: str, show: Callable[[Any], str]) -> str:
    value = getattr(result, name)
    return result.missing[name] if value is None else show(value)


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _verdict(same: bool) -> str:
    return "the same bits" if same else "DIFFERENT BITS"


def _count(instructions: int) -> str:
    return f"{instructions:,} a step"
