"""Build linear networks, whose output is a linear function of the series, except for maxima over time.

Values often follow the level and the trend of sensors, even beyond the range of training. States without a
nonlinearity represent that well, and random thresholds do not. There are two kinds:

    integrators   h_t = (1 - 2^-k) h_(t-1) + x_t for each channel and several k: recent and longer means
    random        leaking blocks with random U, read out at the last state

b_i keeps states from being negative, so the read-out's ReLU has no effect. The integer network extrapolates
only as far as the range of its states, which comes from training. Start reading at `linear_networks`.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from hadamrnn.data.splits import Split
from hadamrnn.estimators.selection import ParameterSpace, draw_network, network_cost
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.weight import recurrent_weight
from hadamrnn.quantization.calibration import forward_layers

INTEGRATOR_LEAK = (1, 3, 5)  # k of the integrators of each channel
INTEGRATOR_READOUTS = (("last", "mean"), ("last", "mean", "max"))
RANDOM_BLOCK, RANDOM_LEAK = 32, (1, 2, 4, 6)
RANDOM_UNITS = (32, 128)
ROWS = 1 << 12  # series processed at once


def linear_networks(space: ParameterSpace) -> list[Network]:
    """Return the linear networks that fit into the space's bytes; none if it fixes shape or recurrence.

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
    return [network for network in networks if network_cost(network).bytes <= space.max_bytes]


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
