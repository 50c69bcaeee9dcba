"""Linear networks: the answer is a linear function of the series, apart from maxima over time.

Values often follow the level and the trend of sensors, even beyond the range of training. Random thresholds
say little about that; states without a nonlinearity do. Two kinds are offered:

    integrators   h_t = (1 - 2^-k) h_(t-1) + x_t of each channel, for several k: recent and longer means
    random        leaking blocks with random U, whose last state is read

b_i keeps states from being negative, so the read-out's ReLU changes nothing. Integers follow as far as their
states reach, which is the range of training. Start reading at
`linear_networks`.
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
    """Return the linear networks that fit into the space's bytes; none if it fixes a shape or a recurrence.

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
    """Return the network with integrators, or random weights if its blocks are larger, in float64."""
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
    """Set b_i so that no state is negative at the end of windows x: the read-out's ReLU then changes nothing.

    h_T = sum_t A^(T-t) (U x_t + b_i),      A = lambda W,      b_i = (sum_(k < T) A^k)^-1 max|h_T|

    If windows differ in length, T is the longest; states of shorter ones may be cut at zero.
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
