"""How pooled read-outs are handed to the native library: the work behind the operators of `pooling`.

The native code takes the batch in tiles, as many rows as a vector has lanes. `Pools` is what a forward pass
leaves: features, the last state, and for the backward pass bits, steps and a few states, by tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from hadamrnn.kernels.backend import check_array, constant_when_traced
from hadamrnn.kernels.call import MAX_SLICES, Call, backward_slices, check, num_checkpoints
from hadamrnn.kernels.library import PoolArgs, native_kernel
from hadamrnn.kernels.recurrence import Recurrence
from hadamrnn.kernels.threads import run_slices, sum_slices

POOLS = ("mean", "positive", "max")
# Of the bits that are kept for a tile of rows: 16,384 steps of 128 units.
BITS_BYTES = 4 << 20


class Pools(NamedTuple):
    """Tensors `(0,)` where not wanted; see `PoolArgs` in native/hadamrnn.h for the shapes."""

    mean: Tensor
    positive: Tensor
    max: Tensor
    last: Tensor
    mean_bits: Tensor
    positive_bits: Tensor
    max_steps: Tensor
    checkpoints: Tensor


def bits_are_kept(recurrence: Recurrence, thresholds: Tensor, wanted: Sequence[bool]) -> bool:
    """Whether the bits of all steps of a tile fit into `BITS_BYTES`; else they are recomputed."""
    words = -(-recurrence.hidden_size // (8 * thresholds.element_size()))
    step = words * tile_rows(thresholds.dtype) * thresholds.numel() // recurrence.hidden_size
    return recurrence.time * step * thresholds.element_size() * sum(wanted[:2]) <= BITS_BYTES


@constant_when_traced
def tile_rows(dtype: torch.dtype) -> int:
    """Return how many rows of the batch lie in the lanes of a vector."""
    return native_kernel("tile_rows", dtype)()


def empty_pools(recurrence: Recurrence, thresholds: Tensor, wanted: Sequence[bool], keep: bool) -> Pools:
    """Return the results, to be filled in; with the bits of all steps if they are to be kept."""
    batch, hidden, count = recurrence.batch, recurrence.hidden_size, thresholds.shape[0]
    new, dtype = recurrence.signs.new_empty, recurrence.signs.dtype
    lanes = tile_rows(dtype)
    tiles, words = -(-batch // lanes), -(-hidden // (8 * dtype.itemsize))
    integer = torch.int32 if dtype == torch.float32 else torch.int64
    mean, positive, most = wanted

    # What lies in tiles is flat: a dimension of one tile would tie a traced batch to the size of a tile.
    def marks(is_wanted: bool) -> Tensor:
        return new(
            tiles * recurrence.time * count * words * lanes if is_wanted and keep else 0, dtype=integer
        )

    return Pools(
        new((batch, count, hidden) if mean else (0,)),
        new((batch, count, hidden) if positive else (0,)),
        new((batch, hidden) if most else (0,)),
        new(batch, hidden),
        marks(mean),
        marks(positive),
        new(tiles * hidden * lanes if most else 0, dtype=integer),
        new(tiles * num_checkpoints(recurrence) * hidden * lanes),
    )


def pool_forward(recurrence: Recurrence, thresholds: Tensor, wanted: Sequence[bool], keep: bool) -> Pools:
    check(recurrence)
    pools = empty_pools(recurrence, thresholds, wanted, keep)
    if recurrence.lengths is not None:  # rows that end early leave these as they are
        for left in (pools.mean_bits, pools.positive_bits, pools.checkpoints):
            left.zero_()
    pools.max_steps.fill_(-1)
    call = _PoolCall(recurrence, thresholds, MAX_SLICES)
    call.point("last", pools.last)
    call.point_tiles(pools)
    for name in POOLS:
        call.point_pool(name, getattr(pools, name))
    call.run("pool_forward")
    return pools


def pool_backward(
    recurrence: Recurrence,
    thresholds: Tensor,
    gradients: Sequence[Tensor | None],
    grad_last: Tensor | None,
    pools: Pools,
    keep: bool,
    wanted: Sequence[str],
) -> dict[str, Tensor]:
    """Return the gradients of the fields `wanted`, "thresholds" among them, from those of the pools."""
    call = _PoolCall(recurrence, thresholds, backward_slices(recurrence))
    call.point("grad_last", grad_last)
    call.point_tiles(pools)
    call.args.replay = not keep or recurrence.relu or "signs" in wanted or "column_signs" in wanted
    for name, gradient in zip(POOLS, gradients, strict=True):
        call.point_pool(f"grad_{name}", gradient)
    grad_thresholds = thresholds.new_empty(call.num_slices, *thresholds.shape)
    call.point_pool("grad_thresholds", grad_thresholds if "thresholds" in wanted else None)
    found = call.gradients("pool_backward", [name for name in wanted if name != "thresholds"])
    return found | ({"thresholds": sum_slices(grad_thresholds)} if "thresholds" in wanted else {})


class _PoolCall(Call):
    """A filled-in `PoolArgs`, whose `scan` is the recurrence without a read-out."""

    def __init__(self, recurrence: Recurrence, thresholds: Tensor, slices: int) -> None:
        tiles = -(-recurrence.batch // tile_rows(recurrence.signs.dtype))
        super().__init__(
            replace(recurrence, output_weight=None, output_bias=None), min(slices, max(tiles, 1))
        )
        self.pool_args = PoolArgs(num_thresholds=thresholds.shape[0])
        pooled = (recurrence.batch, *thresholds.shape)
        per_row = {"mean": pooled, "positive": pooled, "max": (recurrence.batch, recurrence.hidden_size)}
        self.pool_shapes = {
            "thresholds": tuple(thresholds.shape),
            "grad_thresholds": (self.num_slices, *thresholds.shape),
            **per_row,
            **{f"grad_{name}": shape for name, shape in per_row.items()},
        }
        self.point_pool("thresholds", thresholds)

    def point_pool(self, name: str, tensor: Tensor | None) -> None:
        """Point the field `name` of `PoolArgs` at the tensor, unless it is `(0,)` or None."""
        if tensor is not None and tensor.dim() > 1:
            check_array(name, tensor, self.dtype, self.pool_shapes[name])
            tensor = self.tensors[name] = tensor.contiguous()
            setattr(self.pool_args, name, tensor.data_ptr())

    def point_tiles(self, pools: Pools) -> None:
        """Point at what lies in tiles, which `empty_pools` has made."""
        for name in ("mean_bits", "positive_bits", "max_steps"):
            setattr(self.pool_args, name, getattr(pools, name).data_ptr())
        self.args.checkpoints = pools.checkpoints.data_ptr() if pools.checkpoints.numel() else None

    def run(self, kernel: str) -> None:
        self.pool_args.scan = self.args
        run_slices(native_kernel(kernel, self.dtype), self.pool_args, self.num_slices)
