"""From a configuration and the facts of a task to a network. Start at `build`."""

from __future__ import annotations

import torch
from torch import nn

from hadamrnn.baselines.networks import build_model
from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.nn.cell import HadamCell
from hadamrnn.nn.model import ModelConfig, SequenceModel
from hadamrnn.nn.rnn import HadamRNN
from hadamrnn.training.config import TrainingConfig
from hadamrnn.training.draws import Draws


def build(config: TrainingConfig, splits: Splits) -> SequenceModel:
    """Return the network that a run starts from: its weights hang on the configuration's seed alone."""
    with Draws(config.seed):
        return _draw(config, splits)


def _draw(config: TrainingConfig, splits: Splits) -> SequenceModel:
    embedded = is_embedded(splits)
    if config.embedding_size is not None and not embedded:
        raise InputError(f"The task {splits.task} has no embedding: leave embedding_size out.")
    model = build_model(
        ModelConfig(
            input_size=config.embedding_size or splits.input_size,
            hidden_size=config.hidden_size,
            output_size=splits.output_size,
            num_layers=config.num_layers,
            bidirectional=config.bidirectional,
            dropout=config.dropout,
            num_blocks=config.num_blocks,
            weight_bits=config.weight_bits,
            recurrence=config.recurrence,
            switches=config.switches,
            one_hot=splits.one_hot,
            vocabulary_size=splits.vocabulary_size if embedded else None,
            padding_id=0 if embedded else None,
            every_output=splits.every_output,
            model=config.model,
            model_options=dict(config.model_options),
        )
    )
    set_start(model, config)
    return model


def set_start(model: SequenceModel, config: TrainingConfig) -> None:
    """Move a freshly drawn network to where `config` wants training to begin."""
    if config.negative_signs is not None:
        for cell in _cells(model, config, "signs: leave negative_signs out"):
            cell.draw_signs(config.negative_signs)
    if not config.input_bias:
        for cell in _cells(model, config, "b_i: leave input_bias out"):
            assert cell.input_bias is not None
            nn.init.zeros_(cell.input_bias).requires_grad_(False)
    if model.embedding is not None:
        with torch.no_grad():
            model.embedding.weight.mul_(config.embedding_scale)
    elif config.embedding_scale != 1.0:
        raise InputError(f"The task {config.task} has no embedding: leave embedding_scale out.")


def _cells(model: SequenceModel, config: TrainingConfig, lacking: str) -> list[HadamCell]:
    if not isinstance(model.recurrent, HadamRNN):
        raise InputError(f"A {config.model} has no {lacking}.")
    return [cell for cell in model.recurrent.cells if isinstance(cell, HadamCell)]


def is_embedded(splits: Splits) -> bool:
    """Whether ids go through an embedding, rather than being dense or one-hot."""
    return splits.vocabulary_size is not None and not splits.one_hot
