"""The fused scan: a recurrence run step by step, natively where C can, else in plain torch.

`scan` is the door. Behind it `hadamrnn::scan` runs the recurrence and, if it is given V, the read-out, and
`hadamrnn::scan_backward` is its gradient. torch.compile takes both as they are: their fake kernels tell
it the shapes. Derivatives of the gradient go through `hadamrnn.kernels.plain`.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import compress
from typing import Any

import torch
from torch import Tensor

from hadamrnn.kernels.backend import full_precision, runs_natively
from hadamrnn.kernels.call import backward, empty_results, forward
from hadamrnn.kernels.operators import define_operator, empty_gradients, keep_arguments, kept_arguments
from hadamrnn.kernels.plain import about_root, plain_gradients, plain_scan
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, FIELDS, SCHEMA, Recurrence

# A linear scan keeps at most this many states of a row, at least as many steps apart.
MAX_KEPT_STATES = 64
# The projected rows of a wide input are made in chunks of about this size.
CHUNK_BYTES = 16 << 20
# The fewest steps of such a chunk; exactly as many in an exported program, whose batch size is open.
MIN_CHUNK_STEPS = 16


def scan(recurrence: Recurrence, *, reversible: bool = False) -> tuple[Tensor | None, Tensor]:
    """Return h_t (or y_t) of all steps, None unless wanted, and the last state.

    With `reversible` a linear recurrence without a leak keeps no state but the last and rebuilds
    h_(t-1) = W^-1 (h_t - z_t).
    """
    if not runs_natively(recurrence.signs, *(getattr(recurrence, name) for name in DIFFERENTIABLE)):
        return plain_scan(recurrence, thrifty=reversible)
    if recurrence.is_wide and recurrence.every_output and recurrence.output_weight is None:
        # The states of all steps are kept anyway, so their inputs may be too: no chunk is projected twice.
        recurrence = recurrence.with_rows()
    described = replace(recurrence, segment=_segment(recurrence, reversible))
    output, last, _ = scan_operator(*described.arguments())
    return (output if recurrence.has_output else None), last


def _segment(recurrence: Recurrence, reversible: bool) -> int:
    """Return the number of steps between two kept states: a function of the shape only."""
    time = recurrence.time
    if recurrence.is_wide:
        if torch.compiler.is_exporting():
            return MIN_CHUNK_STEPS
        row_bytes = recurrence.hidden_size * recurrence.signs.element_size()
        return max(MIN_CHUNK_STEPS, CHUNK_BYTES // max(recurrence.batch * row_bytes, 1))
    if recurrence.forgets:
        return about_root(time)
    return max(time, 1) if reversible else max(MAX_KEPT_STATES, -(-time // MAX_KEPT_STATES))


def _forward(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    """Run a recurrence in C.

    Returns:
        states `(batch, time, hidden_size)` or logits `(batch, time, output_size)` or nothing `(0,)`;
        the last `(batch, hidden_size)`; the kept ones `(batch, ceil(time / segment) - 1, hidden_size)`.
    """
    recurrence = Recurrence(*arguments)
    with full_precision(recurrence.signs):
        return forward(recurrence)


def _backward(*arguments: Any) -> list[Tensor]:
    """Return the gradients of `DIFFERENTIABLE`, `(0,)` where not wanted."""
    recurrence = Recurrence(*arguments[: len(FIELDS)])
    grad_output, grad_last, output, last, checkpoints, wanted = arguments[len(FIELDS) :]
    with full_precision(recurrence.signs):
        names = compress(DIFFERENTIABLE, wanted)
        gradients = backward(recurrence, grad_output, grad_last, output, last, checkpoints, names)
    return [gradients.get(name, recurrence.signs.new_empty(0)) for name in DIFFERENTIABLE]


def _forward_shapes(*arguments: Any) -> tuple[Tensor, Tensor, Tensor]:
    return empty_results(Recurrence(*arguments))


def _backward_shapes(*arguments: Any) -> list[Tensor]:
    recurrence = Recurrence(*arguments[: len(FIELDS)])
    tensors = [getattr(recurrence, name) for name in DIFFERENTIABLE]
    return empty_gradients(tensors, arguments[-1], recurrence.signs)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    recurrence = Recurrence(*inputs)
    states = output[0] if recurrence.every_output and recurrence.output_weight is None else None
    keep_arguments(ctx, inputs, states, *output[1:])


def _differentiate(
    ctx: Any, grad_output: Tensor | None, grad_last: Tensor | None, _: Tensor | None
) -> tuple[Tensor | None, ...]:
    arguments, (states, last, checkpoints) = kept_arguments(ctx)
    wanted = [bool(ctx.needs_input_grad[FIELDS.index(name)]) for name in DIFFERENTIABLE]
    if torch.is_grad_enabled():  # create_graph=True
        recurrence, names = Recurrence(*arguments), list(compress(DIFFERENTIABLE, wanted))
        with full_precision(recurrence.signs):
            found = plain_gradients(recurrence, grad_output, grad_last, names)
    else:
        gradients = scan_backward_operator(
            *arguments, grad_output, grad_last, states, last, checkpoints, wanted
        )
        found = dict(zip(DIFFERENTIABLE, gradients, strict=True))
    return tuple(
        found[name] if needed and name in found else None
        for name, needed in zip(FIELDS, ctx.needs_input_grad, strict=True)
    )


scan_operator = define_operator(
    "hadamrnn::scan",
    f"({SCHEMA}) -> (Tensor, Tensor, Tensor)",
    _forward,
    _forward_shapes,
    _save,
    _differentiate,
)
scan_backward_operator = define_operator(
    "hadamrnn::scan_backward",
    f"({SCHEMA}, Tensor? grad_output, Tensor? grad_last, Tensor? output, Tensor last, "
    "Tensor checkpoints, bool[] wanted) -> Tensor[]",
    _backward,
    _backward_shapes,
)
