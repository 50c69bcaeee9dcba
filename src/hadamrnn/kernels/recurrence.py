"""One recurrence over one batch: its weights, its input, and what is asked of it.

A layer makes a `Recurrence`, every method takes it, and its fields are the arguments of the operator
`hadamrnn::scan`. A new kind of recurrence is a new field here.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Any

from torch import Tensor
from torch.nn.functional import embedding, linear

from hadamrnn.kernels.backend import check_ids

# Inputs up to this width are projected inside the native loop, step by step.
NARROW_INPUT = 16


@dataclass(frozen=True)
class Recurrence:
    """h_t = f(lambda W h_(t-1) + z_t), W = diag(u) (I_q kron H_b) diag(v) / sqrt(b), y_t = V sigma(h_t) + b_o

    Args:
        signs: u, `(hidden_size,)`.
        block_size: b, side of one block; divides `hidden_size`.
        decay: lambda, `(hidden_size,)`, constants in (0, 1] that get no gradient; without it 1.
        relu: whether f is ReLU; else it is the identity.
        x, weight, bias: z_t = U x_t + b_i with x `(batch, time, input_size)`, U `(hidden_size, input_size)`
            (an `input_size` of 0 leaves z_t = b_i); without weight z_t = x_t.
        ids, weight: in place of x: z_t = weight[id_t] with ids int64 `(batch, time)`,
            weight `(num_ids, hidden_size)`.
        h_0: `(batch, hidden_size)`, zeros by default; pooled recurrences start at zero.
        lengths: int64 `(batch,)`, how many steps of each row count; all by default. Past its length the state
            of a row stands still and its output is zero.
        every_output: whether the states of all steps are wanted.
        output_weight, output_bias: V `(output_size, hidden_size)` and b_o: every y_t is wanted instead.
        sigma: whether V sees ReLU(h_t) instead of h_t.
        pools: some of mean, positive and max: these summaries of all steps are wanted.
        thresholds: theta of mean and positive, `(count, hidden_size)`, constants; with `pools` only.
        keep_bits: whether the native pools keep the bits of all steps for their backward pass.
        segment: steps between two states that the native scan keeps for its backward pass.
        column_signs: v, `(hidden_size,)`; without it 1. Plain torch only.
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
        """x or the ids: `(batch, time, ...)`."""
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
        """Whether h_(t-1) cannot be found from h_t: f loses it, or 1 / lambda would blow up its rounding."""
        return self.relu or self.decay is not None

    @property
    def has_output(self) -> bool:
        """Whether something of every step is wanted: h_t or y_t."""
        return self.every_output or self.output_weight is not None

    def arguments(self) -> tuple[Any, ...]:
        """Return the fields in order, as the operator takes them."""
        return tuple(getattr(self, name) for name in FIELDS)

    def projected(self) -> Tensor:
        """Return every z_t, `(batch, time, hidden_size)`."""
        if self.weight is None:
            return self.rows
        if self.ids is not None:
            check_ids(self.ids, self.weight.shape[0])
            return embedding(self.ids, self.weight)
        return linear(self.rows, self.weight, self.bias)

    def with_rows(self) -> Recurrence:
        """Return the same recurrence with every z_t as its input, in place of x or ids and their weight."""
        return replace(self, x=self.projected(), ids=None, weight=None, bias=None)

    def start(self) -> Tensor:
        """Return h_0, `(batch, hidden_size)`."""
        return self.signs.new_zeros(self.batch, self.hidden_size) if self.h_0 is None else self.h_0

    def read_out(self, states: Tensor) -> Tensor:
        """Return y_t = V sigma(h_t) + b_o of `(..., hidden_size)` states; without V the states."""
        if self.output_weight is None:
            return states
        return linear(states.relu() if self.sigma else states, self.output_weight, self.output_bias)


# The fields that the operator takes, and those that may get a gradient.
FIELDS = tuple(field.name for field in fields(Recurrence) if field.name != "column_signs")
DIFFERENTIABLE = ("x", "weight", "bias", "signs", "h_0", "output_weight", "output_bias")
_SCHEMA_TYPES = {
    "Tensor": "Tensor",
    "Tensor | None": "Tensor?",
    "int": "int",
    "bool": "bool",
    "tuple[str, ...]": "str[]",
}
# The operator's arguments, in the language of torch.library.
SCHEMA = ", ".join(
    # A program that is exported with an open length takes it as its segment.
    f"{'SymInt' if field.name == 'segment' else _SCHEMA_TYPES[str(field.type)]} {field.name}"
    for field in fields(Recurrence)
    if field.name in FIELDS
)
