"""h_t = f(lambda W h_(t-1) + z_t) over a batch: the evaluators, and which of them is the cheapest.

    loop         one dense product per step: slow; the definition that the others are tested against
    scan         one step after the other; natively fused where the library is there, else in torch
    reversible   a linear scan without a leak that keeps no state but the last and rebuilds
                 h_(t-1) = W^-1 (h_t - z_t)
    kernel       K_j = (lambda W)^j U for all j, then one product:
                 h_T = sum_j K_j x_(T-j) + (what b_i and h_0 give)

All take a `Recurrence` and give the same result. Start reading at `run`; "auto" takes the cheapest and says
at debug level which. Costs count vector operations on one number. They need not be exact: near a tie either
choice is good.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from math import log2

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import runs_natively
from hadamrnn.kernels.plain import plain_scan
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.kernels.scan import scan
from hadamrnn.nn.inputs import reverse_rows
from hadamrnn.nn.weight import recurrent_weight

EVALUATORS = ("auto", "loop", "scan", "reversible", "kernel")

# The kernel form keeps the powers W^j U and their gradient; above this size the scan takes over.
KERNEL_BYTES = 64 << 20
# A number of a row takes log2(block_size) additions in the transform, and about as much again as this for
# the input, the signs and the gradients.
STEP_OVERHEAD = 6.0
# A multiply-add inside a GEMM, which keeps its operands in registers.
GEMM_COST = 0.5
# Without the native library a step is a few torch calls: dense products win for hidden sizes below this.
DENSE_HIDDEN_SIZE = 256

_log = logging.getLogger(__name__)


def run(recurrence: Recurrence, evaluator: str = "auto") -> tuple[Tensor | None, Tensor]:
    """Return h_t (with V: y_t) of all steps, None unless wanted, and the state at each row's end.

    Args:
        evaluator: one of `EVALUATORS`.

    >>> delay = Recurrence(torch.ones(1), block_size=1, x=torch.ones(1, 3, 1), every_output=True)
    >>> run(delay)[0].flatten()
    tensor([1., 2., 3.])
    """
    _check_evaluator(evaluator, recurrence)
    if evaluator == "auto":
        native = runs_natively(recurrence.signs)
        evaluator = choose_evaluator(recurrence, native)
        if not torch.compiler.is_compiling():
            shape = f"batch {recurrence.batch}, time {recurrence.time}, hidden size {recurrence.hidden_size}"
            _log.debug("%s (%s) for %s", evaluator, "native" if native else "torch", shape)
    if evaluator == "kernel":
        return None, kernel_form(recurrence)
    if evaluator == "loop":
        return loop(recurrence)
    return scan(recurrence, reversible=evaluator == "reversible")


def loop(recurrence: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Run the recurrence as the paper writes it: one product with the dense W(u, v) per step."""
    weight = recurrent_weight(recurrence.signs, recurrence.block_size, recurrence.column_signs)
    return plain_scan(recurrence, lambda h: h @ weight.T)


def kernel_form(recurrence: Recurrence) -> Tensor:
    """Return the last state of a linear recurrence by one matrix product.

        h_l = sum_{j < l} W^j U x_(l-j) + (W^l h_0 + sum_{j < l} W^j b_i)

    (with a leak lambda W in place of W). The powers W^j U are the states of a scan without input that
    starts at the columns of U, and the bracket is a scan that is fed with b_i alone. Both cost transforms
    of a few rows, not of the batch.
    """
    x, weight, lengths = recurrence.x, recurrence.weight, recurrence.lengths
    assert x is not None and weight is not None
    _, time, input_size = x.shape
    rest = _without_input(recurrence, weight)
    if time == 0:
        return rest
    newest_first = reverse_rows(x, lengths)
    if lengths is not None:
        steps = torch.arange(time, device=x.device)
        newest_first = newest_first.masked_fill((steps >= lengths[:, None])[:, :, None], 0)
    silence = _fed_with(recurrence, weight.new_empty(input_size, time - 1, 0), weight, None)
    powers, _ = scan(replace(silence, h_0=weight.T, lengths=None, every_output=True))
    assert powers is not None
    # powers[i, j] = W^(j+1) U_i, for the steps before the newest one.
    older = newest_first[:, 1:].transpose(1, 2).flatten(1)
    newest = torch.addmm(rest, newest_first[:, 0], weight.T)
    return torch.addmm(newest, older, powers.reshape(-1, recurrence.hidden_size))


