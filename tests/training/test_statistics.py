"""Running statistics of normalised networks belong to the weights that are validated."""

from __future__ import annotations

import torch

from hadamrnn.data.tasks import load_task
from hadamrnn.nn.normalization import FeatureScale, fresh_statistics
from hadamrnn.nn.stack import HadamStack
from hadamrnn.training.config import make_config
from hadamrnn.training.models import build
from hadamrnn.training.trainer import Trainer


def test_a_validation_has_the_statistics_of_the_weights_that_it_judges() -> None:
    splits = load_task("digits")
    config = make_config(
        task="digits", epochs=1, batch_size=200, learning_rate=0.1, hidden_size=16, readouts=("mean",),
        normalize=True,
    )  # fmt: skip
    trainer = Trainer(build(config, splits), splits, config)
    for _ in range(3):
        trainer.step()
    trainer.validate()
    model = trainer.model
    assert isinstance(model.recurrent, HadamStack) and model.feature_scale is not None
    x, _, lengths = splits.train.batch(slice(None))
    with torch.no_grad():
        expected = model.recurrent.pooled_state(x, lengths, ("mean",)).mean(0)
    torch.testing.assert_close(model.feature_scale.running_mean, expected, rtol=1e-2, atol=1e-2)


def test_fresh_statistics_are_those_of_all_batches_alike_and_leave_the_exponents_of_features() -> None:
    generator = torch.Generator().manual_seed(0)
    scale = FeatureScale(3).train()
    scale(torch.randn(64, 3, generator=generator))
    exponents = scale.exponents.clone()

    batches = torch.randn(40, 8, 3, generator=generator) * torch.tensor([1.0, 8.0, 0.1])
    with fresh_statistics(scale) as has_statistics:
        assert has_statistics
        for batch in batches:
            scale(batch)

    torch.testing.assert_close(scale.running_mean, batches.mean((0, 1)))
    torch.testing.assert_close(scale.running_var, batches.var(1, correction=0).mean(0))
    assert torch.equal(scale.exponents, exponents)  # V was trained with them

    scale(batches[0])  # training goes on, and they follow again
    assert not torch.equal(scale.exponents, exponents)


def test_features_that_hardly_ever_move_are_not_blown_up() -> None:
    """One is constant, one moves in one batch of a thousand: their contribution stays within 2^6 medians."""
    rng = torch.Generator().manual_seed(0)
    scale = FeatureScale(8).train()
    for batch in range(900):
        features = torch.randn(16, 8, generator=rng)
        features[:, 6] = 40.0
        features[:, 7] = features[:, 7] * (batch == 500)
        scale(features)

    shifts = scale.eval().step(torch.ones(8) + scale.running_mean) - scale.step(scale.running_mean)

    assert scale.exponents[6] >= -3  # a part in 256 of the constant is rounding
    torch.testing.assert_close(shifts[:6], torch.ones(6))
    assert float(shifts[7]) == 2.0**6
