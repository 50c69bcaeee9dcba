"""The fast evaluators of h_t = f(W h_(t-1) + z_t). Each equals `hadamrnn.nn.loop.loop`.

    scan         one step after the other; natively fused where the library is there, else in torch
    reversible   a linear scan that keeps no state but the last and rebuilds h_(t-1) = W^-1 (h_t - z_t)
    kernel       K_j = W^j U for all j, then one product: h_T = sum_j K_j x_(T-j) + (what b_i and h_0 give)

The choice between them is made in `hadamrnn.nn.choice`.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from hadamrnn.kernels.library import load_library
from hadamrnn.kernels.problem import NARROW_INPUT
from hadamrnn.kernels.scan import scan as native_scan
from hadamrnn.nn.inputs import DenseInput, RecurrenceInput
from hadamrnn.nn.packing import reverse_rows
from hadamrnn.nn.transform import hadamard_transform
from hadamrnn.tracing import constant_when_traced

# A linear scan keeps at most this many states of a row, however long it is, and none closer than that.
MAX_KEPT_STATES = 64
# The projected rows of a wide input are made in chunks of about this size.
CHUNK_BYTES = 16 << 20


@dataclass(frozen=True)
class Recurrence:
    """f and W(u, v) of h_t = f(W h_(t-1) + z_t)."""

    signs: Tensor
    column_signs: Tensor | None
    block_size: int
    relu: bool


@dataclass(frozen=True)
class Readout:
    """y_t = V sigma(h_t) + b_o, sigma ReLU or the identity."""

    weight: Tensor
    bias: Tensor | None
    sigma: bool

    def __call__(self, states: Tensor) -> Tensor:
        return nn.functional.linear(states.relu() if self.sigma else states, self.weight, self.bias)


@constant_when_traced
def native_is_loaded() -> bool:
    return load_library() is not None


def runs_natively(signs: Tensor) -> bool:
    """Whether the native library is there and computes on tensors like this one."""
    return signs.device.type == "cpu" and signs.dtype in (torch.float32, torch.float64) and native_is_loaded()


def scan(
    inputs: RecurrenceInput,
    recurrence: Recurrence,
    h_0: Tensor | None,
    lengths: Tensor | None,
    *,
    every_output: bool = False,
    readout: Readout | None = None,
    reversible: bool = False,
) -> tuple[Tensor | None, Tensor]:
    """Return the states of all steps (or what `readout` makes of them, or None) and the last state."""
    if not runs_natively(recurrence.signs):
        return _torch_scan(inputs, recurrence, h_0, lengths, every_output, readout, reversible)
    output, last, _ = native_scan(
        inputs.x if isinstance(inputs, DenseInput) else None,
        None if isinstance(inputs, DenseInput) else inputs.ids,
        inputs.weight if isinstance(inputs, DenseInput) else inputs.table,
        inputs.bias if isinstance(inputs, DenseInput) else None,
        recurrence.signs,
        recurrence.column_signs,
        h_0,
        lengths,
        None if readout is None else readout.weight,
        None if readout is None else readout.bias,
        recurrence.block_size,
        recurrence.relu,
        readout is not None and readout.sigma,
        every_output,
        _segment(inputs, recurrence, reversible),
    )
    return (output if every_output or readout is not None else None), last


def _segment(inputs: RecurrenceInput, recurrence: Recurrence, reversible: bool) -> int:
    """Return the number of steps between two kept states: a function of the shape only."""
    batch, time = inputs.batch_and_time
    if isinstance(inputs, DenseInput) and inputs.x.shape[2] > NARROW_INPUT:
        row_bytes = recurrence.signs.shape[0] * recurrence.signs.element_size()
        return max(16, CHUNK_BYTES // max(batch * row_bytes, 1))
    if recurrence.relu:
        return _root(time)
    return max(time, 1) if reversible else max(MAX_KEPT_STATES, -(-time // MAX_KEPT_STATES))


def _root(time: int) -> int:
    """Return about sqrt(time), at least 1. (torch.compile cannot trace math.isqrt.)"""
    return int(max(time - 1, 0) ** 0.5) + 1


def kernel_form(
    inputs: DenseInput, recurrence: Recurrence, h_0: Tensor | None, lengths: Tensor | None
) -> Tensor:
    """Return the last state of a linear recurrence by one matrix product.

        h_l = sum_{j < l} W^j U x_(l-j) + (W^l h_0 + sum_{j < l} W^j b_i)

    The powers W^j U are the states of a scan without input that starts at the columns of U, and the
    bracket is a scan that is fed with b_i alone. Both cost transforms of a few rows, not of the batch.
    """
    batch, time = inputs.batch_and_time
    x, weight = inputs.x, inputs.weight
    hidden_size, input_size = weight.shape
    rest = _without_input(inputs, recurrence, h_0, lengths)
    if time == 0:
        return rest
    newest_first = reverse_rows(x, lengths)
    if lengths is not None:
        steps = torch.arange(time, device=x.device)
        newest_first = newest_first * (steps < lengths[:, None])[:, :, None]
    silence = DenseInput(x.new_empty(input_size, time - 1, 0), weight[:, :0], None)
    powers, _ = scan(silence, recurrence, weight.T, None, every_output=True)
    assert powers is not None
    # powers[i, j] = W^(j+1) U_i, for the steps before the newest one.
    older = newest_first[:, 1:].transpose(1, 2).reshape(batch, -1)
    newest = torch.addmm(rest, newest_first[:, 0], weight.T)
    return torch.addmm(newest, older, powers.reshape(-1, hidden_size))


def _without_input(
    inputs: DenseInput, recurrence: Recurrence, h_0: Tensor | None, lengths: Tensor | None
) -> Tensor:
    """Return W^l h_0 + sum_{j < l} W^j b_i for the length l of each row, `(batch, hidden_size)`."""
    batch, time = inputs.batch_and_time
    hidden_size = inputs.weight.shape[0]
    if h_0 is None and inputs.bias is None:
        return inputs.weight.new_zeros(batch, hidden_size)
    rows = 1 if h_0 is None else batch
    bias_alone = DenseInput(inputs.x.new_empty(rows, time, 0), inputs.weight[:, :0], inputs.bias)
    if h_0 is not None or lengths is None:
        _, last = scan(bias_alone, recurrence, h_0, lengths)
        return last.expand(batch, hidden_size)
    sums, _ = scan(bias_alone, recurrence, None, None, every_output=True)
    assert sums is not None
    return torch.cat((sums.new_zeros(1, hidden_size), sums[0]))[lengths]


def _torch_scan(
    inputs: RecurrenceInput,
    recurrence: Recurrence,
    h_0: Tensor | None,
    lengths: Tensor | None,
    every_output: bool,
    readout: Readout | None,
    reversible: bool,
) -> tuple[Tensor | None, Tensor]:
    """The scan in torch: fast transforms, and with `reversible` only about sqrt(time) states kept."""
    batch, time = inputs.batch_and_time
    signs = recurrence.signs
    h = signs.new_zeros(batch, signs.shape[0]) if h_0 is None else h_0
    z = inputs.projected()
    length = _root(time) if reversible else max(time, 1)
    outputs: list[Tensor] = []
    for start in range(0, time, length):
        rows = z[:, start : start + length]
        left = None if lengths is None else lengths - start
        arguments = (rows, recurrence, h, left, every_output, readout)
        if reversible and torch.is_grad_enabled():
            output, h = checkpoint(_torch_steps, *arguments, use_reentrant=False)
        else:
            output, h = _torch_steps(*arguments)
        if output is not None:
            outputs.append(output)
    if outputs:
        return torch.cat(outputs, dim=1), h
    empty = h.new_zeros(batch, 0, h.shape[1])
    if readout is not None:
        return readout(empty), h
    return (empty if every_output else None), h


def _torch_steps(
    z: Tensor,
    recurrence: Recurrence,
    h: Tensor,
    lengths: Tensor | None,
    every_output: bool,
    readout: Readout | None,
) -> tuple[Tensor | None, Tensor]:
    scaled_signs = recurrence.signs / recurrence.block_size**0.5
    states: list[Tensor] = []
    for t, z_t in enumerate(z.unbind(1)):
        switched = h if recurrence.column_signs is None else h * recurrence.column_signs
        new = hadamard_transform(switched, recurrence.block_size) * scaled_signs + z_t
        new = new.relu() if recurrence.relu else new
        if lengths is None:
            h = output = new
        else:
            alive = (t < lengths)[:, None]
            h, output = torch.where(alive, new, h), torch.where(alive, new, torch.zeros_like(new))
        if every_output or readout is not None:
            states.append(output)
    stacked = torch.stack(states, dim=1) if states else None
    return (stacked if readout is None or stacked is None else readout(stacked)), h
