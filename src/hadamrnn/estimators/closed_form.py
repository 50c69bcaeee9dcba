"""Fit a network in closed form: select random weights, solve for V, and round it.

Signs, U, b_i and thresholds stay random. V and b_o come from `ridge`, and V is rounded to its grid, with a
power of two for every feature:

    V z = sum_i code_i step 2^-e_i (f_i - m_i)

The exponents e are shifts on the device. They are chosen so that the largest coefficient of each feature is
near an end of the grid, so few bits suffice. Features are rounded one after another, and the remaining
coefficients are adjusted to compensate.

Quantization rounds thresholds to codes of the states. This shifts a feature by the same amount for every
series, and many such shifts add up in the logits. So thresholds are rounded before V is solved for.
The result is an ordinary `SequenceModel`. Start reading at `fit_closed_form`.

If data arrive in parts (`SampleStream`), the first samples determine the network, and the moments of the
regression are summed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from hadamrnn.architecture import WeightBits
from hadamrnn.data.splits import Split
from hadamrnn.estimators.ridge import Moments, Solution, row_parts, solve
from hadamrnn.estimators.rounding import LEAST_CURVATURE, successive
from hadamrnn.estimators.selection import (
    ParameterSpace,
    draw_network,
    features_of,
    folds_of_many,
    select,
    some_of,
    state_bits,
)
from hadamrnn.estimators.series import Samples, Scaling
from hadamrnn.estimators.target import Target
from hadamrnn.fixedpoint.integers import signed_range
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.weight import recurrent_weight
from hadamrnn.quantization.calibration import Calibration, calibrate, forward_layers
from hadamrnn.quantization.chain import calibration_batches
from hadamrnn.quantization.lowering import can_lower, state_lsb

MOST_APART = 10  # largest difference of exponents: 15 is allowed, but kinds of features differ as well
MOST_FEATURES = 2000  # limit for compensating rounding errors, which inverts a matrix of this size
KEPT_SERIES = 2000  # most series used to select the network, the penalty and the temperature
CALIBRATION_SAMPLES = 10_000
INTEGRATOR_LEAK = (1, 3, 5)  # k of the integrators of each channel
INTEGRATOR_READOUTS = (("last", "mean"), ("last", "mean", "max"))
RANDOM_BLOCK, RANDOM_LEAK = 32, (1, 2, 4, 6)
RANDOM_UNITS = (32, 128)
ROWS = 1 << 12  # series processed at once
# Relative to the best other network's error: with about the same error, a linear network extrapolates better.
LINEAR_MARGIN = 1.05


@dataclass(frozen=True, eq=False)
class ClosedForm:
    """A fitted network with the ranges of its states and inputs, and the ridge penalty of its read-out."""

    model: SequenceModel
    calibration: Calibration
    penalty: float


def fit_closed_form(
    samples: Split,
    target: Target,
    candidates: list[Network],
    seed: int,
    log: Callable[[str], None],
    linear: Sequence[Network] = (),
) -> ClosedForm:
    """Select the best candidate and fit it to all samples.

    Args:
        samples, target, candidates, seed: as for `select`.
        log: receives lines on what was selected.
        linear: from `linear_networks`; the best of these is chosen unless a candidate is clearly better.
    """
    counted = target.weights.nonzero()[:, 0]
    samples, target = some_of(samples, counted), target.at(counted)  # drop classes of weight 0
    # float64, so that outputs do not depend on how samples are batched.
    trial = _Trial.of(select(samples, target, candidates, seed).double(), samples, target)
    lines = (_Trial.of(draw_linear(network, samples, seed), samples, target) for network in linear)
    plain = min(lines, key=lambda each: each.solution.error, default=trial)
    if plain.solution.error <= LINEAR_MARGIN * trial.solution.error:
        trial = plain
    model, solution = trial.model, trial.solution
    set_readout(model, solution, target, trial.features)
    network = model.hadamard_layers.network
    log(f"compared {len(candidates) + len(linear)} networks by cross-validation")
    log(f"selected: {network}, {network.thresholds} thresholds a unit")
    log(f"ridge penalty {solution.penalty:.3g}, {target.describe(solution.held_out)}")
    return ClosedForm(model, with_features(trial.calibration, model, trial.features), solution.penalty)


class _Trial(NamedTuple):
    """A network whose V is solved for but not yet set."""

    model: SequenceModel
    calibration: Calibration
    features: Tensor
    solution: Solution

    @classmethod
    def of(cls, model: SequenceModel, samples: Split, target: Target) -> _Trial:
        calibration = ranges_of(model, samples)
        snap_thresholds(model, calibration)
        features = features_of(model, samples)
        return cls(model, calibration, features, solve(features, target, folds=folds_of_many(target)))


def ranges_of(network: SequenceModel, samples: Split) -> Calibration:
    """Measure the ranges of states and inputs over `CALIBRATION_SAMPLES` series."""
    return calibrate(network, calibration_batches((samples,), CALIBRATION_SAMPLES))


def with_features(calibration: Calibration, model: SequenceModel, features: Tensor) -> Calibration:
    """Update the calibration of a model after its thresholds and read-out were set."""
    scale = model.folded_readout()[0]
    largest = max(float((features[part] * scale).abs().max()) for part in row_parts(features))
    return replace(calibration, max_feature=largest)


@torch.no_grad()
def snap_thresholds(model: SequenceModel, calibration: Calibration) -> None:
    """Round every threshold to the nearest state code, if the network can be quantized."""
    if model.thresholds is None or not can_lower(model):
        return
    step = state_lsb(model, calibration, state_bits(model.hadamard_layers.network, calibration.seq_length))
    model.thresholds.copy_((model.thresholds / step).round() * step)


@torch.no_grad()
def set_readout(model: SequenceModel, solution: Solution, target: Target, features: Tensor) -> None:
    """Set V, b_o and the scales of the features, rounded to the network's weight_bits.

    Args:
        target, features: target and features of the rows that `solution.held_out` predicts.
    """
    scale = target.scale(solution.held_out)
    spread = solution.spread
    moments = solution.moments or Moments.of(features, target)
    curvature = moments.covariance / spread / spread[:, None]
    curvature.diagonal().add_(max(solution.penalty, LEAST_CURVATURE) * solution.weight)
    weight, exponents = rounded(scale * solution.coefficients, spread, curvature, model.readout.weight_bits)
    assert model.readout.bias is not None and model.feature_scale is not None
    model.readout.weight.copy_(weight)
    model.readout.bias.copy_(scale * solution.intercept)
    model.feature_scale.running_mean.copy_(solution.mean)
    model.feature_scale.running_var.copy_(torch.where(spread.isfinite(), spread.square(), 0.0))
    model.feature_scale.exponents.copy_(exponents)
    model.feature_scale.batches.fill_(1)


def rounded(
    coefficients: Tensor, spread: Tensor, curvature: Tensor, weight_bits: WeightBits
) -> tuple[Tensor, Tensor]:
    """Return V on the grid of `weight_bits`, `(outputs, features)` in units of 2^-e f, and e `(features,)`.

    Args:
        coefficients: coefficients of features with unit spread, `(features, outputs)`.
        spread: spread of the features, infinity for constant ones.
        curvature: Z'wZ + penalty of the standardised features, `(features, features)`.
        weight_bits: bits of V; None leaves V unrounded.
    """
    if weight_bits is None or not coefficients.any():
        return (coefficients / spread[:, None]).T, torch.zeros_like(spread)
    lowest, highest = (-1, 1) if weight_bits == "ternary" else signed_range(int(weight_bits))
    weight, exponents, first = _scaled(coefficients / spread[:, None], lowest, highest)
    if first is None or len(spread) > MOST_FEATURES:
        return weight.T, exponents
    step = weight[first].min() / lowest
    # One lsb of V changes the outputs by its unit times the standardised feature.
    unit = torch.where(spread.isfinite(), step * spread * torch.exp2(-exponents), 0.0)
    order = torch.argsort(unit, descending=True, stable=True)
    order = torch.cat((torch.tensor([first]), order[(order != first) & (unit[order] > 0)]))
    metric = curvature[order][:, order] * unit[order] * unit[order, None]
    codes = torch.zeros_like(weight)
    codes[order] = successive(weight[order] / step, metric, lowest, highest)
    return codes.T * step, exponents


def _scaled(per_unit: Tensor, lowest: int, highest: int) -> tuple[Tensor, Tensor, int | None]:
    """Return V in units of 2^-e f, e, and the index of the feature whose least entry becomes code `lowest`.

    The grid's resolution is the largest magnitude / -lowest, so one entry must equal `lowest`; the index is
    None if no entry is negative. The other features stay within both ends.
    """
    reach = torch.maximum(-per_unit, per_unit * (-lowest / highest)).amax(1)
    alive = reach > 0
    exponents = -torch.where(alive, reach, 1.0).log2().ceil()
    exponents = torch.where(alive, exponents, exponents[alive].min())
    scaled = per_unit * torch.exp2(exponents)[:, None]
    free = exponents < exponents.min() + MOST_APART - 1
    largest, first = torch.where(free, -scaled.amin(1), 0.0).max(0)
    if largest <= 0:
        return scaled, exponents, None
    beyond = scaled.amax(1) > largest * ((highest + 0.5) / -lowest)
    beyond[first] = False
    exponents = exponents - beyond.to(exponents)
    exponents = exponents.clamp(max=float(exponents.min()) + MOST_APART)
    return per_unit * torch.exp2(exponents)[:, None], exponents, int(first)


@dataclass(eq=False)
class SampleStream:
    """The state of `partial_fit` between calls: seed, first samples, and moments of the later samples.

    The network is fixed after `KEPT_SERIES` samples; `features` are then those of the kept samples. A later
    copy of a kept sample adds to its weight, so that cross-validation leaves out both.
    """

    seed: int
    kept: Samples | None = None
    features: Tensor | None = None
    others: Moments | None = None

    @property
    def is_full(self) -> bool:
        return self.kept is not None and len(self.kept) >= KEPT_SERIES

    def add(self, part: Samples) -> Samples:
        """Keep the first samples of the stream and return the remaining ones."""
        joined = part if self.kept is None else self.kept + part
        self.kept = joined.at(np.arange(min(KEPT_SERIES, len(joined))))
        return joined.at(np.arange(len(self.kept), len(joined)))


def refit(
    fitted: ClosedForm, scaling: Scaling, stream: SampleStream, kept: Target, others: Samples, target: Target
) -> ClosedForm:
    """Add samples to the moments of a stream and refit the read-out.

    Args:
        kept: the target of the samples that the stream has kept.
        target: the target of the new samples.
    """
    model = fitted.model
    assert stream.kept is not None
    if stream.features is None:
        stream.features = features_of(model, scaling.split(stream.kept.series, np.float64))
    moments = Moments.of(stream.features, kept)
    if len(others):
        more = Moments.of(features_of(model, scaling.split(others.series, np.float64)), target)
        stream.others = more if stream.others is None else stream.others + more
    if stream.others is not None:
        moments = moments + stream.others
    solution = solve(stream.features, kept, folds=folds_of_many(kept), moments=moments)
    set_readout(model, solution, kept, stream.features)
    longest = max([fitted.calibration.seq_length, *others.series.steps_each().tolist()])
    calibration = with_features(replace(fitted.calibration, seq_length=longest), model, stream.features)
    return ClosedForm(model, calibration, solution.penalty)


def linear_networks(space: ParameterSpace) -> list[Network]:
    """Return the linear networks that fit into the space's bytes; none if it fixes shape or recurrence.

    Their output is a linear function of the series, except for maxima over time. Values often follow the
    level and the trend of sensors, even beyond the range of training. States without a nonlinearity represent
    that well, and random thresholds do not. There are two kinds:

        integrators   h_t = (1 - 2^-k) h_(t-1) + x_t for each channel and several k: recent and longer means
        random        leaking blocks with random U, read out at the last state

    b_i keeps states from being negative, so the read-out's ReLU has no effect. The integer network
    extrapolates only as far as the range of its states, which comes from training.

    >>> space = ParameterSpace(Network(2, 1, 1), 4096)
    >>> [str(network.hidden_size) + " " + ",".join(network.readouts) for network in linear_networks(space)]
    ['6 last,mean', '6 last,mean,max', '32 last', '128 last']
    """
    fixed = (space.hidden_size, space.num_blocks, space.leak, space.readouts, space.thresholds)
    if space.base.recurrence != "linear" or any(each is not None for each in fixed):
        return []
    units = len(INTEGRATOR_LEAK) * space.base.input_size
    shapes: list[tuple[int, int, tuple[int, ...], tuple[str, ...]]] = [
        (units, units, INTEGRATOR_LEAK, readouts) for readouts in INTEGRATOR_READOUTS
    ]
    shapes += [
        (units, units // RANDOM_BLOCK, RANDOM_LEAK[: units // RANDOM_BLOCK], ("last",))
        for units in RANDOM_UNITS
    ]
    networks = [
        replace(
            space.base, hidden_size=units, num_blocks=blocks, leak=leak, readouts=readouts, normalize=True
        )
        for units, blocks, leak, readouts in shapes
    ]
    return [network for network in networks if space.has(network)]


@torch.no_grad()
def draw_linear(network: Network, samples: Split, seed: int) -> SequenceModel:
    """Return the float64 network with integrators or, if blocks have more than one unit, random weights."""
    model = draw_network(network, seed).double()
    if network.block_size == 1:
        cell = forward_layers(model).cell(0)
        cell.latent_signs.fill_(1.0)
        cell.input_weight.zero_()
        units = torch.arange(network.hidden_size)
        cell.input_weight[units, units // len(network.leak)] = 1.0
    keep_linear(model, samples.x, samples.lengths)
    return model


@torch.no_grad()
def keep_linear(model: SequenceModel, x: Tensor, lengths: Tensor | None = None) -> None:
    """Set b_i so that no state is negative at the end of windows x, and the read-out's ReLU has no effect.

    h_T = sum_t A^(T-t) (U x_t + b_i),      A = lambda W,      b_i = (sum_(k < T) A^k)^-1 max|h_T|

    If windows differ in length, T is the longest; states of shorter windows may be clipped at zero.
    """
    cell = forward_layers(model).cell(0)
    assert cell.input_bias is not None and cell.decay is not None
    cell.input_bias.zero_()
    largest = torch.zeros_like(cell.input_bias)
    for start in range(0, len(x), ROWS):
        part = slice(start, start + ROWS)
        ends = None if lengths is None else lengths[part]
        largest = torch.maximum(largest, forward_layers(model).end_state(x[part], ends).abs().amax(0))
    units = torch.eye(cell.hidden_size, dtype=largest.dtype)
    step = recurrent_weight(cell.signs(), cell.block_size) * cell.decay[:, None]
    total = units
    for _ in range(x.shape[1] - 1):
        total = units + step @ total
    cell.input_bias.copy_(torch.linalg.solve(total, largest))
