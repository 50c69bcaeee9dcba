"""The widths that weights may have, known to both halves of the package."""

from __future__ import annotations

from hadamrnn.errors import InputError

WeightBits = int | str | None  # 2..16, "ternary", or None for full precision


def check_weight_bits(weight_bits: WeightBits) -> None:
    """Refuse anything but None, "ternary" and 2..16."""
    if weight_bits is None or weight_bits == "ternary":
        return
    if isinstance(weight_bits, str) or isinstance(weight_bits, bool) or not 2 <= weight_bits <= 16:
        raise InputError(
            f'weight_bits must be None, "ternary" or an integer from 2 to 16, got {weight_bits!r}. '
            "The smallest grids are ternary and 2."
        )
