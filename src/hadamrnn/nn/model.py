"""SequenceModel: [embedding] -> recurrent layer -> sigma -> quantized V.

    many to one:   y   = V sigma(h_T) + b_o, or V f + b_o with features f other than the last state
    many to many:  y_t = V sigma(h_t) + b_o

sigma is ReLU after a linear recurrence and the identity otherwise (the nonlinearity is inside).
A `Network` says everything that `build_model` needs; `hadamrnn.nn.storage` writes it beside the weights.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from hadamrnn.bits import WeightBits
from hadamrnn.errors import InputError
from hadamrnn.network import HADAMRNN, Network, features_per_unit
from hadamrnn.nn.inputs import Tokens, check_embedding, run_torch_layer, token_vectors, widen
from hadamrnn.nn.interface import RecurrentLayer
from hadamrnn.nn.linear import QuantizedLinear
from hadamrnn.nn.loss import target_loss
from hadamrnn.nn.normalization import FeatureScale, valid_rows
from hadamrnn.nn.rnn import HadamRNN

QUANTILE_ROWS = 4096  # steps that the quantiles of states are taken over, evenly spread


def hadamard_layer(network: Network, evaluator: str = "auto") -> HadamRNN:
    """Return the recurrent layer of a Hadamard network, freshly drawn."""
    if network.model_options:
        raise InputError(f"A {HADAMRNN} takes no model options, got {dict(network.model_options)}.")
    return HadamRNN.of(network, evaluator)


def assemble(recurrent: RecurrentLayer, network: Network, readout_bits: WeightBits) -> SequenceModel:
    """Return the network around a recurrent layer, its read-out V of `readout_bits`."""
    embedding = (
        nn.Embedding(network.vocabulary_size, network.input_size, network.padding_id)
        if network.vocabulary_size is not None
        else None
    )
    return SequenceModel(
        recurrent,
        network.output_size,
        embedding=embedding,
        one_hot=network.input_kind == "one_hot",
        every_output=network.every_output,
        weight_bits=readout_bits,
        readouts=network.readouts,
        thresholds=network.thresholds,
        normalize=network.normalize,
        network=network,
    )


class SequenceModel(nn.Module):
    """A recurrent layer between an optional embedding and a quantized read-out.

    Args:
        recurrent: a `RecurrentLayer` such as `HadamRNN`, or torch's RNN, GRU or LSTM built with
            `batch_first=True`.
        output_size: number of classes, or 1 for a binary decision or a single value.
        embedding: turns ids into vectors; None for dense or one-hot input.
        one_hot: ids are read as one-hot vectors of the recurrent layer's `input_size`.
        every_output: read out after every step, not only after the last.
        weight_bits: of V.
        readouts: what V sees of a HadamRNN, some of last, mean, positive and max.
        thresholds: how many per unit for mean and positive; `set_thresholds` chooses them by data.
        normalize: centre what V sees and scale it by powers of two; see `FeatureScale`.
    """

    thresholds: Tensor | None

    def __init__(
        self,
        recurrent: nn.Module,
        output_size: int,
        *,
        embedding: nn.Embedding | None = None,
        one_hot: bool = False,
        every_output: bool = False,
        weight_bits: WeightBits = 4,
        readouts: tuple[str, ...] = ("last",),
        thresholds: int = 0,
        normalize: bool = False,
        network: Network | None = None,
    ) -> None:
        super().__init__()
        self.readouts = readouts = tuple(readouts)
        self.recurrent = recurrent
        self.embedding = embedding
        self.one_hot = one_hot
        self.every_output = every_output
        self.network = network
        size = _state_size(recurrent)
        if embedding is not None:
            check_embedding(embedding, recurrent)
        if embedding is not None and one_hot:
            raise InputError("Ids are read as one-hot vectors or through an embedding, got both.")
        if isinstance(recurrent, HadamRNN):  # the description checks them
            replace(recurrent.network, readouts=readouts, thresholds=thresholds, every_output=every_output)
        elif readouts != ("last",) or thresholds:
            raise InputError(
                f"Only a HadamRNN reads out {', '.join(readouts)} with {thresholds} thresholds. "
                'Use readouts=("last",) and thresholds=0.'
            )
        rows = torch.zeros(thresholds, size) if thresholds else None
        self.register_buffer("thresholds", rows)
        seen = size * features_per_unit(readouts, thresholds)
        self.readout = QuantizedLinear(seen, output_size, weight_bits=weight_bits)
        self.feature_scale = FeatureScale(seen) if normalize else None

    def described(self) -> Network:
        """Return the description of a model over a HadamRNN, even of one that `build_model` did not make."""
        if self.network is not None:
            return self.network
        assert isinstance(self.recurrent, HadamRNN)
        return replace(
            self.recurrent.network,
            output_size=self.readout.out_features,
            readouts=self.readouts,
            thresholds=0 if self.thresholds is None else len(self.thresholds),
            normalize=self.recurrent.network.normalize or self.feature_scale is not None,
            input_kind="one_hot" if self.one_hot else "dense" if self.embedding is None else "embedded",
            vocabulary_size=None if self.embedding is None else self.embedding.num_embeddings,
            padding_id=None if self.embedding is None else self.embedding.padding_idx,
            every_output=self.every_output,
        )

    @property
    def takes_ids(self) -> bool:
        """Whether the input is integer ids rather than dense vectors."""
        return self.one_hot or self.embedding is not None

    def layer_input(self, x: Tensor) -> Tensor | Tokens:
        """Return what the recurrent layer reads: dense vectors as they are, ids with their embedding."""
        return Tokens(x, self.embedding) if self.takes_ids else x

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return logits: `(batch, output_size)`, or `(batch, time, output_size)` if `every_output`.

        Args:
            x: `(batch, time, input_size)`, or int64 ids `(batch, time)`.
            lengths: int64 `(batch,)`, how many steps of each row count; all by default.
        """
        self._check_input(x)
        if self.every_output and isinstance(self.recurrent, RecurrentLayer):
            return self._every_logits(self.recurrent, x, lengths)
        features = self.features(x, lengths)
        logits: Tensor = self.readout(
            features if self.feature_scale is None else self.feature_scale(features)
        )
        return logits

    def loss(self, x: Tensor, target: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return the mean loss of a batch, of the kind that its targets ask for (see `target_loss`)."""
        return target_loss(self(x, lengths), target)

    def step(self, x_t: Tensor, h: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Read one time step and return the logits after it and the new state, for streaming.

        Args:
            x_t: `(batch, input_size)`, or int64 ids `(batch,)`.
            h: the state that the last call returned; None starts a new sequence.
        """
        if not isinstance(self.recurrent, HadamRNN):
            raise InputError(
                f"step needs a HadamRNN, this model holds a {type(self.recurrent).__name__}. Call the model."
            )
        if self.readouts != ("last",):
            raise InputError(
                f"step reads out the last state only, and this model reads out {', '.join(self.readouts)}. "
                "Call the model on the whole sequence."
            )
        _, state = self.recurrent.step(self.layer_input(x_t), h)
        features = self._activated(self.recurrent, state[-1, ..., : self.recurrent.hidden_size])
        if self.feature_scale is not None:
            features = self.feature_scale.step(features)
        logits: Tensor = self.readout(features)
        return logits, state

    @torch.no_grad()
    def set_thresholds(self, x: Tensor, lengths: Tensor | None = None) -> None:
        """Set the thresholds of each unit to quantiles of its states over x, evenly spread."""
        if self.thresholds is None or not isinstance(self.recurrent, HadamRNN):
            raise InputError("This model has no thresholds. Build it with thresholds=1 or more.")
        states = self.recurrent.every_state(self.layer_input(x), lengths)
        seen = widen(valid_rows(states, self.recurrent.top_lengths(lengths)))
        if len(seen) == 0:
            raise InputError("Thresholds are quantiles of states: x must have at least one step, got none.")
        seen = seen[:: max(1, len(seen) // QUANTILE_ROWS)]
        count = len(self.thresholds)
        levels = torch.arange(1, count + 1, dtype=seen.dtype, device=seen.device) / (count + 1)
        self.thresholds.copy_(torch.quantile(seen, levels, dim=0))

    def folded_readout(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return scales, V and b with logits = V (scales * f) + b in evaluation: no statistics are left.

        The scales are powers of two, one for each feature.
        """
        weight, bias = self.readout.quantized_weight(), self.readout.bias
        assert bias is not None
        if self.feature_scale is None:
            return torch.ones_like(weight[0]), weight, bias
        scale, mean = self.feature_scale.folded()
        return scale, weight, bias - weight @ (scale * mean)

    def _every_logits(self, recurrent: RecurrentLayer, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return the logits of all steps, by the fused read-out where V sees the states themselves."""
        rows = self.layer_input(x)
        if self.feature_scale is None:
            weight = self.readout.quantized_weight()
            return recurrent.every_readout(rows, weight, self.readout.bias, lengths)
        features = self._activated(recurrent, recurrent.every_state(rows, lengths))
        logits: Tensor = self.readout(self.feature_scale(features, lengths))
        return logits

    def features(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        """Return what V sees: sigma(h_T) or pooled states; of a torch layer every h_t if `every_output`."""
        if not isinstance(self.recurrent, RecurrentLayer):
            return self._foreign_states(x, lengths)
        rows = self.layer_input(x)
        if self.readouts != ("last",):
            assert isinstance(self.recurrent, HadamRNN)
            return self.recurrent.pooled_state(rows, lengths, self.readouts, self.thresholds)
        return self._activated(self.recurrent, self.recurrent.end_state(rows, lengths))

    @staticmethod
    def _activated(recurrent: RecurrentLayer, states: Tensor) -> Tensor:
        """Return sigma(states): what V sees of them."""
        return states.relu() if recurrent.needs_activation else states

    def _foreign_states(self, x: Tensor, lengths: Tensor | None) -> Tensor:
        """Return every output or the last of a torch.nn.RNN, GRU or LSTM."""
        assert isinstance(self.recurrent, nn.RNNBase)
        rows = token_vectors(self.layer_input(x), self.recurrent.input_size, self.readout.weight.dtype)
        output, last = run_torch_layer(self.recurrent, rows, lengths)
        return output if self.every_output else last

    def _check_input(self, x: Tensor) -> None:
        if self.takes_ids:
            if x.dim() != 2:
                raise InputError(f"Ids must have shape (batch, time), got {tuple(x.shape)}.")
        elif x.dim() != 3 or x.shape[-1] != self.recurrent.input_size:
            raise InputError(
                f"Input must have shape (batch, time, {self.recurrent.input_size}), got {tuple(x.shape)}."
            )


def _state_size(recurrent: nn.Module) -> int:
    """Return the width of the recurrent layer's outputs."""
    if isinstance(recurrent, HadamRNN | nn.RNNBase) and not recurrent.batch_first:
        raise InputError("SequenceModel is batch first: build the recurrent layer with batch_first=True.")
    if isinstance(recurrent, RecurrentLayer):
        return recurrent.output_size
    if isinstance(recurrent, nn.RNNBase):
        return (recurrent.proj_size or recurrent.hidden_size) * (2 if recurrent.bidirectional else 1)
    raise InputError(
        "The recurrent layer must be a RecurrentLayer or one of torch's RNN, GRU and LSTM, "
        f"got {type(recurrent).__name__}."
    )
