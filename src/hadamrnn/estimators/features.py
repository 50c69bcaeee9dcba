"""Features of series: networks with random weights that are never trained, run by the native kernels.

Start reading at `draw_network`.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from hadamrnn.data.splits import Split
from hadamrnn.network import Network
from hadamrnn.nn.build import build_model
from hadamrnn.nn.model import SequenceModel
from hadamrnn.quantization.calibration import forward_layers
from hadamrnn.training.draws import Draws

THRESHOLD_SERIES = 256  # whose states the thresholds are quantiles of; fewer series count all
THRESHOLD_STEPS = 8  # of each of them, evenly spread
# Of a unit's spread, that a threshold lies above the quantile. States at rest have one value for long, and
# rounding alone must not decide on which side of the threshold it is.
MARGIN = 0.002
ROW_BYTES = 1 << 25  # of inputs or states that are held at once
LANES = 16  # rows that the kernels run together


def draw_network(network: Network, seed: int) -> SequenceModel:
    """Return the network with random weights, in evaluation mode."""
    with Draws(seed):
        return build_model(network).eval()


@torch.no_grad()
def features_of(model: SequenceModel, samples: Split) -> Tensor:
    """Return what V sees of each sample, before its scale: float64 `(n, features)`."""
    return torch.cat([model.features(x, lengths).double() for x, lengths in _parts(model, samples)])


@torch.no_grad()
def place_thresholds(model: SequenceModel, samples: Split, weights: Tensor) -> None:
    """Set the thresholds of each unit slightly above evenly spread quantiles of its states.

    A series of weight 2 counts twice.
    """
    if model.thresholds is None:
        return
    index = spread_out(weights, THRESHOLD_SERIES)
    parts = _parts(model, some_of(samples, index))
    states = torch.cat([_some_states(model, x, lengths) for x, lengths in parts])
    counts = weights[index].repeat_interleave(states.shape[1])
    states = states.flatten(0, 1)
    mean = (counts @ states.double()) / counts.sum()
    margin = MARGIN * (counts @ (states - mean).square() / counts.sum()).sqrt()
    order = states.argsort(dim=0, stable=True)
    shares = counts[order].cumsum(0)
    units = torch.arange(states.shape[1])
    for row in range(len(model.thresholds)):
        level = (row + 1) / (len(model.thresholds) + 1) * shares[-1]
        place = (shares >= level).to(torch.uint8).argmax(0)
        model.thresholds[row] = states[order[place, units], units] + margin


def narrowed(model: SequenceModel, network: Network, levels: Tensor) -> SequenceModel:
    """Return a network of the first units of a wider one; `levels` are the thresholds it keeps."""
    narrow = draw_network(network, 0)
    source, target = forward_layers(model).cell(0), forward_layers(narrow).cell(0)
    units = network.hidden_size
    with torch.no_grad():
        for name, values in target.named_parameters():
            values.copy_(source.get_parameter(name)[:units])
        if narrow.thresholds is not None:
            assert model.thresholds is not None
            narrow.thresholds.copy_(model.thresholds[levels, :units])
    return narrow


def spread_out(weights: Tensor, most: int) -> Tensor:
    """Return at most so many indices, evenly spread over the total weight.

    >>> spread_out(torch.tensor([1.0, 1.0, 4.0, 1.0, 1.0]), 4).tolist()
    [0, 2, 3]
    """
    if len(weights) <= most:
        return torch.arange(len(weights))
    ends = weights.cumsum(0)
    places = (torch.arange(most, dtype=ends.dtype) + 0.5) / most * ends[-1]
    index: Tensor = torch.unique(torch.searchsorted(ends, places))
    return index


def some_of(samples: Split, index: Tensor) -> Split:
    """Return the samples at `index`, without a copy if those are all."""
    return samples if len(index) == len(samples) else Split(*samples.batch(index))


def _parts(model: SequenceModel, samples: Split) -> Iterator[tuple[Tensor, Tensor | None]]:
    """Yield inputs and lengths of the samples in parts of limited size, in the type of the model."""
    width = max(samples.x.shape[2], forward_layers(model).output_size)
    rows = max(1, ROW_BYTES // (8 * LANES * max(1, samples.x.shape[1]) * width)) * LANES
    for start in range(0, len(samples), rows):
        x, _, lengths = samples.batch(slice(start, start + rows))
        yield x.to(model.readout.weight.dtype), lengths


def _some_states(model: SequenceModel, x: Tensor, lengths: Tensor | None) -> Tensor:
    """Return states of `THRESHOLD_STEPS` steps of each row, `(rows, steps, units)`."""
    layers = forward_layers(model)
    ends = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
    count = min(THRESHOLD_STEPS, int(ends.max()))
    steps = ((torch.arange(count) + 0.5) / count * ends[:, None]).long()
    found = x.new_empty(len(x), count, layers.output_size)
    stretch = max(1, ROW_BYTES // (8 * len(x) * layers.output_size))
    for start, states in enumerate(layers.state_stretches(x, lengths, stretch)):
        row, place = torch.nonzero(steps // stretch == start, as_tuple=True)
        found[row, place] = states[row, steps[row, place] - start * stretch]
    return found
