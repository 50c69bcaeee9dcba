"""The output of `quantize`: both metrics, the size, and advice if rounding costs too much."""

from __future__ import annotations

from typing import Any

import pytest

from hadamrnn.quantization.results import quantize_lines

FIGURES: dict[str, Any] = {
    **{"metric": "accuracy", "split": "test", "activation_bits": 12, "inputs": "codes", "file": "m"},
    **{"saturations": 3, "input_saturations": 4, "payload_bytes": 2048, "extra_bytes": 0, "header_bytes": 7},
    **{"kilobytes": 2.0, "paper_kilobytes": 1.5},
}


def printed(**figures: Any) -> str:
    return "\n".join(quantize_lines({**FIGURES, **figures}))


@pytest.mark.parametrize(
    ("metric", "exact", "bearable", "spoilt"),
    [
        ("accuracy", 0.9, 0.8971, 0.8969),  # 0.3 points
        ("cross_entropy", 0.5, 1.0, 1.001),  # twice as much
        ("cross_entropy", 1e-9, 3e-7, 3.1e-7),  # next to nothing
    ],
)
def test_advice_is_given_for_losses_beyond_those_of_the_paper(
    metric: str, exact: float, bearable: float, spoilt: float
) -> None:
    assert "advice" not in printed(metric=metric, float=exact, integer=bearable)
    assert "12-bit states cost" in printed(metric=metric, float=exact, integer=spoilt)


@pytest.mark.parametrize(
    ("bits", "more"), [(6, "--activation-bits 8 or "), (15, "--activation-bits 16 or "), (16, "")]
)
def test_advice_offers_two_more_bits_while_there_are_some(bits: int, more: str) -> None:
    text = printed(float=0.9, integer=0.5, activation_bits=bits)
    assert f"cost 40.00 points: try {more}--finetune" in text


def test_the_size_is_that_of_the_file_beside_the_papers() -> None:
    assert "float" not in printed() and "tables" not in printed()
    text = printed(float=0.5, integer=0.5, extra_bytes=512)
    assert "3 states and 4 inputs saturated" in text and "0.50 kB of tables" in text
    assert "2.00 kB (the paper's formula: 1.50 kB)" in text and "header 7 bytes" in text
