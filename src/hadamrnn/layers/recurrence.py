"""h_t = W h_(t-1) + U x_t + b_i: the evaluators, and the choice between them.

`run_recurrence` is the one door. Every evaluator gives what `hadamrnn.layers.loop` gives.
"""

from __future__ import annotations

from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.layers.inputs import RecurrenceInput
from hadamrnn.layers.loop import loop

EVALUATORS = ("auto", "loop")


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
    if evaluator not in EVALUATORS:
        raise InputError(f"evaluator must be one of {', '.join(EVALUATORS)}, got {evaluator!r}.")
    batch, _ = inputs.batch_and_time
    start = signs.new_zeros(batch, signs.shape[0]) if h_0 is None else h_0
    output, last = loop(
        inputs,
        signs,
        column_signs=column_signs,
        block_size=block_size,
        h_0=start,
        lengths=lengths,
        recurrence=recurrence,
    )
    return (output if every_output else None), last
