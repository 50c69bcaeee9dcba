"""The widths that weights may have, known to both halves of the package."""

from __future__ import annotations

from hadamrnn.errors import InputError, short

WeightBits = int | str | None  # 2..16, "ternary", or None for full precision
EXPONENT_BITS = 4  # of a shift that differs from unit to unit
FLOAT_BITS = 32
ACTIVATION_BITS = (2, 16)  # the fewest and the most of states and biases in integers


def check_weight_bits(weight_bits: WeightBits) -> None:
    """Refuse anything but None, "ternary" and 2..16."""
    if weight_bits is None or weight_bits == "ternary":
        return
    if isinstance(weight_bits, bool) or not isinstance(weight_bits, int) or not 2 <= weight_bits <= 16:
        raise InputError(
            f'weight_bits must be None, "ternary" or an integer from 2 to 16, got {short(weight_bits)}. '
            "The smallest grids are ternary and 2."
        )


def stored_bits(weight_bits: WeightBits) -> int:
    """Return the bits one weight takes: 2 for ternary, 32 for full precision.

    >>> [stored_bits(bits) for bits in ("ternary", 4, None)]
    [2, 4, 32]
    """
    check_weight_bits(weight_bits)
    if weight_bits is None:
        return FLOAT_BITS
    return 2 if weight_bits == "ternary" else int(weight_bits)
