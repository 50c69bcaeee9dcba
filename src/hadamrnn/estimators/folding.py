"""The float network in the user's units, for graphs without scaling of their own."""

from __future__ import annotations

from dataclasses import replace

import torch

from hadamrnn.baselines.networks import build_model
from hadamrnn.errors import InputError
from hadamrnn.estimators.series import Floats, Scaling
from hadamrnn.network import Network
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.straight_through import quantize
from hadamrnn.quantization.calibration import forward_layers


def raw_network(
    network: SequenceModel,
    config: Network,
    scaling: Scaling,
    target_offset: Floats,
    target_scale: Floats,
) -> SequenceModel:
    """Return a float32 network, its weights not quantized, that takes x and returns y in the user's units.

    U v + b_i = (U / s) x + (b_i - (U / s) o)   with v = (x - o) / s        y = output * scale + offset
    """
    forward_layers(network)  # raises for a baseline
    if scaling.knee is not None:
        raise InputError(
            "A float graph takes X as it is, and this network reads compressed values: the series differ in "
            "size by orders of magnitude. Fit it to their logarithm, or use to_c."
        )
    raw = build_model(replace(config, weight_bits=None)).double()
    raw.load_state_dict(network.state_dict())
    cell = forward_layers(raw).cell(0)
    assert cell.input_bias is not None and raw.readout.bias is not None
    with torch.no_grad():
        weight = quantize(cell.input_weight, config.weight_bits) / torch.from_numpy(scaling.scale)
        cell.input_weight.copy_(weight)
        cell.input_bias.sub_(weight @ torch.from_numpy(scaling.offset))
        factor = torch.from_numpy(target_scale)
        raw.readout.weight.copy_(network.readout.quantized_weight() * factor[:, None])
        raw.readout.bias.mul_(factor).add_(torch.from_numpy(target_offset))
    return raw.float().eval()
