"""The recurrence as the paper writes it: one dense product a step.

This is the definition. It is slow and keeps every state; the fast evaluators of
`hadamrnn.nn.recurrence` are tested against it.
"""

from __future__ import annotations

import torch
from torch import Tensor

from hadamrnn.nn.inputs import RecurrenceInput
from hadamrnn.nn.weight import recurrent_weight


def loop(
    inputs: RecurrenceInput,
    signs: Tensor,
    *,
    column_signs: Tensor | None,
    block_size: int,
    h_0: Tensor,
    lengths: Tensor | None,
    recurrence: str,
) -> tuple[Tensor, Tensor]:
    """Return every state and the last one.

        linear:  h_t = W h_(t-1) + z_t          relu:  h_t = max(0, W h_(t-1) + z_t)

    Past its length a row's state stands still and its output is zero.

    Returns:
        output `(batch, time, hidden_size)` and last state `(batch, hidden_size)`.
    """
    weight = recurrent_weight(signs, block_size, column_signs)
    h = h_0
    states = []
    for t, z_t in enumerate(inputs.projected().unbind(1)):
        new = torch.addmm(z_t, h, weight.T)
        new = new.relu() if recurrence == "relu" else new
        if lengths is None:
            h = new
            states.append(h)
        else:
            alive = (t < lengths)[:, None]
            h = torch.where(alive, new, h)
            states.append(torch.where(alive, new, torch.zeros_like(new)))
    empty = h_0.new_zeros(h_0.shape[0], 0, h_0.shape[1])
    return torch.stack(states, dim=1) if states else empty, h
