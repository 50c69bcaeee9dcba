"""The baseline for training speed: a dense W and one matrix product per step, as in the authors' code.

The loop is reasonably fast: it computes z = x U' + b_i once for all steps, builds W once per training step,
puts time first so that each z_t is contiguous, and runs one `torch.addmm` per step; normalisation,
cross-entropy and autograd are torch's. It uses the model's own parameters, so quantization and read-out are
the same.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import batch_norm, binary_cross_entropy_with_logits, cross_entropy, linear, one_hot

from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.normalization import EPSILON, UnitNorm
from hadamrnn.nn.weight import recurrent_weight


def plain_loss(model: SequenceModel, x: Tensor, target: Tensor) -> Tensor:
    """Compute a unidirectional model's loss on a batch with the plain loop."""
    logits = plain_logits(model, x)
    if model.readout.out_features == 1:
        return binary_cross_entropy_with_logits(logits.squeeze(-1), target.to(logits.dtype))
    targets = target.T if model.network.every_output else target
    return cross_entropy(logits.flatten(0, -2), targets.flatten())


def plain_logits(model: SequenceModel, x: Tensor) -> Tensor:
    """Return the logits on a batch, `(batch, outputs)`, or time first if every step is read out."""
    network = model.hadamard_layers.network
    below = x.transpose(0, 1)
    for layer in range(network.num_layers):
        cell = model.hadamard_layers.cell(layer)
        projected = _projected(model, cell, below) if layer == 0 else _dense(cell, below)
        is_last = layer == network.num_layers - 1
        wanted = not is_last or model.network.every_output or network.is_pooled
        states, h = _loop(cell, projected, wanted)
        if not is_last:
            assert states is not None
            normed = layer < len(model.hadamard_layers.norms)
            y = (_normalized(model.hadamard_layers.norm(layer), states) if normed else states).relu()
            below = y + below if network.skip and below.shape == y.shape else y
    features = _features(model, states, h)
    logits: Tensor = model.readout(features if model.feature_scale is None else model.feature_scale(features))
    return logits


def _loop(cell: HadamCell, projected: Tensor, wanted: bool) -> tuple[Tensor | None, Tensor]:
    """Return the states of all steps, `(time, batch, hidden_size)`, if requested, and the last one."""
    weight = recurrent_weight(cell.signs(), cell.block_size, cell.column_signs())
    transposed = (weight if cell.decay is None else cell.decay[:, None] * weight).T
    h = projected.new_zeros(projected.shape[1:])
    states = []
    for z_t in projected.unbind(0):
        h = torch.addmm(z_t, h, transposed)
        if cell.network.recurrence == "relu":
            h = h.relu()
        if wanted:
            states.append(h)
    return (torch.stack(states) if wanted else None), h


def _normalized(norm: UnitNorm, states: Tensor) -> Tensor:
    flat = batch_norm(states.flatten(0, 1), None, None, norm.weight, norm.bias, training=True, eps=EPSILON)
    return flat.reshape(states.shape)


def _features(model: SequenceModel, states: Tensor | None, last: Tensor) -> Tensor:
    """Return the input of V: every state, their mean, or the last one."""
    assert model.hadamard_layers.network.readouts in (("last",), ("mean",))
    if states is None:
        return last.relu()
    return states.relu() if model.network.every_output else states.relu().mean(0)


def _projected(model: SequenceModel, cell: HadamCell, x: Tensor) -> Tensor:
    """Return z_t = U x_t + b_i of the network's input for all steps, `(time, batch, hidden_size)`."""
    if model.network.input_kind == "one_hot":
        weight = cell.quantized_weight()
        return linear(one_hot(x, model.network.input_size).to(weight.dtype), weight, cell.input_bias)
    return _dense(cell, x if model.embedding is None else model.embedding(x))


def _dense(cell: HadamCell, x: Tensor) -> Tensor:
    return linear(x, cell.quantized_weight(), cell.input_bias)
