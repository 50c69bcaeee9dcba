"""The recurrence in plain torch operations: the fallback of the native scan, and derivatives of any kind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.kernels.backend import constant_tensor, constant_when_traced
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.kernels.transform import hadamard_transform

Product = Callable[[Tensor], Tensor]


def plain_scan(recurrence: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Return h_t (or y_t) of all steps, None unless wanted, and the last state, by the fast transform."""
    return _steps(recurrence, fast_product(recurrence))


def loop(recurrence: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Return the same as the paper writes it: one product with the dense W(u, v) per step."""
    signs = recurrence.signs
    transposed = fast_product(recurrence)(torch.eye(len(signs), dtype=signs.dtype, device=signs.device))
    return _steps(recurrence, lambda h: h @ transposed)


def plain_pools(recurrence: Recurrence) -> tuple[dict[str, Tensor], Tensor]:
    """Return the wanted pools of the states of all steps, and the last state.

    mean and positive have shape `(batch, thresholds, hidden_size)`, max `(batch, hidden_size)`.
    """
    states, last = plain_scan(replace(recurrence, every_output=True, output_weight=None, output_bias=None))
    assert states is not None and recurrence.thresholds is not None
    theta, lengths = recurrence.thresholds.detach(), recurrence.lengths
    if lengths is None:
        lengths = torch.full((recurrence.batch,), recurrence.time, device=states.device)
    alive = (torch.arange(recurrence.time, device=states.device) < lengths[:, None])[:, :, None]
    share = alive.to(states.dtype) / lengths.clamp(min=1)[:, None, None]
    pools: dict[str, Tensor] = {}
    if "mean" in recurrence.pools:
        pools["mean"] = torch.stack([((states - row).relu() * share).sum(1) for row in theta], dim=1)
    if "positive" in recurrence.pools:
        pools["positive"] = torch.stack([(step(states - row) * share).sum(1) for row in theta], dim=1)
    if "max" in recurrence.pools and recurrence.time == 0:
        pools["max"] = torch.zeros_like(last)
    elif "max" in recurrence.pools:
        most = torch.where(alive, states, states.new_full((), -torch.inf)).max(1).values
        pools["max"] = torch.where(lengths[:, None] > 0, most, torch.zeros_like(most))
    return pools, last


def step(x: Tensor) -> Tensor:
    """Return [x > 0], with the gradient of the ramp clamp((x + 1) / 2, 0, 1)."""
    ramp = ((x + 1) / 2).clamp(0, 1)
    return (x > 0).to(x.dtype) + (ramp - ramp.detach())


def plain_gradients(
    recurrence: Recurrence, gradients: Sequence[Tensor | None], wanted: list[str]
) -> dict[str, Tensor]:
    """Return the gradients of the fields `wanted`, which can be differentiated again.

    Args:
        gradients: of output, last, mean, positive and max.
    """
    leaves = as_leaves({name: getattr(recurrence, name) for name in wanted})
    fields: dict[str, Any] = {**leaves}
    recurrence = replace(recurrence, **fields)
    results: list[Tensor | None]
    if recurrence.pools:
        pools, last = plain_pools(recurrence)
        results = [None, last, pools.get("mean"), pools.get("positive"), pools.get("max")]
    else:
        results = [*plain_scan(recurrence), None, None, None]
    return gradients_again(results, gradients, leaves)


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
    column_signs, block_size, signs = recurrence.column_signs, recurrence.block_size, recurrence.signs
    scaled_signs = signs * _scales(recurrence.hidden_size, block_size, signs.dtype, signs.device)

    def product(h: Tensor) -> Tensor:
        switched = h if column_signs is None else h * column_signs
        return hadamard_transform(switched, block_size) * scaled_signs

    return product


@constant_when_traced
def _scales(hidden_size: int, block_size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 1 / sqrt(b) for each unit; every one takes over the rounding errors of those before it.

    Rounded all alike, 1 / sqrt(512) would let the norm of the state fall by 2 % in a million float32 steps.
    """
    return constant_tensor(_balanced, (hidden_size, block_size, str(dtype)), dtype, device)


def _balanced(hidden_size: int, block_size: int, dtype: str) -> NDArray[np.float64]:
    exact, error = block_size**-0.5, 0.0
    scales = np.empty(hidden_size)
    for unit in range(hidden_size):
        scales[unit] = (
            float(exact - exact * error) if dtype == "torch.float64" else np.float32(exact - exact * error)
        )
        error += scales[unit] / exact - 1
    return scales


def _steps(recurrence: Recurrence, product: Product) -> tuple[Tensor | None, Tensor]:
    """Run h_t = f(lambda W h_(t-1) + z_t), with W h by `product`."""
    h, lengths = recurrence.start(), recurrence.lengths
    states: list[Tensor] = []
    for t, z_t in enumerate(recurrence.projected().unbind(1)):
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
    if not recurrence.has_output:
        return None, h
    empty = h.new_zeros(recurrence.batch, 0, recurrence.hidden_size)
    return recurrence.read_out(torch.stack(states, dim=1) if states else empty), h
