"""The ranges of a fitted network, and thresholds on the grid that its integer form has for states.

A threshold between two codes would be rounded when the network becomes integers. Its feature then moves by
the same amount for every series, and many such moves add up in the logits. Start at `snap_thresholds`.
"""

from __future__ import annotations

import torch

from hadamrnn.data.splits import Split
from hadamrnn.estimators.cost import state_bits
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.quantization.calibration import Calibration, calibrate
from hadamrnn.quantization.chain import ROWS_AT_ONCE
from hadamrnn.quantization.lowering import can_lower, described, state_step

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
    assert ranges is not None and isinstance(model.recurrent, HadamRNN)
    step = state_step(model, ranges, state_bits(described(model, model.recurrent)))
    model.thresholds.copy_((model.thresholds / step).round() * step)
