"""The yardstick: training with a dense W and one matrix product a step, as the authors' code does it.

It is an honest loop: z = x U' + b_i once for all steps, W built once a training step, time first so that
each z_t is contiguous, `torch.addmm` a step, torch's own cross-entropy, autograd. It shares
the parameters' class with the engine, so both sides quantize and read out alike.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, embedding, linear

from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.nn.straight_through import quantize
from hadamrnn.nn.weight import recurrent_weight


def plain_loss(model: SequenceModel, x: Tensor, target: Tensor) -> Tensor:
    """Return the loss of a single-layer model on a batch, by the plain loop."""
    assert isinstance(model.recurrent, HadamRNN)
    cell = model.recurrent.cells[0]
    assert isinstance(cell, HadamCell)
    transposed = recurrent_weight(cell.signs(), cell.block_size, cell.column_signs()).T
    projected = _projected(model, cell, x.transpose(0, 1))
    h = projected.new_zeros(projected.shape[1:])
    states = []
    for z_t in projected.unbind(0):
        h = torch.addmm(z_t, h, transposed)
        if cell.recurrence == "relu":
            h = h.relu()
        if model.every_output:
            states.append(h)
    output = torch.stack(states) if model.every_output else h
    logits = model.readout(output.relu() if model.recurrent.needs_activation else output)
    if model.readout.out_features == 1:
        return binary_cross_entropy_with_logits(logits.squeeze(-1), target.to(logits.dtype))
    targets = target.T if model.every_output else target
    return cross_entropy(logits.flatten(0, -2), targets.flatten())


def _projected(model: SequenceModel, cell: HadamCell, x: Tensor) -> Tensor:
    """Return z_t = U x_t + b_i for all steps, `(time, batch, hidden_size)`."""
    weight = quantize(cell.input_weight, cell.weight_bits)
    if model.one_hot:
        table = weight.T if cell.input_bias is None else weight.T + cell.input_bias
        return embedding(x, table)
    return linear(x if model.embedding is None else model.embedding(x), weight, cell.input_bias)
