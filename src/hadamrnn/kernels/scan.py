"""The torch operator of the recurrence, `hadamrnn::scan`, and its gradient, `hadamrnn::scan_backward`.

torch.compile and torch.export take both as they are: their fake kernels tell the shapes. Outside a trace
`native_scan` skips the dispatcher and calls the same functions through `Scan`. Derivatives of the gradient go
through `hadamrnn.kernels.plain`.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

import torch
from torch import Tensor
from torch.autograd import Function

from hadamrnn.kernels.backend import full_precision, is_traced
from hadamrnn.kernels.call import Results, empty_results
from hadamrnn.kernels.passes import backward, forward
from hadamrnn.kernels.plain import plain_gradients
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, FIELDS, SCHEMA, Recurrence

NUM_DIFFERENTIABLE_RESULTS = 5  # output, last, mean, positive and max


def native_scan(signs: Tensor) -> Callable[..., tuple[Tensor, ...]]:
    """Return the function that takes `Recurrence.arguments()` to `Results` in C, with its gradient.

    A trace, and whatever else is not a plain tensor, needs the operator.
    """
    if is_traced(signs):
        operator: Callable[..., tuple[Tensor, ...]] = torch.ops.hadamrnn.scan.default
        return operator
    return Scan.apply


def _forward(*arguments: Any) -> Results:
    recurrence = Recurrence(*arguments)
    with full_precision(recurrence.signs):
        return forward(recurrence)


def _shapes(*arguments: Any) -> Results:
    return empty_results(Recurrence(*arguments))


def _backward(*arguments: Any) -> list[Tensor]:
    """Return the gradients of `DIFFERENTIABLE`, `(0,)` where not wanted."""
    *fields, gradients, kept, wanted = arguments
    recurrence = Recurrence(*fields)
    with full_precision(recurrence.signs):
        found = backward(recurrence, gradients, Results(*kept), compress(DIFFERENTIABLE, wanted))
    return [found.get(name, recurrence.signs.new_empty(0)) for name in DIFFERENTIABLE]


def _backward_shapes(*arguments: Any) -> list[Tensor]:
    recurrence, wanted = Recurrence(*arguments[: len(FIELDS)]), arguments[-1]
    like = [
        getattr(recurrence, name) if needed else recurrence.signs[:0]
        for name, needed in zip(DIFFERENTIABLE, wanted, strict=True)
    ]
    return [torch.empty_like(tensor, memory_format=torch.contiguous_format) for tensor in like]


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    recurrence, results = Recurrence(*inputs), Results(*output)
    nothing = recurrence.signs.new_empty(0)
    keeps_states = recurrence.every_output and recurrence.output_weight is None
    kept = results._replace(
        output=results.output if keeps_states else nothing, mean=nothing, positive=nothing, max=nothing
    )
    ctx.others = [None if isinstance(value, Tensor) else value for value in inputs]
    ctx.save_for_backward(*(value if isinstance(value, Tensor) else None for value in inputs), *kept)
    ctx.set_materialize_grads(False)


def _differentiate(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
    saved, count = ctx.saved_tensors, len(FIELDS)
    pairs = zip(saved[:count], ctx.others, strict=True)
    arguments = [other if tensor is None else tensor for tensor, other in pairs]
    wanted = [bool(ctx.needs_input_grad[FIELDS.index(name)]) for name in DIFFERENTIABLE]
    given = list(gradients[:NUM_DIFFERENTIABLE_RESULTS])
    if torch.is_grad_enabled():  # create_graph=True
        recurrence, names = Recurrence(*arguments), list(compress(DIFFERENTIABLE, wanted))
        with full_precision(recurrence.signs):
            found = plain_gradients(recurrence, given, names)
    else:
        results = torch.ops.hadamrnn.scan_backward(*arguments, given, list(saved[count:]), wanted)
        found = dict(compress(zip(DIFFERENTIABLE, results, strict=True), wanted))
    return tuple(found.get(name) for name in FIELDS)


class Scan(Function):
    """The operator without the dispatcher."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Results:
        recurrence = Recurrence(*arguments)
        with full_precision(recurrence.signs):
            results = forward(recurrence)
        _save(ctx, arguments, results)
        return results

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        return _differentiate(ctx, *gradients)


torch.library.define("hadamrnn::scan", f"({SCHEMA}) -> ({', '.join(['Tensor'] * len(Results._fields))})")
torch.library.impl("hadamrnn::scan", "CPU")(_forward)
torch.library.register_fake("hadamrnn::scan")(_shapes)
torch.library.register_autograd("hadamrnn::scan", _differentiate, setup_context=_save)
torch.library.define(
    "hadamrnn::scan_backward",
    f"({SCHEMA}, Tensor?[] gradients, Tensor[] kept, bool[] wanted) -> Tensor[]",
)
torch.library.impl("hadamrnn::scan_backward", "CPU")(_backward)
torch.library.register_fake("hadamrnn::scan_backward")(_backward_shapes)
