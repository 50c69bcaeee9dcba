"""Which evaluator computes a recurrence: a small cost model of the shape.

Costs count vector operations on one number. They need not be exact: near a tie either choice is good.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2

# The kernel form keeps the powers W^j U and their gradient; above this size the scan takes over.
KERNEL_BYTES = 64 << 20
# A number of a row takes log2(block_size) additions in the transform, and about as much again as this for
# the input, the signs and the gradients.
STEP_OVERHEAD = 6.0
# A multiply-add inside a GEMM, which keeps its operands in registers.
GEMM_COST = 0.5
# Without the native library a step is a few torch calls: dense products win for hidden sizes below this.
DENSE_HIDDEN_SIZE = 256


@dataclass(frozen=True)
class Shape:
    """What the choice depends on."""

    batch: int
    time: int
    hidden_size: int
    block_size: int
    input_size: int | None  # None: tokens
    every_output: bool
    relu: bool
    has_h_0: bool
    itemsize: int


def choose_evaluator(shape: Shape, native: bool) -> str:
    """Return "kernel", "scan" or (only without the native library) "loop".

    >>> mnist = Shape(64, 784, 512, 512, 1, every_output=False, relu=False, has_h_0=False, itemsize=4)
    >>> choose_evaluator(mnist, native=True)
    'kernel'
    """
    if kernel_is_possible(shape) and kernel_cost(shape) < scan_cost(shape):
        return "kernel"
    return "scan" if native or shape.hidden_size >= DENSE_HIDDEN_SIZE else "loop"


def kernel_is_possible(shape: Shape) -> bool:
    """Whether one matrix product gives the result: last state, linear, dense input, and it fits."""
    if shape.every_output or shape.relu or shape.input_size is None:
        return False
    return 2 * shape.time * shape.input_size * shape.hidden_size * shape.itemsize <= KERNEL_BYTES


def scan_cost(shape: Shape) -> float:
    """Three transforms of every row and step: forward, rebuilding the state, and the adjoint."""
    return 3.0 * shape.batch * shape.time * _step_cost(shape)


def kernel_cost(shape: Shape) -> float:
    """Two transforms of every column of U, three of b_i (or of every row with initial states), two GEMMs."""
    assert shape.input_size is not None
    transforms = 2.0 * shape.input_size * shape.time * _step_cost(shape)
    rest = 3.0 * (shape.batch if shape.has_h_0 else 1) * shape.time * _step_cost(shape)
    products = 2.0 * GEMM_COST * shape.batch * shape.time * shape.input_size * shape.hidden_size
    return transforms + rest + products


def _step_cost(shape: Shape) -> float:
    return shape.hidden_size * (log2(shape.block_size) + STEP_OVERHEAD)
