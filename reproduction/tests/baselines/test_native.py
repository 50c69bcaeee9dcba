"""torch's own layers behind this package's interface."""

from __future__ import annotations

import torch
from torch import nn

from hadamrnn_paper.baselines.native import NativeLayer


def test_a_native_layer_is_torchs_own() -> None:
    network = nn.GRU(3, 8, num_layers=2, batch_first=True)
    x = torch.randn(4, 9, 3)
    output, h_n = network(x)

    assert torch.equal(NativeLayer(network).every_state(x), output)
    assert torch.equal(NativeLayer(network).end_state(x), h_n[-1])
