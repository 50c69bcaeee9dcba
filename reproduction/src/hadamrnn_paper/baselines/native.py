"""torch's own LSTM, GRU and RNN behind the interface of this package's layers.

`stacking` is num_layers, bidirectional and dropout, as in `torch.nn`.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from hadamrnn.errors import InputError
from hadamrnn.nn.interface import RecurrentLayer, Tokens
from hadamrnn_paper.baselines.layer import admitted, token_vectors


class NativeLayer(RecurrentLayer):
    """A torch.nn.LSTM, GRU or RNN, optionally stacked or bidirectional.

    >>> NativeLayer(nn.GRU(3, 8, batch_first=True)).end_state(torch.randn(5, 20, 3)).shape
    torch.Size([5, 8])
    """

    needs_activation = False

    def __init__(self, network: nn.RNNBase) -> None:
        super().__init__()
        self.network = network
        self.input_size = network.input_size
        self.output_size = network.hidden_size * (2 if network.bidirectional else 1)

    def every_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        return self._run(x, lengths)[0]

    def end_state(self, x: Tensor | Tokens, lengths: Tensor | None = None) -> Tensor:
        return self._run(x, lengths)[1]

    def _run(self, x: Tensor | Tokens, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
        """Return every output and the last layer's end states, both directions side by side."""
        weight = next(self.network.parameters())
        x, _ = admitted(x, lengths, weight)
        return run_torch_layer(self.network, token_vectors(x, self.input_size, weight.dtype), lengths)


def run_torch_layer(layer: nn.RNNBase, rows: Tensor, lengths: Tensor | None) -> tuple[Tensor, Tensor]:
    """Return every output of torch's RNN, GRU or LSTM, and the last states, both directions side by side.

    Outputs past a row's length are zero; the last state of an empty row is zero.
    """
    time = rows.shape[1]
    if time == 0:
        raise InputError("torch's recurrent layers need at least one time step, got none.")
    if lengths is None:
        output, h_n = layer(rows)
    else:  # torch cannot pack empty rows: they run for one step, and are then zeroed
        ends = lengths.clamp(min=1).cpu()
        packed = pack_padded_sequence(rows, ends, batch_first=True, enforce_sorted=False)
        packed_output, h_n = layer(packed)
        output, _ = pad_packed_sequence(packed_output, batch_first=True, total_length=time)
    last = h_n[0] if isinstance(h_n, tuple) else h_n
    last = torch.cat(tuple(last[-2 if layer.bidirectional else -1 :]), dim=-1)
    if lengths is not None and bool((lengths == 0).any()):
        alive = (lengths > 0)[:, None]
        output, last = torch.where(alive[:, :, None], output, 0.0), torch.where(alive, last, 0.0)
    return output, last


def lstm(
    input_size: int,
    hidden_size: int,
    *,
    forget_bias: float = 1.0,
    input_gate_bias: float = 0.0,
    **stacking: Any,
) -> NativeLayer:
    """Return torch's LSTM with forget gates that start open.

    A `forget_bias` of log(m) lets an untrained network remember m steps; 0 is torch's own initialisation.
    Over long sequences an `input_gate_bias` of -log(m) keeps the cell from growing (Tallec and Ollivier
    2018).
    """
    network = nn.LSTM(input_size, hidden_size, batch_first=True, **stacking)
    with torch.no_grad():
        for name, parameter in network.named_parameters():
            if name.startswith("bias_ih"):  # torch orders the gates input, forget, cell, output
                parameter[:hidden_size] += input_gate_bias
                parameter[hidden_size : 2 * hidden_size] += forget_bias
    return NativeLayer(network)


def gru(input_size: int, hidden_size: int, **stacking: Any) -> NativeLayer:
    """Return torch's GRU."""
    return NativeLayer(nn.GRU(input_size, hidden_size, batch_first=True, **stacking))


def rnn(input_size: int, hidden_size: int, *, nonlinearity: str = "tanh", **stacking: Any) -> NativeLayer:
    """Return torch's plain RNN, with tanh or ReLU."""
    return NativeLayer(
        nn.RNN(input_size, hidden_size, nonlinearity=nonlinearity, batch_first=True, **stacking)
    )
