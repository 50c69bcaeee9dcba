"""The widths that weights may have, known to both halves of the package."""

from __future__ import annotations

from typing import Annotated

from hadamrnn.settings import OneOf, Range, check

Ternary = Annotated[str, OneOf(("ternary",))]
WeightBits = Annotated[int, Range(2, 16)] | Ternary | None  # None is full precision
IntegerWeightBits = Annotated[int, Range(2, 8)] | Ternary  # of weights that become integers
EXPONENT_BITS = 4  # of a shift that differs from unit to unit
FLOAT_BITS = 32
ACTIVATION_BITS = (2, 16)  # the fewest and the most of states and biases in integers


def stored_bits(weight_bits: WeightBits) -> int:
    """Return the bits one weight takes: 2 for ternary, 32 for full precision.

    >>> [stored_bits(bits) for bits in ("ternary", 4, None)]
    [2, 4, 32]
    """
    check("weight_bits", weight_bits, WeightBits)
    if weight_bits is None:
        return FLOAT_BITS
    return 2 if weight_bits == "ternary" else int(weight_bits)
