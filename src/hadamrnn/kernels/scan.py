"""Define torch operators for the recurrence in C: `hadamrnn::scan` and `hadamrnn::scan_backward`.

torch.compile and torch.export treat both as opaque operators, whose fake kernels provide the shapes. Outside
a trace, `native_scan` skips the dispatcher and calls the same functions through `Scan`. Second derivatives
are computed by `hadamrnn.kernels.recurrence`.

Narrow inputs are projected inside the native loop, wider inputs before it by `kernels.product`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import Function

from hadamrnn.kernels.backend import full_precision, is_traced
from hadamrnn.kernels.call import POOLS, REAL, Results, ScanCall, check, empty_results
from hadamrnn.kernels.library import native_kernel, run_slices_on
from hadamrnn.kernels.recurrence import DIFFERENTIABLE, FIELDS, SCHEMA, Recurrence, plain_gradients

NUM_DIFFERENTIABLE_RESULTS = 5  # output, last, mean, positive and max
# Limit on the total size of all slices' own gradient sums (two slices are always allowed).
SUMS_BYTES = 32 << 20


def native_scan(signs: Tensor) -> Callable[..., tuple[Tensor, ...]]:
    """Return a differentiable function that runs `Recurrence.arguments()` in C and returns `Results`.

    Traces, and anything other than plain tensors, need the torch operator.
    """
    if is_traced(signs):
        operator: Callable[..., tuple[Tensor, ...]] = torch.ops.hadamrnn.scan.default
        return operator
    return Scan.apply


def forward(recurrence: Recurrence) -> Results:
    """Run a recurrence in C."""
    check(recurrence)
    results = empty_results(recurrence)
    if results.checkpoints.numel() and not recurrence.pools:
        # A row that ends early does not write its later checkpoints, so these must be initialised. numpy's
        # zeros cost nothing until they are written, and do not wake torch's threads.
        zeros = np.zeros(results.checkpoints.shape, REAL[results.checkpoints.dtype])
        results = results._replace(checkpoints=torch.from_numpy(zeros))
    if recurrence.pools:
        results.max_steps.fill_(-1)
    if recurrence.pools and recurrence.lengths is not None:  # rows that end early do not write all of these
        for left in (results.mean_bits, results.positive_bits, results.checkpoints):
            left.zero_()
    call = ScanCall(recurrence, results)
    output = "output" if recurrence.output_weight is None else "logits"
    for name, tensor in ((output, results.output), *((name, getattr(results, name)) for name in POOLS)):
        call.point_field(name, tensor if tensor.dim() > 1 else None)
    kernel = native_kernel("pool_forward" if recurrence.pools else "scan_forward", call.dtype)
    run_slices_on(torch.get_num_threads(), kernel, call.args, call.args.num_slices)
    return results


def backward(
    recurrence: Recurrence,
    gradients: Sequence[Tensor | None],
    results: Results,
    wanted: Iterable[str],
) -> dict[str, Tensor]:
    """Return the gradients of the fields `wanted`.

    Args:
        gradients: gradients of output, last, mean, positive and max; None for zero.
        results: results of the forward pass, which has also checked ids and lengths. `output` has the states
            of all steps if they were stored; otherwise they are recomputed.
    """
    # The gradient of a result that was not requested has only one dimension.
    grad_output, *others = (None if g is not None and g.dim() < 2 else g for g in gradients)
    wanted = list(wanted)
    call = ScanCall(recurrence, results, most_slices(recurrence))
    if results.output.dim() == 3:
        call.point_field("output", results.output)
    call.point_field("grad_output" if recurrence.output_weight is None else "grad_logits", grad_output)
    for name, gradient in zip(("last", *POOLS), others, strict=True):
        call.point_field(f"grad_{name}", gradient)
    if recurrence.pools:
        call.args.replay = not recurrence.keep_bits or recurrence.relu or "signs" in wanted
    return call.gradients("pool_backward" if recurrence.pools else "scan_backward", wanted)


def most_slices(recurrence: Recurrence) -> int:
    """Return the largest number of slices whose gradient sums fit the memory limit."""
    sums = [getattr(recurrence, name) for name in ("weight", "bias", "signs", "output_weight")]
    itemsize = recurrence.signs.element_size()
    size = sum(0 if tensor is None else tensor.numel() for tensor in sums) * itemsize
    return max(2, SUMS_BYTES // max(size, 1))


def _forward(*arguments: Any) -> Results:
    recurrence = Recurrence(*arguments)
    with full_precision(recurrence.signs):
        return forward(recurrence)


def _shapes(*arguments: Any) -> Results:
    return empty_results(Recurrence(*arguments))


def _backward(*arguments: Any) -> list[Tensor]:
    """Return the gradients of `DIFFERENTIABLE`, `(0,)` if not requested."""
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
    """The same operator without torch's dispatcher."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Results:
        results = forward(Recurrence(*arguments))  # the layer has already switched autocast off
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
