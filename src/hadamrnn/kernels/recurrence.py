"""Describe one recurrence over one batch, and run it in plain torch.

A layer creates a `Recurrence`, every method takes it, and its fields are the arguments of the operator
`hadamrnn::scan`. A new kind of recurrence is a new field here. Plain torch is the fallback for the native
scan and supports derivatives of any kind. Start at `Recurrence`, then `plain_scan`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import embedding, linear

from hadamrnn.kernels.backend import (
    check_ids,
    constant_tensor,
    constant_when_traced,
    is_constant,
)
from hadamrnn.kernels.transform import hadamard_transform

Product = Callable[[Tensor], Tensor]
_kept_powers: dict[Hashable, tuple[Tensor, ...]] = {}

# Inputs up to this width are projected inside the native loop, step by step.
NARROW_INPUT = 16
# Without the native library, W, W^2, W^4, ... up to this power are dense matrices, cached for this many
# layers.
DENSE_POWERS = 32
MAX_KEPT_POWERS = 8


@dataclass(frozen=True)
class Recurrence:
    """h_t = f(lambda W h_(t-1) + z_t), W = diag(u) (I_q kron H_b) diag(v) / sqrt(b), y_t = V sigma(h_t) + b_o

    Args:
        signs: u, `(hidden_size,)`.
        block_size: b, side of one block; divides `hidden_size`.
        decay: lambda, `(hidden_size,)`, constants in (0, 1] without a gradient; None means 1.
        relu: whether f is ReLU; otherwise it is the identity.
        x, weight, bias: z_t = U x_t + b_i with x `(batch, time, input_size)`, U `(hidden_size, input_size)`
            (with an `input_size` of 0, z_t = b_i); without a weight, z_t = x_t.
        ids, weight: instead of x, z_t = weight[id_t] with ids int64 `(batch, time)`,
            weight `(num_ids, hidden_size)`.
        h_0: `(batch, hidden_size)`, zeros by default; pooled recurrences start at zero.
        lengths: int64 `(batch,)`, number of valid steps of each row; by default all steps. Past a row's
            length, its state no longer changes and its output is zero.
        every_output: whether to return the states of all steps.
        output_weight, output_bias: V `(output_size, hidden_size)` and b_o, to return every y_t instead.
        sigma: whether V reads ReLU(h_t) instead of h_t.
        pools: some of mean, positive and max, to return these summaries of all steps.
        thresholds: theta of mean and positive, `(count, hidden_size)`, constants; with `pools` only.
        keep_bits: whether the native pools store the bits of all steps for the backward pass.
        segment: steps between two states that the native scan stores for the backward pass.
        column_signs: v, `(hidden_size,)`; None means 1. Plain torch only.
    """

    signs: Tensor
    block_size: int
    decay: Tensor | None = None
    relu: bool = False
    x: Tensor | None = None
    ids: Tensor | None = None
    weight: Tensor | None = None
    bias: Tensor | None = None
    h_0: Tensor | None = None
    lengths: Tensor | None = None
    every_output: bool = False
    output_weight: Tensor | None = None
    output_bias: Tensor | None = None
    sigma: bool = False
    pools: tuple[str, ...] = ()
    thresholds: Tensor | None = None
    keep_bits: bool = True
    segment: int = 1
    column_signs: Tensor | None = None

    @property
    def rows(self) -> Tensor:
        """The input, x or the ids: `(batch, time, ...)`."""
        rows = self.ids if self.x is None else self.x
        assert rows is not None
        return rows

    @property
    def batch(self) -> int:
        return self.rows.shape[0]

    @property
    def time(self) -> int:
        return self.rows.shape[1]

    @property
    def hidden_size(self) -> int:
        return self.signs.shape[0]

    @property
    def is_wide(self) -> bool:
        return self.x is not None and self.weight is not None and self.x.shape[2] > NARROW_INPUT

    @property
    def is_irreversible(self) -> bool:
        """Whether h_(t-1) cannot be recovered from h_t: f loses it, or 1 / lambda amplifies rounding."""
        return self.relu or self.decay is not None

    @property
    def has_output(self) -> bool:
        """Whether an output of every step, h_t or y_t, is requested."""
        return self.every_output or self.output_weight is not None

    def arguments(self) -> tuple[Any, ...]:
        """Return the fields in the order of the operator's arguments."""
        return tuple(getattr(self, name) for name in FIELDS)

    def projected(self) -> Tensor:
        """Return every z_t, `(batch, time, hidden_size)`."""
        if self.weight is None:
            return self.rows
        if self.ids is not None:
            check_ids(self.ids, self.weight.shape[0])
            return embedding(self.ids, self.weight)
        return linear(self.rows, self.weight, self.bias)

    def start(self) -> Tensor:
        """Return h_0, `(batch, hidden_size)`."""
        return self.signs.new_zeros(self.batch, self.hidden_size) if self.h_0 is None else self.h_0

    def read_out(self, states: Tensor) -> Tensor:
        """Return y_t = V sigma(h_t) + b_o for `(..., hidden_size)` states; without V the states."""
        if self.output_weight is None:
            return states
        return linear(states.relu() if self.sigma else states, self.output_weight, self.output_bias)


