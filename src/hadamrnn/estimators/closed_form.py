"""The closed-form fit: a random network is chosen, and V solved for and rounded.

Signs, U, b_i and thresholds stay as drawn; V and b_o come from `ridge`, the scale of what V sees from
`rounding`. A threshold between two codes of a state would be rounded when the network becomes integers. Its
feature then moves by the same amount for every series, and many such moves add up in the logits: so they are
moved to codes first. The result is an ordinary `SequenceModel`. Start reading at `fit_closed_form`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from hadamrnn.data.splits import Split
from hadamrnn.estimators.choice import Choice, choose
from hadamrnn.estimators.cost import state_bits
from hadamrnn.estimators.features import features_of
from hadamrnn.estimators.goals import Goal
from hadamrnn.estimators.ridge import Moments, Solution, solve
from hadamrnn.estimators.rounding import rounded
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.quantization.calibration import Calibration, calibrate
from hadamrnn.quantization.chain import ROWS_AT_ONCE
from hadamrnn.quantization.lowering import can_lower, state_step

# Of each standardised feature, when V is rounded: series to come differ from the rows in all directions.
LEAST_CURVATURE = 0.1
CALIBRATION_SAMPLES = 10_000


def ranges_of(network: SequenceModel, samples: Split) -> Calibration | None:
    """Return the ranges of states and inputs over `CALIBRATION_SAMPLES` series; None for a baseline."""
    if not isinstance(network.recurrent, HadamRNN):
        return None
    index = torch.arange(0, len(samples), -(-len(samples) // CALIBRATION_SAMPLES))
    batches = (samples.batch(part) for part in index.split(ROWS_AT_ONCE))
    return calibrate(network, ((x, lengths) for x, _, lengths in batches))


@torch.no_grad()
def snap_thresholds(model: SequenceModel, samples: Split) -> None:
    """Move every threshold to the nearest code of a state, in a network that can become integers."""
    if model.thresholds is None or not can_lower(model):
        return
    ranges = ranges_of(model, samples)
    assert ranges is not None
    step = state_step(model, ranges, state_bits(model.described()))
    model.thresholds.copy_((model.thresholds / step).round() * step)


@dataclass(frozen=True, eq=False)
class Fitted:
    """The network with its read-out, and the regression it comes from."""

    model: SequenceModel
    network: Network
    solution: Solution


def fit_closed_form(
    samples: Split, goal: Goal, networks: list[Network], seed: int, say: Callable[[str], None]
) -> Fitted:
    """Return the best of the networks, fitted to all samples.

    Args:
        samples: standardised series.
        goal: their targets and weights.
        networks: to compare.
        seed: of the random weights.
        say: takes lines about what was chosen.
    """
    choice = choose(samples, goal, networks, seed)
    # Answers in float64 do not depend on how samples are batched.
    model = choice.model.double()
    snap_thresholds(model, samples)
    rows = goal.rows(features_of(model, samples))
    solution = solve(rows, goal.error)
    set_readout(model, solution, goal, Moments.of(rows))
    for line in _report(choice, goal, solution):
        say(line)
    return Fitted(model, choice.network, solution)


@torch.no_grad()
def set_readout(model: SequenceModel, solution: Solution, goal: Goal, moments: Moments) -> None:
    """Set V, b_o and the scales of the features, rounded to the network's weight_bits.

    Args:
        goal: of the rows that `solution.left_out` answers; it says the scale of the answers.
        moments: of all rows.
    """
    scale = goal.scale(solution.left_out)
    spread = solution.spread
    curvature = moments.covariance / spread / spread[:, None]
    curvature.diagonal().add_(max(solution.penalty, LEAST_CURVATURE) * solution.weight)
    found = rounded(scale * solution.coefficients, spread, curvature, model.readout.weight_bits)
    assert model.readout.bias is not None and model.feature_scale is not None
    model.readout.weight.copy_(found.weight)
    model.readout.bias.copy_(scale * solution.intercept)
    features = model.feature_scale
    features.running_mean.copy_(solution.mean)
    features.running_var.copy_(torch.where(spread.isfinite(), spread.square(), 0.0))
    features.exponents.copy_(found.exponents)
    features.batches.fill_(1)


def _report(choice: Choice, goal: Goal, solution: Solution) -> list[str]:
    return [
        f"compared {choice.compared} networks by their left-out error",
        f"chosen: {choice.network}, {choice.network.thresholds} thresholds a unit",
        f"ridge penalty {solution.penalty:.3g}, {goal.describe(solution.left_out)}",
    ]
