"""Calibration: how large do states and inputs get on training and validation data?

The integer state covers [-alpha_h, alpha_h), so alpha_h must reach max|h| over every step of every sequence.
With a percentile below 100 it reaches the largest state of that share of the sequences, and the rest
may saturate: a finer grid for all, at the price of the outliers.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from torch import Tensor

from hadamrnn.errors import InputError
from hadamrnn.nn.inputs import Tokens
from hadamrnn.nn.model import SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.quantization.config import PERCENTILE

STATE_BYTES = 1 << 24  # of states that are held at once; beyond, malloc returns pages to the system


@dataclass(frozen=True)
class Calibration:
    """The ranges that lowering needs, in the units of the float network."""

    max_state: float  # max |h_t|
    max_input: float  # max |x_t|: of the data, of the embedding table, 1 for one-hot inputs
    seq_length: int  # the longest sequence seen; states of longer ones may be larger
    samples: int
    percentile: float = 100.0


@torch.no_grad()
def calibrate(
    model: SequenceModel, batches: Iterable[tuple[Tensor, Tensor | None]], percentile: float = 100.0
) -> Calibration:
    """Run `model` over batches `(x, lengths)` and return the ranges of its states and inputs.

    Args:
        model: a `SequenceModel` over one forward `HadamRNN` layer.
        batches: what the model takes; training and validation data, never the test set.
        percentile: share of the sequences, in percent, whose states must fit.
    """
    if percentile not in PERCENTILE:
        raise InputError(f"percentile must lie in {PERCENTILE}, got {percentile}. 100 keeps every state.")
    recurrent = single_layer(model)
    # Numbers, not tensors: small blocks that stay would cut up the large ones that malloc could use again.
    largest_states: list[float] = []
    largest_inputs: list[float] = []
    seq_length = 0
    for x, lengths in batches:
        seq_length = max(seq_length, x.shape[1])
        rows = max(1, STATE_BYTES // (4 * max(1, x.shape[1]) * recurrent.hidden_size))
        for part, ends in _slices(_as_model_input(model, x), lengths, rows):
            states = recurrent.every_state(Tokens(part, model.embedding) if model.takes_ids else part, ends)
            largest_states += _largest(states)
        if not model.takes_ids:
            largest_inputs += _largest(x)
    if not largest_states:
        raise InputError("Calibration needs at least one sequence, got none.")
    return Calibration(
        max_state=_percentile(largest_states, percentile),
        max_input=_max_input(model, largest_inputs, percentile),
        seq_length=seq_length,
        samples=len(largest_states),
        percentile=percentile,
    )


def single_layer(model: SequenceModel) -> HadamRNN:
    """Return the model's recurrent layer if integers can run it, else raise."""
    recurrent = model.recurrent
    if not isinstance(recurrent, HadamRNN):
        raise InputError(f"Only a HadamRNN becomes integers, this model holds a {type(recurrent).__name__}.")
    if recurrent.num_layers > 1 or recurrent.bidirectional:
        kind = "bidirectional" if recurrent.bidirectional else f"{recurrent.num_layers} layers"
        raise InputError(
            f"An integer model has one layer that reads forwards, this one is {kind}. "
            "Train with num_layers=1 and bidirectional=False."
        )
    model.check_paper_form()
    return recurrent


def _max_input(model: SequenceModel, largest: list[float], percentile: float) -> float:
    if model.embedding is not None:
        return float(model.embedding.weight.abs().max())
    return 1.0 if model.one_hot else _percentile(largest, percentile)


def _as_model_input(model: SequenceModel, x: Tensor) -> Tensor:
    return x if model.takes_ids else x.to(model.readout.weight.dtype)


def _slices(x: Tensor, lengths: Tensor | None, rows: int) -> Iterable[tuple[Tensor, Tensor | None]]:
    for start in range(0, len(x), rows):
        part = slice(start, start + rows)
        yield x[part], None if lengths is None else lengths[part]


def _largest(values: Tensor) -> list[float]:
    """Return the largest magnitude of each row."""
    flat = values.flatten(1)
    if flat.shape[1] == 0:
        return [0.0] * len(flat)
    low, high = torch.aminmax(flat, dim=1)
    magnitudes: list[float] = torch.maximum(-low, high).tolist()
    return magnitudes


def _percentile(values: list[float], percentile: float) -> float:
    """Return the smallest value that at least `percentile` percent of `values` do not exceed."""
    rank = max(1, -int(-len(values) * percentile // 100))
    return sorted(values)[rank - 1]