def _without_input(recurrence: Recurrence, weight: Tensor) -> Tensor:
    """Return W^l h_0 + sum_{j < l} W^j b_i for the length l of each row, `(batch, hidden_size)`."""
    batch, hidden_size, lengths = recurrence.batch, recurrence.hidden_size, recurrence.lengths
    if recurrence.h_0 is None and recurrence.bias is None:
        return weight.new_zeros(batch, hidden_size)
    rows = 1 if recurrence.h_0 is None else batch
    bias_alone = _fed_with(recurrence, weight.new_empty(rows, recurrence.time, 0), weight, recurrence.bias)
    if recurrence.h_0 is not None or lengths is None:
        _, last = scan(bias_alone)
        return last.expand(batch, hidden_size)
    sums, _ = scan(replace(bias_alone, lengths=None, every_output=True))
    assert sums is not None
    return torch.cat((sums.new_zeros(1, hidden_size), sums[0]))[lengths]


def _fed_with(recurrence: Recurrence, nothing: Tensor, weight: Tensor, bias: Tensor | None) -> Recurrence:
    """Return the recurrence with an input of no channels, `(rows, time, 0)`: z_t = b."""
    return replace(recurrence, x=nothing, weight=weight[:, :0], bias=bias)


def choose_evaluator(recurrence: Recurrence, native: bool) -> str:
    """Return "kernel", "scan" or (only without the native library) "loop"."""
    exporting = torch.compiler.is_exporting()  # the batch size is open: costs cannot be compared
    if not exporting and kernel_is_possible(recurrence) and kernel_cost(recurrence) < scan_cost(recurrence):
        return "kernel"
    return "scan" if native or recurrence.hidden_size >= DENSE_HIDDEN_SIZE else "loop"


def kernel_is_possible(recurrence: Recurrence) -> bool:
    """Whether one matrix product gives the result: last state, linear, dense input, and it fits."""
    if not _has_kernel_form(recurrence):
        return False
    assert recurrence.x is not None
    numbers = recurrence.time * recurrence.x.shape[2] * recurrence.hidden_size
    return 2 * numbers * recurrence.signs.element_size() <= KERNEL_BYTES


def scan_cost(recurrence: Recurrence) -> float:
    """Three transforms of every row and step: forward, rebuilding the state, and the adjoint."""
    return 3.0 * recurrence.batch * recurrence.time * _step_cost(recurrence)


def kernel_cost(recurrence: Recurrence) -> float:
    """Two transforms of every column of U, three of b_i (or of every row with initial states), two GEMMs."""
    batch, time, input_size = recurrence.rows.shape
    transforms = 2.0 * input_size * time * _step_cost(recurrence)
    rest = 3.0 * (1 if recurrence.h_0 is None else batch) * time * _step_cost(recurrence)
    products = 2.0 * GEMM_COST * batch * time * input_size * recurrence.hidden_size
    return transforms + rest + products


def _step_cost(recurrence: Recurrence) -> float:
    return recurrence.hidden_size * (log2(recurrence.block_size) + STEP_OVERHEAD)


def _has_kernel_form(recurrence: Recurrence) -> bool:
    is_dense = recurrence.x is not None and recurrence.weight is not None
    return is_dense and not recurrence.has_output and not recurrence.relu


def _check_evaluator(evaluator: str, recurrence: Recurrence) -> None:
    """Refuse an evaluator that cannot compute what is asked for."""
    if evaluator not in EVALUATORS:
        raise InputError(f"evaluator must be one of {', '.join(EVALUATORS)}, got {evaluator!r}.")
    if evaluator == "kernel" and not _has_kernel_form(recurrence):
        raise InputError(
            "The kernel form gives the last state of a linear recurrence with dense input only. "
            'Use evaluator="auto", which chooses what fits.'
        )
    if evaluator == "reversible" and recurrence.forgets:
        raise InputError(
            'A ReLU or leaky recurrence cannot be run backwards. Use evaluator="scan" or "auto".'
        )
