"""Fit a reservoir in closed form: draw a pool of features, prune it, solve for V, and round V.

The fit uses the codes and counts that a device computes, so the fitted network already is the integer
network. Only V is rounded, with a power of two for every feature (`share_codes`). The kinds of features are
selected by the leave-one-out error of the whole pool, before pruning biases it. With many series, a subset
selects the features and all series fit the read-out. Start reading at `fit_counted`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.estimators.pool import KINDS, Codes, Lengths, Pool, draw_pool
from hadamrnn.estimators.pruning import Costs, PoolRows, prune
from hadamrnn.estimators.ridge import Moments, Solution, cross_validate, solve
from hadamrnn.estimators.rounding import LEAST_CURVATURE, share_codes
from hadamrnn.estimators.selection import Cost
from hadamrnn.estimators.series import Scaling, Series
from hadamrnn.estimators.target import Target, spread_out
from hadamrnn.fixedpoint.encoding import encode_inputs, encode_values
from hadamrnn.quantization.calibration import Coding, raw_fields
from hadamrnn.reservoir import IntegerReservoir, Reservoir
from hadamrnn.reservoir.cost import reservoir_size, reservoir_step_cost
from hadamrnn.reservoir.description import BLOCK

INPUT_BITS = 12
CANDIDATES = (1, 2, 3)  # how many KINDS of features a network may combine
LESS_ERROR = 0.95  # a further kind must reduce the error to this fraction
HEADROOM = 1.5  # input codes reach this multiple of the largest training value, so few are clipped later
SEARCH_SERIES = 1000  # most series that select kinds and features; with more, folds are left out
FOLDS = 5
PRUNING_PENALTY = 10  # ridge penalty while pruning, as a multiple of that for the whole pool
KEPT_SERIES = 2000  # most series whose held-out predictions select penalty and temperature
CODE_BITS = 15  # bits of a feature's code, which is a fraction of steps
BLOCK_BYTES, FEATURE_BYTES, COUNTER_BYTES = 10, 2.5, 2  # approximate costs used in pruning


@dataclass(frozen=True, eq=False)
class SeriesEncoding:
    """The encoding of series as input codes, with the fields of `fixedpoint.encoding`."""

    input_size: int
    input_scale: float
    raw_unit: float
    raw_offset: NDArray[np.int32] | None = None
    raw_multiplier: NDArray[np.int32] | None = None
    raw_shift: NDArray[np.int32] | None = None
    raw_knee: NDArray[np.int32] | None = None
    input_bits: int = INPUT_BITS
    input_kind: str = "dense"

    @classmethod
    def of(cls, scaling: Scaling, series: Series) -> SeriesEncoding:
        """Return an encoding with headroom for larger values, of raw codes if one unit suits all channels."""
        largest = HEADROOM * max(
            float(np.abs(scaling.split(series.at(rows), np.float64).x.numpy()).max(initial=0.0))
            for rows in np.array_split(np.arange(len(series)), -(-len(series) // KEPT_SERIES))
        )
        if scaling.unit is None:
            return cls(series.channels, largest or 1.0, 1.0)
        return cls.reaching(largest or 1.0, scaling)

    @classmethod
    def reaching(cls, largest: float, scaling: Scaling, raw_unit: float | None = None) -> SeriesEncoding:
        """Return an encoding whose largest code represents this standardised value."""
        raw, channels = scaling.raw_inputs(raw_unit), len(scaling.scale)
        return cls(channels, largest, raw.unit, **raw_fields(channels, raw, Coding(INPUT_BITS, largest)))

    @property
    def fields(self) -> dict[str, Any]:
        """The fields of an integer network that describe the encoding."""
        names = ("input_scale", "raw_offset", "raw_multiplier", "raw_shift", "raw_knee")
        return {name: getattr(self, name) for name in names}

    def codes(self, scaling: Scaling, series: Series) -> Codes:
        """Return the codes of series, which `scaling` standardises."""
        found = np.empty(series.values.shape, np.int32)
        for part, values in series.parts():
            if self.raw_offset is None:
                inputs = scaling.split(Series(values), np.float64).x.numpy()
                found[part], _ = encode_inputs(self, inputs)
            else:
                found[part], _ = encode_values(self, values)
        return found


@dataclass(frozen=True, eq=False)
class FitPlan:
    """The settings and limits of a fit.

    Args:
        network: sizes of input and output, and bits of V and of the input codes.
        inputs: encoding of series as codes.
        max_bytes: one size limit for each network, descending.
        max_ram: limit on the RAM of their states, if any.
    """

    network: Reservoir
    inputs: SeriesEncoding
    max_bytes: Sequence[int]
    max_ram: int | None = None


@dataclass(frozen=True, eq=False)
class Counted:
    """A fitted network: the kept features, the integers, and the ridge penalty of the read-out."""

    pool: Pool
    network: IntegerReservoir
    penalty: float
    plan: FitPlan
    described: str  # a description of the fit for the user


def fit_counted(
    codes: Codes,
    lengths: Lengths,
    target: Target,
    plan: FitPlan,
    seed: int,
    log: Callable[[str], None],
) -> list[Counted]:
    """Fit a network to all series for each size limit of the plan.

    Args:
        codes: input codes of the series, `(n, time, channels)`, valid up to their lengths.
        target: target of the series.
        seed: seed of the pool.
        log: receives lines on what was selected.
    """
    counted = target.weights.nonzero()[:, 0]  # drop classes of weight 0
    codes, lengths, target = codes[counted.numpy()], lengths[counted.numpy()], target.at(counted)
    index = spread_out(target.weights, SEARCH_SERIES)
    some = target.at(index)
    folds = target.folds(FOLDS)[index] if len(codes) > SEARCH_SERIES else None
    rows = index.numpy()
    pool = draw_pool(codes[rows], lengths[rows], some.weights.numpy(), plan.network, seed)
    features = PoolRows.of(pool.shares(codes[rows], lengths[rows]), some)
    kinds, gram, penalty = _best_kinds(pool, features, folds)
    log(f"chose {kinds.sum()} features by cross-validation, ridge penalty {penalty:.3g}")
    limits = [lambda kept, most=most: _fits(pool.keep(kept), plan, most) for most in plan.max_bytes]
    masks = prune(features, kinds, gram, PRUNING_PENALTY * penalty, _costs(pool, plan), limits)
    del features, gram
    found = []
    for kept, most in zip(masks, plan.max_bytes, strict=True):
        small = pool.keep(kept)
        if not _fits(small, plan, most):
            least = cost_of(small)
            raise InputError(
                f"The smallest network here takes {least.bytes} bytes and {least.ram} bytes of RAM, got "
                f"max_bytes {most} and max_ram {plan.max_ram}. Allow more."
            )
        found.append(with_readout(small, codes, lengths, target, plan))
        log(f"kept {len(small.features)} features, {found[-1].described}")
    return found


def _best_kinds(pool: Pool, rows: PoolRows, folds: Tensor | None) -> tuple[NDArray[np.bool_], Tensor, float]:
    """Select the kinds of features by cross-validation; return features, Gram matrix and penalty."""
    gram = torch.zeros(len(rows.z), len(rows.z), dtype=torch.float64)
    least, found = float("inf"), (pool.of_kinds(()), gram, 1.0)
    for count, kind in enumerate(KINDS, 1):
        own = pool.of_kinds((kind,))
        rows.add_gram(gram, own)
        if own.any() and count in CANDIDATES:
            error, penalty = cross_validate(gram, rows.target, folds)
            if error < LESS_ERROR * least:
                least, found = error, (pool.of_kinds(KINDS[:count]), gram.clone(), penalty)
    return found


def with_readout(
    pool: Pool, codes: Codes, lengths: Lengths, target: Target, plan: FitPlan, others: Moments | None = None
) -> Counted:
    """Fit a read-out of a pool's features to all series, and return the network.

    Args:
        others: moments of more series.
    """
    solution, moments, some = solve_all(pool, codes, lengths, target, others)
    described = f"ridge penalty {solution.penalty:.3g}, {some.describe(solution.held_out)}"
    return Counted(pool, lowered(pool, solution, some, moments, plan), solution.penalty, plan, described)


def _fits(pool: Pool, plan: FitPlan, max_bytes: int) -> bool:
    """Return whether a network with all features of a pool is small enough."""
    size = reservoir_size(pool.features)
    return size.bytes <= max_bytes and (plan.max_ram is None or size.state_bytes <= plan.max_ram)


def cost_of(pool: Pool) -> Cost:
    """Return the cost of a network with all features of a pool; operations are the mean per input step."""
    size, step = reservoir_size(pool.features), reservoir_step_cost(pool.features).total
    return Cost(size.bytes, step.multiplications, step.additions, size.state_bytes)


def _costs(pool: Pool, plan: FitPlan) -> Costs:
    """Return the bytes of each block and of a feature, counting their states if RAM is limited."""
    network = pool.network
    of_block = [float(BLOCK_BYTES)] * network.num_blocks
    of_feature = FEATURE_BYTES + network.weight_bits * network.output_size / 8
    if plan.max_ram is not None:
        phases = np.repeat([group.dilation for group in network.groups], [g.blocks for g in network.groups])
        of_block = (BLOCK_BYTES + 2 * BLOCK * phases).tolist()
        of_feature += COUNTER_BYTES
    return Costs(pool.features.unit // BLOCK, np.array(of_block), of_feature)


def solve_all(
    pool: Pool, codes: Codes, lengths: Lengths, target: Target, others: Moments | None = None
) -> tuple[Solution, Moments, Target]:
    """Fit the read-out to all series; also return their moments and the target of the held-out series.

    If only some series are held out, consecutive stretches of them select the penalty. Single series would
    be predicted too well at any penalty by overlapping neighbours.

    Args:
        others: moments of more series.
    """
    index = spread_out(target.weights, KEPT_SERIES)
    features, some = features_of(pool, codes[index.numpy()], lengths[index.numpy()]), target.at(index)
    if len(index) == len(codes) and others is None:
        solution = solve(features, some)
        return solution, solution.moments or Moments.of(features, some), some
    moments = moments_of(pool, codes, lengths, target)
    moments = moments if others is None else moments + others
    penalty = solve(features, some, folds=target.folds(FOLDS)[index]).penalty
    return solve(features, some, (penalty,), moments=moments), moments, some


def features_of(pool: Pool, codes: Codes, lengths: Lengths) -> Tensor:
    """Return the features of the series for the ridge regression, float64 `(n, features)`."""
    return torch.from_numpy(pool.shares(codes, lengths)).double()


def moments_of(pool: Pool, codes: Codes, lengths: Lengths, target: Target) -> Moments:
    """Return the moments of any number of series, computed in parts."""
    found = None
    for rows in torch.arange(len(codes)).split(KEPT_SERIES):
        part = slice(int(rows[0]), int(rows[-1]) + 1)
        more = Moments.of(features_of(pool, codes[part], lengths[part]), target.at(rows))
        found = more if found is None else found + more
    assert found is not None
    return found


def lowered(
    pool: Pool, solution: Solution, target: Target, moments: Moments, plan: FitPlan
) -> IntegerReservoir:
    """Build the integer network with a read-out.

    Args:
        target: target of the rows that `solution.held_out` predicts.
        moments: moments of the rows that the read-out was fitted to.
    """
    network, scale, spread = pool.network, target.scale(solution.held_out), solution.spread
    first = solution.coefficients.shape[1] - network.output_size  # for two classes, only the second's output
    per_unit = (scale * solution.coefficients / spread[:, None])[:, first:]
    curvature = moments.covariance / spread / spread[:, None]
    curvature.diagonal().add_(max(solution.penalty, LEAST_CURVATURE) * solution.weight)
    rounded = share_codes(per_unit, spread, curvature, network.weight_bits)
    bias = scale * solution.intercept[first:] - solution.mean @ rounded.weight
    codes, exponents = rounded.codes.T.numpy().astype(np.int64), rounded.exponents.numpy().astype(np.int64)
    unit = rounded.step * 2.0**-CODE_BITS
    reach = (np.abs(codes) << (CODE_BITS - exponents)).sum(1) + np.abs(bias.numpy()) / unit
    coarser = max(0, int(np.ceil(np.log2(reach.max() / 2**31 + 1e-9))))
    exponents, unit = exponents + coarser, unit * 2.0**coarser
    whole = bias.numpy() / unit
    shift = max(0, int(np.ceil(np.log2(np.abs(whole).max() / 32767 + 1e-9))))
    return IntegerReservoir(
        network,
        pool.units,
        pool.features,
        np.minimum(exponents, CODE_BITS),
        codes,
        np.rint(whole / 2**shift).astype(np.int64),
        shift,
        logit_scale=unit,
        **plan.inputs.fields,
    )
