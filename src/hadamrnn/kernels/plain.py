"""The recurrence in plain torch operations: the fallback of the native scan, and derivatives of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from hadamrnn.kernels.backend import is_transformed
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.kernels.transform import hadamard_transform

Product = Callable[[Tensor], Tensor]


def plain_scan(
    recurrence: Recurrence, product: Product | None = None, *, thrifty: bool = False
) -> tuple[Tensor | None, Tensor]:
    """Return h_t (or y_t) of all steps, None unless wanted, and the last state.

    Args:
        product: W h for h `(batch, hidden_size)`; the fast transform by default.
        thrifty: keep about sqrt(time) states for the backward pass and recompute the others.
    """
    thrifty = thrifty and torch.is_grad_enabled() and not is_transformed()
    length = about_root(recurrence.time) if thrifty else max(recurrence.time, 1)
    h, z = recurrence.start(), recurrence.projected()
    outputs: list[Tensor] = []
    for start in range(0, recurrence.time, length):
        lengths = None if recurrence.lengths is None else recurrence.lengths - start
        part = replace(recurrence, h_0=h, lengths=lengths)
        arguments = (part, z[:, start : start + length], product or fast_product(recurrence))
        output, h = checkpoint(_steps, *arguments, use_reentrant=False) if thrifty else _steps(*arguments)
        if output is not None:
            outputs.append(output)
    if not outputs and recurrence.has_output:
        outputs.append(recurrence.read_out(h.new_zeros(recurrence.batch, 0, recurrence.hidden_size)))
    return (torch.cat(outputs, dim=1) if outputs else None), h


def plain_gradients(
    recurrence: Recurrence, grad_output: Tensor | None, grad_last: Tensor | None, wanted: list[str]
) -> dict[str, Tensor]:
    """Return the gradients of the fields `wanted`, which can be differentiated again."""
    leaves = as_leaves({name: getattr(recurrence, name) for name in wanted})
    fields: dict[str, Any] = {**leaves}
    return gradients_again(plain_scan(replace(recurrence, **fields)), (grad_output, grad_last), leaves)


def as_leaves(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return views of the tensors to take gradients at: a tensor may be computed from another one."""
    return {name: tensor.view_as(tensor) for name, tensor in tensors.items()}


def gradients_again(
    results: Sequence[Tensor | None], gradients: Sequence[Tensor | None], leaves: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return the gradients of the leaves, which can be differentiated again, from those of the results."""
    pairs = [
        (result, gradient)
        for result, gradient in zip(results, gradients, strict=True)
        if result is not None and gradient is not None and result.requires_grad
    ]
    if not pairs:
        return {name: torch.zeros_like(leaf) for name, leaf in leaves.items()}
    found = torch.autograd.grad(
        [result for result, _ in pairs],
        list(leaves.values()),
        [gradient for _, gradient in pairs],
        create_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return dict(zip(leaves, found, strict=True))


def fast_product(recurrence: Recurrence) -> Product:
    """Return h -> W(u, v) h by the fast transform."""
    scaled_signs: Tensor = recurrence.signs / recurrence.block_size**0.5
    column_signs, block_size = recurrence.column_signs, recurrence.block_size

    def product(h: Tensor) -> Tensor:
        switched = h if column_signs is None else h * column_signs
        return hadamard_transform(switched, block_size) * scaled_signs

    return product


def about_root(time: int) -> int:
    """Return about sqrt(time), at least 1. (torch.compile cannot trace math.isqrt.)"""
    return int(max(time - 1, 0) ** 0.5) + 1


def _steps(recurrence: Recurrence, z: Tensor, product: Product) -> tuple[Tensor | None, Tensor]:
    """Run h_t = f(lambda W h_(t-1) + z_t) from `recurrence.h_0` over the rows z, `(batch, steps, hidden)`."""
    h, lengths = recurrence.start(), recurrence.lengths
    states: list[Tensor] = []
    for t, z_t in enumerate(z.unbind(1)):
        carried = product(h) if recurrence.decay is None else recurrence.decay * product(h)
        new = carried + z_t
        new = new.relu() if recurrence.relu else new
        if lengths is None:
            h = output = new
        else:
            alive = (t < lengths)[:, None]
            h, output = torch.where(alive, new, h), torch.where(alive, new, torch.zeros_like(new))
        if recurrence.has_output:
            states.append(output)
    return (recurrence.read_out(torch.stack(states, dim=1)) if states else None), h
