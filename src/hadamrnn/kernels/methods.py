"""Run a recurrence over a batch by the cheapest method; all methods give the same result.

    loop     one dense product per step: the reference that the others are tested against
    scan     one step after another by the fast transform; fused in C, or else in torch
    kernel   K_j = (lambda W)^j U for all j, then one product:
             h_T = sum_j K_j x_(T-j) + (contribution of b_i and h_0)
             natively by a scan over j, in torch by products with W, W^2, W^4, ...

Start reading at `run`. Costs are in nanoseconds of a training step on one core, measured on x86-64 with
AVX-512. Only their ratios matter, and if they are close, either choice is good.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from math import log2

import torch
from torch import Tensor

from hadamrnn.hadamard.orders import order_factors
from hadamrnn.kernels.backend import runs_natively
from hadamrnn.kernels.call import POOLS, Results, tile_rows
from hadamrnn.kernels.product import with_rows
from hadamrnn.kernels.recurrence import (
    DENSE_POWERS,
    DIFFERENTIABLE,
    Recurrence,
    dense_powers,
    loop,
    plain_pools,
    plain_scan,
)
from hadamrnn.kernels.scan import native_scan
from hadamrnn.settings import check_shape

# The kernel form stores the powers W^j U and their gradient; above this size the scan is used.
KERNEL_BYTES = 64 << 20
# Costs per number in three transforms: a stage of Sylvester's matrix, a row of another factor, and everything
# else (input, signs and gradients).
STAGE_COST = 0.23
FACTOR_COST = 0.11
STEP_COST = 1.4
# Cost of a multiply-add inside a GEMM, which keeps its operands in registers; forward and backward.
GEMM_COST = 0.23
# Without the native library a step is a few torch calls: dense products win for hidden sizes below this.
DENSE_HIDDEN_SIZE = 256
# Costs of a multiply-add in products of dense powers, and of the calls of one step.
SQUARE_COST = 0.06
CALLS_COST = 100e3

# A linear scan stores at most this many states per row, at least this many steps apart.
MAX_KEPT_STATES = 64
# Limit on the bits that pools store for a tile of rows: 16,384 steps of 128 units.
BITS_BYTES = 4 << 20

_log = logging.getLogger(__name__)


def run(recurrence: Recurrence) -> tuple[Tensor | None, Tensor]:
    """Return h_t (or y_t, with V) of all steps if requested, else None, and each row's last state.

    >>> delay = Recurrence(torch.ones(1), block_size=1, x=torch.ones(1, 3, 1), every_output=True)
    >>> run(delay)[0].flatten()
    tensor([1., 2., 3.])
    """
    native = is_native(recurrence)
    method = choose_method(recurrence, native)
    if not torch.compiler.is_compiling():
        shape = f"batch {recurrence.batch}, time {recurrence.time}, hidden size {recurrence.hidden_size}"
        _log.debug("%s (%s) for %s", method, "native" if native else "torch", shape)
    if method == "kernel":
        return None, kernel_form(recurrence) if native else power_form(recurrence)
    if not native:
        return loop(recurrence) if method == "loop" else plain_scan(recurrence)
    recurrence = with_rows(recurrence) if recurrence.is_wide else recurrence
    described = replace(recurrence, segment=_segment(recurrence))
    output, last, *_ = native_scan(recurrence.signs)(*described.arguments())
    return (output if recurrence.has_output else None), last


def run_pooled(recurrence: Recurrence, readouts: tuple[str, ...]) -> Tensor:
    """Return pooled read-outs of all steps, `(batch, hidden_size * groups)`, without storing states.

        last      sigma(h_T)                     sigma = ReLU, which a ReLU recurrence has already applied
        mean      1/T sum_t ReLU(h_t - theta)    one group of features for each row of thresholds
        positive  1/T sum_t [h_t > theta]        likewise
        max       max_t h_t

    T is the length of each row: steps past it are ignored, and an empty row gives zeros. The gradient of
    `positive` is straight-through: the gradient of a ramp with slope 1/2 for |h - theta| <= 1. Without
    thresholds, theta is 0.
    """
    theta = recurrence.thresholds
    if theta is None:
        theta = recurrence.signs.new_zeros(1, recurrence.hidden_size)
    check_shape("thresholds", theta, "count", recurrence.hidden_size)
    pools = tuple(kind for kind in readouts if kind != "last")
    recurrence = replace(recurrence, pools=pools, thresholds=theta.detach())
    if is_native(recurrence):
        tiles = _as_tiles(recurrence)
        results = Results(*native_scan(recurrence.signs)(*tiles.arguments()))
        last, found = results.last, {name: getattr(results, name) for name in POOLS}
    else:
        found, last = plain_pools(recurrence)
    found["last"] = last if recurrence.relu else last.relu()
    return torch.cat([found[kind].flatten(1) for kind in readouts], dim=1)


def is_native(recurrence: Recurrence) -> bool:
    """Return whether the native library runs the recurrence."""
    tensors = (getattr(recurrence, name) for name in DIFFERENTIABLE)
    return recurrence.column_signs is None and runs_natively(recurrence.signs, *tensors)


def kernel_form(recurrence: Recurrence) -> Tensor:
    """Return the last state of a linear recurrence by one matrix product.

        h_l = sum_{j < l} W^j U x_(l-j) + (W^l h_0 + sum_{j < l} W^j b_i)

    (with a leak, lambda W instead of W). The powers W^j U are the states of a scan without input that starts
    at the columns of U, and the bracket is a scan whose only input is b_i. Both transform only a few rows,
    not the whole batch.
    """
    x, weight, lengths = recurrence.x, recurrence.weight, recurrence.lengths
    assert x is not None and weight is not None
    _, time, input_size = x.shape
    rest = _without_input(recurrence, weight)
    if time == 0:
        return rest
    newest_first = _newest_first(x, lengths)
    silence = _fed_with(recurrence, weight.new_empty(input_size, time - 1, 0), weight, None)
    powers, _ = run(replace(silence, h_0=weight.T, lengths=None, every_output=True))
    assert powers is not None
    # powers[i, j] = W^(j+1) U_i, for all steps except the newest.
    older = newest_first[:, 1:].transpose(1, 2).flatten(1)
    newest = torch.addmm(rest, newest_first[:, 0], weight.T)
    return torch.addmm(newest, older, powers.reshape(-1, recurrence.hidden_size))


def power_form(recurrence: Recurrence) -> Tensor:
    """Return the same as `kernel_form` from zero states in plain torch, by a few large products."""
    x, weight, bias, lengths = recurrence.x, recurrence.weight, recurrence.bias, recurrence.lengths
    assert x is not None and weight is not None
    batch, time, _ = x.shape
    steps = dense_powers(recurrence)
    rest = weight.new_zeros(batch, recurrence.hidden_size)
    if bias is not None and lengths is not None:
        sums = _powers_of(steps, bias[None], time).sum(1).cumsum(0)
        rest = torch.cat((rest[:1], sums))[lengths]
    elif bias is not None:  # blocks of steps one after another, starting with a short one
        first = _powers_of(steps, bias[None], DENSE_POWERS).sum(1)
        block, state = first.sum(0, keepdim=True), first[: time % DENSE_POWERS].sum(0, keepdim=True)
        for _ in range(time // DENSE_POWERS):
            state = torch.addmm(block, state, steps[-1])
        rest = state.expand_as(rest)
    powers = _powers_of(steps, weight.T, time).flatten(0, 1)
    return torch.addmm(rest, _newest_first(x, lengths).flatten(1), powers)


def _powers_of(steps: tuple[Tensor, ...], columns: Tensor, count: int) -> Tensor:
    """Return (lambda W)^j c for j < `count` and every c of `columns`, `(count, columns, hidden_size)`.

    The first `DENSE_POWERS` are computed by doubling, K = cat(K, K P) and P = P^2; then every further product
    adds the same number.
    """
    first = columns[None]
    for step in steps[:-1]:
        first = torch.cat((first, first @ step)) if len(first) < count else first
    blocks = [first]
    while len(blocks) * len(first) < count:
        blocks.append(blocks[-1] @ steps[-1])
    return torch.cat(blocks)[:count]


def _newest_first(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return the rows reversed in time, zero past their lengths."""
    reversed_rows = reverse_rows(x, lengths)
    if lengths is None:
        return reversed_rows
    steps = torch.arange(x.shape[1], device=x.device)
    return reversed_rows.masked_fill((steps >= lengths[:, None])[:, :, None], 0)


