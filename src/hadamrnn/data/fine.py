"""Small movements beside large ones: a second copy of each channel, clipped. Start at `with_fine`.

A channel's scale is that of its largest movements. A person who sits or stands still moves a hundredth as
much as one who walks, which few bits cannot resolve. The clipped copy has a scale of its own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from hadamrnn.errors import InputError


def with_fine(x: Tensor, values: Sequence[float], changes: Sequence[float]) -> Tensor:
    """Return series with two more copies of their first channels: their values and their changes, clipped.

        v_t,c = clip(x_t,c, +-values_c)        d_t,c = clip(x_t,c - x_(t-1),c, +-changes_c),   d_0 = 0

    Args:
        x: `(n, time, channels)`, in the sensor's units.
        values, changes: the limits of the first channels, as many of one as of the other.

    Returns:
        `(n, time, channels + 2 len(values))`: x, v, d.

    >>> with_fine(torch.tensor([[[0.1, 7.0], [0.4, 7.0]]]), values=[0.2], changes=[0.5])[0]
    tensor([[0.1000, 7.0000, 0.1000, 0.0000],
            [0.4000, 7.0000, 0.2000, 0.3000]])
    """
    if len(values) != len(changes) or len(values) > x.shape[-1]:
        raise InputError(
            "values and changes must have a limit for each of the first channels, as many of one as of the "
            f"other, got {len(values)} and {len(changes)} for {x.shape[-1]} channels."
        )
    for limit in (*values, *changes):
        if not 0 < limit < math.inf:
            raise InputError(f"A limit must be a positive number, in the sensor's units, got {limit}.")
    still, slow = (torch.tensor(limits, dtype=x.dtype, device=x.device) for limits in (values, changes))
    copied = x[..., : len(still)]
    change = torch.diff(copied, dim=1, prepend=copied[:, :1])
    return torch.cat([x, copied.clamp(-still, still), change.clamp(-slow, slow)], -1)
