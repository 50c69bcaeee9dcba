"""The demo: train a network on handwritten digits and say what it weighs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from hadamrnn.data import Split, load_task
from hadamrnn.fixedpoint.cost import network_size
from hadamrnn.layers.model import ModelConfig, SequenceModel, build_model

HIDDEN_SIZE, WEIGHT_BITS, BATCH_SIZE = 128, 4, 32
EPOCHS, LEARNING_RATE = 40, 2e-3


@dataclass(frozen=True)
class DemoResult:
    """What the demo's table shows."""

    test_accuracy: float
    kilobytes: float
    seconds: float


def run_demo(report: Callable[[int, float], None], *, epochs: int = EPOCHS, seed: int = 0) -> DemoResult:
    """Train on scikit-learn's digits, read pixel by pixel; `report(epoch, validation accuracy)` as it goes.

    The signs are held at their random start: on tasks where position matters, a flip late in training
    undoes what U and V have learnt.
    """
    started = time.perf_counter()
    torch.manual_seed(seed)
    splits = load_task("digits")
    config = ModelConfig(splits.input_size, HIDDEN_SIZE, splits.output_size, weight_bits=WEIGHT_BITS)
    model = build_model(config)
    best_accuracy, best_state = 0.0, model.state_dict()
    trained = [parameter for name, parameter in model.named_parameters() if "latent" not in name]
    optimizer = torch.optim.Adam(trained, lr=LEARNING_RATE)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    for epoch in range(1, epochs + 1):
        for rows in torch.randperm(len(splits.train)).split(BATCH_SIZE):
            x, y, lengths = splits.train.batch(rows)
            assert y is not None
            optimizer.zero_grad()
            model.loss(x, y, lengths).backward()
            optimizer.step()
        schedule.step()
        accuracy = measure_accuracy(model, splits.validation)
        report(epoch, accuracy)
        if accuracy > best_accuracy:
            best_accuracy = accuracy
            best_state = {name: value.clone() for name, value in model.state_dict().items()}
    model.load_state_dict(best_state)
    size = network_size(HIDDEN_SIZE, splits.input_size, splits.output_size, weight_bits=WEIGHT_BITS)
    return DemoResult(measure_accuracy(model, splits.test), size.kilobytes, time.perf_counter() - started)


@torch.no_grad()
def measure_accuracy(model: SequenceModel, split: Split) -> float:
    """Return the share of samples whose largest logit is the label's."""
    x, y, lengths = split.batch(slice(None))
    assert y is not None
    return float((model(x, lengths).argmax(dim=-1) == y).float().mean())