def _without_input(recurrence: Recurrence, weight: Tensor) -> Tensor:
    """Return W^l h_0 + sum_{j < l} W^j b_i for the length l of each row, `(batch, hidden_size)`."""
    batch, hidden_size, lengths = recurrence.batch, recurrence.hidden_size, recurrence.lengths
    if recurrence.h_0 is None and recurrence.bias is None:
        return weight.new_zeros(batch, hidden_size)
    rows = 1 if recurrence.h_0 is None else batch
    bias_alone = _fed_with(recurrence, weight.new_empty(rows, recurrence.time, 0), weight, recurrence.bias)
    if recurrence.h_0 is not None or lengths is None:
        _, last = run(bias_alone)
        return last.expand(batch, hidden_size)
    sums, _ = run(replace(bias_alone, lengths=None, every_output=True))
    assert sums is not None
    return torch.cat((sums.new_zeros(1, hidden_size), sums[0]))[lengths]


def _fed_with(recurrence: Recurrence, nothing: Tensor, weight: Tensor, bias: Tensor | None) -> Recurrence:
    """Return the recurrence with an input of no channels, `(rows, time, 0)`: z_t = b."""
    return replace(recurrence, x=nothing, weight=weight[:, :0], bias=bias)


def reverse_rows(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse every row in time, within its own length; padding stays in place."""
    if lengths is None:
        return x.flip(1)
    steps = torch.arange(x.shape[1], device=x.device)
    order = torch.where(steps < lengths[:, None], lengths[:, None] - 1 - steps, steps)
    return x.gather(1, order.reshape(order.shape + (1,) * (x.dim() - 2)).expand_as(x))


def choose_method(recurrence: Recurrence, native: bool) -> str:
    """Return "kernel", "scan" or (only without the native library) "loop"."""
    exporting = torch.compiler.is_exporting()  # the batch size is symbolic: costs cannot be compared
    if not exporting and kernel_is_possible(recurrence):
        is_cheaper = kernel_cost(recurrence) < scan_cost(recurrence)
        if is_cheaper if native else powers_are_cheaper(recurrence):
            return "kernel"
    return "scan" if native or recurrence.hidden_size >= DENSE_HIDDEN_SIZE else "loop"


def kernel_is_possible(recurrence: Recurrence) -> bool:
    """Return whether one matrix product can be used: last state only, linear, dense input, small enough."""
    x = recurrence.x
    if x is None or recurrence.weight is None or recurrence.has_output or recurrence.relu or x.shape[2] == 0:
        return False
    numbers = recurrence.time * x.shape[2] * recurrence.hidden_size
    return 2 * numbers * recurrence.signs.element_size() <= KERNEL_BYTES


def scan_cost(recurrence: Recurrence) -> float:
    """Return the cost of three transforms per row and step: forward, recomputed state and adjoint."""
    return recurrence.batch * recurrence.time * _step_cost(recurrence)


def kernel_cost(recurrence: Recurrence) -> float:
    """Return the cost of two transforms per column of U, three for b_i (or per row with h_0), two GEMMs."""
    batch, time, input_size = recurrence.rows.shape
    rows = 2 / 3 * input_size + (1 if recurrence.h_0 is None else batch)
    products = GEMM_COST * batch * time * input_size * recurrence.hidden_size
    return rows * time * _step_cost(recurrence) + products


def powers_are_cheaper(recurrence: Recurrence) -> bool:
    """Return whether dense powers of W cost less in plain torch than a few calls per step."""
    squares = DENSE_POWERS.bit_length() * recurrence.hidden_size**3 * SQUARE_COST
    return recurrence.h_0 is None and squares < recurrence.time * CALLS_COST


def _step_cost(recurrence: Recurrence) -> float:
    factors = order_factors(recurrence.block_size)
    stages = sum(log2(order) for order in factors if order <= 2)
    dense = sum(order for order in factors if order > 2)
    return recurrence.hidden_size * (STEP_COST + STAGE_COST * stages + FACTOR_COST * dense)


def _segment(recurrence: Recurrence) -> int:
    """Return the number of steps between two stored states, which depends only on the shape."""
    time = recurrence.time
    if torch.compiler.is_exporting():  # the length may be symbolic: use one segment and compare nothing
        return time
    if recurrence.is_irreversible:
        return _about_root(time)
    return max(MAX_KEPT_STATES, -(-time // MAX_KEPT_STATES))


def _as_tiles(recurrence: Recurrence) -> Recurrence:
    """Return a pooled recurrence for the native code, with tokens and wide inputs already projected."""
    exporting = torch.compiler.is_exporting()  # the length may be symbolic: it cannot be compared
    keep = exporting or _bits_bytes(recurrence) <= BITS_BYTES
    wants_states = not keep or recurrence.relu or recurrence.signs.requires_grad
    segment = recurrence.time
    if not exporting:
        segment = _about_root(recurrence.time) if wants_states else max(recurrence.time, 1)
    if recurrence.ids is not None or recurrence.is_wide:
        recurrence = with_rows(recurrence)
    return replace(recurrence, segment=segment, keep_bits=keep)


def _bits_bytes(recurrence: Recurrence) -> int:
    """Return the bytes that a tile's pools take to store the bits of all steps."""
    assert recurrence.thresholds is not None
    itemsize = recurrence.signs.element_size()
    words = -(-recurrence.hidden_size // (8 * itemsize))
    step = words * tile_rows(recurrence.signs.dtype) * recurrence.thresholds.shape[0] * itemsize
    return recurrence.time * step * len({"mean", "positive"} & {*recurrence.pools})


def _about_root(time: int) -> int:
    """Return approximately sqrt(time), at least 1. (torch.compile cannot trace math.isqrt.)"""
    return int(max(time - 1, 0) ** 0.5) + 1
