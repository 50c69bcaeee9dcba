"""Build a whole model, `SequenceModel`: [embedding] -> recurrent layers -> sigma -> quantized V.

    many to one:   y   = V sigma(h_T) + b_o, or V f + b_o with pooled features f
    many to many:  y_t = V sigma(h_t) + b_o

sigma is ReLU after a linear recurrence and the identity otherwise (the nonlinearity is inside).
A `Network`, or the description of another kind of network, determines the architecture; `hadamrnn.nn.storage`
stores it with the weights.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, mse_loss

from hadamrnn.architecture import Architecture
from hadamrnn.errors import InputError
from hadamrnn.kernels.backend import check_range, values_are_hidden, widen
from hadamrnn.kernels.loss import check_targets, cross_entropy
from hadamrnn.network import Network, hadamard
from hadamrnn.nn.interface import RecurrentLayer, Tokens
from hadamrnn.nn.linear import QuantizedLinear
from hadamrnn.nn.normalization import FeatureScale, valid_rows
from hadamrnn.nn.stack import HadamStack
from hadamrnn.settings import check_shape

QUANTILE_ROWS = 4096  # most steps, evenly spaced, for the quantiles of states


class SequenceModel(nn.Module):
    """A network to train: an optional embedding, recurrent layers and a quantized read-out.

    Args:
        network: the whole architecture, of any kind.
        train_signs: train the signs of Hadamard layers, as in the paper.

    >>> model = SequenceModel(Network(input_size=9, hidden_size=64, output_size=6))
    >>> model(torch.randn(5, 128, 9)).shape
    torch.Size([5, 6])
    """

    thresholds: Tensor | None

    def __init__(self, network: Architecture, *, train_signs: bool = True) -> None:
        super().__init__()
        self.network = network
        self.recurrent = _recurrent_layers(network, train_signs)
        self.embedding = (
            nn.Embedding(network.vocabulary_size, network.input_size, network.padding_id)
            if network.vocabulary_size is not None
            else None
        )
        features = self.recurrent.output_size
        self.feature_scale, thresholds = None, None
        if isinstance(network, Network):
            thresholds = torch.zeros(network.thresholds, features) if network.thresholds else None
            features = network.num_features
            self.feature_scale = FeatureScale(features) if network.normalize else None
        self.register_buffer("thresholds", thresholds)
        self.readout = QuantizedLinear(features, network.output_size, weight_bits=network.readout_bits)

    @property
    def hadamard_layers(self) -> HadamStack:
        """The recurrent layers of a Hadamard network."""
        hadamard(self.network)  # raises for other kinds of network
        assert isinstance(self.recurrent, HadamStack)
        return self.recurrent

    def layer_input(self, x: Tensor) -> Tensor | Tokens:
        """Return the input of the recurrent layers: dense vectors unchanged, ids with their embedding."""
        return Tokens(x, self.embedding) if self.network.takes_ids else x

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return logits: `(batch, output_size)`, or `(batch, time, output_size)` if `every_output`.

        Args:
            x: `(batch, time, input_size)`, or int64 ids `(batch, time)`.
            lengths: int64 `(batch,)`, number of valid steps of each row; by default all steps.
        """
        self._check_input(x)
        if self.network.every_output:
            return self._every_logits(x, lengths)
        features = self.features(x, lengths)
        logits: Tensor = self.readout(
            features if self.feature_scale is None else self.feature_scale(features)
        )
        return logits

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch; the targets determine which loss (see `target_loss`)."""
        return target_loss(self(x, lengths), target)

    def step(self, x_t: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read one time step and return the logits after it and the new state, for streaming.

        Args:
            x_t: `(batch, input_size)`, or int64 ids `(batch,)`.
            h: the state that the last call returned; None starts a new sequence.
        """
        network = self.hadamard_layers.network
        if network.is_pooled:
            raise InputError(
                f"step reads out the last state only, and this model reads out "
                f"{', '.join(network.readouts)}. Call the model on the whole sequence."
            )
        _, state = self.hadamard_layers.step(self.layer_input(x_t), h)
        features = self._activated(state[-1, ..., : self.network.hidden_size])
        if self.feature_scale is not None:
            features = self.feature_scale.step(features)
        logits: Tensor = self.readout(features)
        return logits, state

    @torch.no_grad()
    def set_thresholds(self, x: Tensor, lengths: Tensor | None = None) -> None:
        """Set the thresholds of each unit to evenly spaced quantiles of its states over x."""
        if self.thresholds is None:
            raise InputError("This model has no thresholds. Build it with thresholds=1 or more.")
        states = self.recurrent.every_state(self.layer_input(x), lengths)
        rows = widen(valid_rows(states, self.hadamard_layers.top_lengths(lengths)))
        if len(rows) == 0:
            raise InputError("Thresholds are quantiles of states: x must have at least one step, got none.")
        rows = rows[:: max(1, len(rows) // QUANTILE_ROWS)]
        count = len(self.thresholds)
        levels = torch.arange(1, count + 1, dtype=rows.dtype, device=rows.device) / (count + 1)
        self.thresholds.copy_(torch.quantile(rows, levels, dim=0))

    def folded_readout(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scales, V and b of logits = V (scales * f) + b in evaluation, with statistics folded in.

        The scales are powers of two, one per feature.
        """
        weight, bias = self.readout.quantized_weight(), self.readout.bias
        assert bias is not None
        if self.feature_scale is None:
            return torch.ones_like(weight[0]), weight, bias
        scale, mean = self.feature_scale.folded()
        return scale, weight, bias - weight @ (scale * mean)

    def features(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the input of V after the last step: sigma(h_T), or pooled states."""
        rows = self.layer_input(x)
        if isinstance(self.recurrent, HadamStack) and self.recurrent.network.is_pooled:
            return self.recurrent.pooled_state(
                rows, lengths, self.recurrent.network.readouts, self.thresholds
            )
        return self._activated(self.recurrent.end_state(rows, lengths))

    def _every_logits(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the logits of all steps; if V reads the states themselves, by the fused read-out."""
        rows = self.layer_input(x)
        if self.feature_scale is None:
            weight = self.readout.quantized_weight()
            return self.recurrent.every_readout(rows, weight, self.readout.bias, lengths)
        features = self._activated(self.recurrent.every_state(rows, lengths))
        logits: Tensor = self.readout(self.feature_scale(features, lengths))
        return logits

    def _activated(self, states: Tensor) -> Tensor:
        """Return sigma(states)."""
        return states.relu() if self.recurrent.needs_activation else states

    def _check_input(self, x: Tensor) -> None:
        if self.network.takes_ids:
            check_shape("Ids", x, "batch", "time")
        else:
            check_shape("Input", x, "batch", "time", self.network.input_size)


def _recurrent_layers(network: Architecture, train_signs: bool) -> RecurrentLayer:
    """Return the freshly initialised layers of a network."""
    if not isinstance(network, Architecture):
        raise InputError(
            f"A SequenceModel is built from a Network, got {type(network).__name__}. "
            "Write SequenceModel(Network(input_size, hidden_size, output_size, ...))."
        )
    if isinstance(network, Network):
        return HadamStack(network, train_signs=train_signs)
    layers = network.recurrent_layer()
    if not isinstance(layers, RecurrentLayer) or layers.input_size != network.input_size:
        raise InputError(
            f"The layers of a {network.kind} must be a RecurrentLayer that reads {network.input_size} "
            f"numbers, got {type(layers).__name__}."
        )
    return layers


def target_loss(logits: Tensor, target: Tensor) -> Tensor:
    """Return the mean loss for these targets.

    The loss is the squared error for real targets and cross-entropy for integers, binary with a single logit.

    Args:
        logits: `(..., output_size)`.
        target: integers `(...)`, or reals with the shape of the logits, in which a last dimension of 1 may
            be omitted.
    """
    is_single = logits.shape[-1] == 1
    if target.is_floating_point():
        if target.shape != logits.shape:
            check_targets(logits if is_single else logits[..., None], target)
        return mse_loss(logits.reshape(target.shape), target)
    if not is_single:
        return cross_entropy(logits, target)
    check_targets(logits, target)
    if target.device.type == "cpu" and not values_are_hidden():
        check_range("Binary targets", target, 2)
    return binary_cross_entropy_with_logits(logits.squeeze(-1), target.to(logits.dtype))
