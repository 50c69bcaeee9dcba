"""h_t = W h_(t-1) + U x_t + b_i: the one door to the evaluators.

`run_recurrence` gives states, `run_readout` what V makes of them. Every evaluator gives what
`hadamrnn.nn.loop` gives; "auto" takes the cheapest (see `hadamrnn.nn.choice`) and says at
debug level which.
"""

from __future__ import annotations

import logging

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.nn.choice import Shape, choose_evaluator
from hadamrnn.nn.evaluators import Readout, Recurrence, kernel_form, runs_natively, scan
from hadamrnn.nn.inputs import DenseInput, RecurrenceInput
from hadamrnn.nn.loop import loop

EVALUATORS = ("auto", "loop", "scan", "reversible", "kernel")

_log = logging.getLogger(__name__)


def run_recurrence(
    inputs: RecurrenceInput,
    signs: Tensor,
    *,
    column_signs: Tensor | None = None,
    block_size: int,
    h_0: Tensor | None = None,
    lengths: Tensor | None = None,
    recurrence: str = "linear",
    every_output: bool = True,
    evaluator: str = "auto",
) -> tuple[Tensor | None, Tensor]:
    """Run h_t = W(u, v) h_(t-1) + z_t, with ReLU around it if `recurrence` is "relu".

    Args:
        inputs: z_t in one of its forms, `batch` rows of `time` steps.
        signs: u, shape `(hidden_size,)`; `column_signs`: v, or None for v = 1.
        block_size: side of one Hadamard block of W.
        h_0: `(batch, hidden_size)`, zeros by default.
        lengths: int64 `(batch,)`, how many steps of each row count; all by default.
        every_output: whether the states of all steps are wanted.
        evaluator: one of `EVALUATORS`.

    Returns:
        The states `(batch, time, hidden_size)`, zero past a row's length (None unless `every_output`),
        and the state at each row's end, `(batch, hidden_size)`.
    """
    weight = Recurrence(signs, column_signs, block_size, recurrence == "relu")
    name = _evaluator(evaluator, inputs, weight, every_output=every_output, has_h_0=h_0 is not None)
    if name == "kernel":
        assert isinstance(inputs, DenseInput)
        return None, kernel_form(inputs, weight, h_0, lengths)
    if name == "loop":
        output, last = _loop(inputs, weight, h_0, lengths)
        return (output if every_output else None), last
    return scan(inputs, weight, h_0, lengths, every_output=every_output, reversible=name == "reversible")


def run_readout(
    inputs: RecurrenceInput,
    signs: Tensor,
    *,
    output_weight: Tensor,
    output_bias: Tensor | None,
    sigma: bool,
    column_signs: Tensor | None = None,
    block_size: int,
    h_0: Tensor | None = None,
    lengths: Tensor | None = None,
    recurrence: str = "linear",
    evaluator: str = "auto",
) -> Tensor:
    """Return y_t = V sigma(h_t) + b_o for every step, `(batch, time, output_size)`; no state is kept.

    Args: as in `run_recurrence`, and
        output_weight: V, `(output_size, hidden_size)`; `output_bias`: b_o, `(output_size,)`.
        sigma: whether V sees ReLU(h_t) instead of h_t.
    """
    weight = Recurrence(signs, column_signs, block_size, recurrence == "relu")
    readout = Readout(output_weight, output_bias, sigma)
    name = _evaluator(evaluator, inputs, weight, every_output=True, has_h_0=h_0 is not None)
    if name == "loop":
        return readout(_loop(inputs, weight, h_0, lengths)[0])
    logits, _ = scan(inputs, weight, h_0, lengths, readout=readout, reversible=name == "reversible")
    assert logits is not None
    return logits


def _loop(
    inputs: RecurrenceInput, weight: Recurrence, h_0: Tensor | None, lengths: Tensor | None
) -> tuple[Tensor, Tensor]:
    batch, _ = inputs.batch_and_time
    return loop(
        inputs,
        weight.signs,
        column_signs=weight.column_signs,
        block_size=weight.block_size,
        h_0=weight.signs.new_zeros(batch, weight.signs.shape[0]) if h_0 is None else h_0,
        lengths=lengths,
        recurrence="relu" if weight.relu else "linear",
    )


def _evaluator(
    wanted: str, inputs: RecurrenceInput, weight: Recurrence, *, every_output: bool, has_h_0: bool
) -> str:
    """Return the evaluator to use; refuse one that cannot compute what is asked for."""
    is_dense = isinstance(inputs, DenseInput)
    if wanted not in EVALUATORS:
        raise InputError(f"evaluator must be one of {', '.join(EVALUATORS)}, got {wanted!r}.")
    if wanted == "kernel" and (every_output or weight.relu or not is_dense):
        raise InputError(
            "The kernel form gives the last state of a linear recurrence with dense input only. "
            'Use evaluator="auto", which chooses what fits.'
        )
    if wanted == "reversible" and weight.relu:
        raise InputError('A ReLU recurrence cannot be run backwards. Use evaluator="scan" or "auto".')
    if wanted != "auto":
        return wanted
    batch, time = inputs.batch_and_time
    shape = Shape(
        batch=batch,
        time=time,
        hidden_size=weight.signs.shape[0],
        block_size=weight.block_size,
        input_size=inputs.x.shape[2] if isinstance(inputs, DenseInput) else None,
        every_output=every_output,
        relu=weight.relu,
        has_h_0=has_h_0,
        itemsize=weight.signs.element_size(),
    )
    native = runs_natively(weight.signs)
    chosen = choose_evaluator(shape, native)
    if not torch.compiler.is_compiling():
        _log.debug("%s (%s) for %s", chosen, "native" if native else "torch", shape)
    return chosen