# The fields that the operator takes, and those that may receive a gradient.
FIELDS = tuple(field.name for field in fields(Recurrence) if field.name != "column_signs")
DIFFERENTIABLE = ("x", "weight", "bias", "signs", "h_0", "output_weight", "output_bias")
_SCHEMA_TYPES = {
    "Tensor": "Tensor",
    "Tensor | None": "Tensor?",
    "int": "int",
    "bool": "bool",
    "tuple[str, ...]": "str[]",
}
# The operator's arguments, in the schema language of torch.library.
SCHEMA = ", ".join(
    # A program exported with a dynamic length uses that length as its segment.
    f"{'SymInt' if field.name == 'segment' else _SCHEMA_TYPES[str(field.type)]} {field.name}"
    for field in fields(Recurrence)
    if field.name in FIELDS
)


def plain_scan(recurrence: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Return h_t (or y_t) of all steps if requested, else None, and the last state, by the fast transform."""
    return _steps(recurrence, fast_product(recurrence))


def loop(recurrence: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Return the same as `plain_scan` by the paper's definition: one dense product with W(u, v) per step."""
    transposed = dense_step(recurrence)
    return _steps(replace(recurrence, decay=None), lambda h: h @ transposed)


def dense_step(recurrence: Recurrence) -> Tensor:
    """Return (lambda W(u, v))' `(units, units)`, by which rows of states are multiplied."""
    signs = recurrence.signs
    transposed = fast_product(recurrence)(torch.eye(len(signs), dtype=signs.dtype, device=signs.device))
    return transposed if recurrence.decay is None else transposed * recurrence.decay


def dense_powers(recurrence: Recurrence) -> tuple[Tensor, ...]:
    """Return the powers 1, 2, 4, ... `DENSE_POWERS` of `dense_step`; they are cached for frozen signs."""
    parts = (recurrence.signs, recurrence.column_signs, recurrence.decay)
    given = [part for part in parts if part is not None]
    if not all(map(is_constant, given)):
        return _powers(recurrence)
    key = (recurrence.block_size, given[0].dtype, given[0].device, *(tuple(part.tolist()) for part in given))
    if key not in _kept_powers:
        while len(_kept_powers) >= MAX_KEPT_POWERS:
            _kept_powers.pop(next(iter(_kept_powers)))
        with torch.inference_mode(False), torch.no_grad():
            _kept_powers[key] = _powers(recurrence)
    return _kept_powers[key]


def _powers(recurrence: Recurrence) -> tuple[Tensor, ...]:
    powers = [dense_step(recurrence)]
    while 2 ** (len(powers) - 1) < DENSE_POWERS:
        powers.append(powers[-1] @ powers[-1])
    return tuple(powers)


def plain_pools(recurrence: Recurrence) -> tuple[dict[str, Tensor], Tensor]:
    """Return the requested pools over the states of all steps, and the last state.

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
    """Return differentiable gradients of the fields `wanted`.

    Args:
        gradients: gradients of output, last, mean, positive and max.
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
    """Return views of the tensors for differentiation, because one tensor may be computed from another."""
    return {name: tensor.view_as(tensor) for name, tensor in tensors.items()}


def gradients_again(
    results: Sequence[Tensor | None], gradients: Sequence[Tensor | None], leaves: dict[str, Tensor]
) -> dict[str, Tensor]:
    """Return differentiable gradients of the leaves, given the gradients of the results."""
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
    """Return the function h -> W(u, v) h, which uses the fast transform."""
    column_signs, block_size, signs = recurrence.column_signs, recurrence.block_size, recurrence.signs
    scaled_signs = signs * _scales(recurrence.hidden_size, block_size, signs.dtype, signs.device)

    def product(h: Tensor) -> Tensor:
        switched = h if column_signs is None else h * column_signs
        return hadamard_transform(switched, block_size) * scaled_signs

    return product


@constant_when_traced
def _scales(hidden_size: int, block_size: int, dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return 1 / sqrt(b) for each unit, rounded so that errors of neighbouring units cancel.

    If all were rounded equally, 1 / sqrt(512) would make the norm of the state fall by 2 % in a million
    float32 steps.
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
