"""Training shifts the levels of bands as far as validation allows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from hadamrnn.data.splits import Split, Splits, in_parts
from hadamrnn.nn.model import SequenceModel
from hadamrnn.run import RunOptions, train
from hadamrnn.training import loop
from hadamrnn.training.config import TrainingConfig, make_config
from hadamrnn.training.loop import LEVELS, Outcome, decide_levels, fit


def bands(shift: float) -> Splits:
    """Return four bands with little noise; in the second class each is higher by `shift`."""
    rng = torch.Generator().manual_seed(0)

    def part(count: int) -> Split:
        y = torch.arange(count) % 2
        return Split(shift * y[:, None, None] + 0.05 * torch.randn((count, 6, 4), generator=rng), y)

    return in_parts("npz", map(part, (120, 40, 40)), class_names=("low", "high"))


def config(offset: float | None) -> TrainingConfig:
    sizes: dict[str, Any] = {"hidden_size": 8, "epochs": 8, "batch_size": 20, "learning_rate": 0.01}
    return make_config(task="npz", channel_offset=offset, keep="last", threads=1, **sizes)


def bands_apart(shift: float) -> Splits:
    """Return bands like `bands`, whose levels vary alike; the first two are higher in the second class."""
    rng = torch.Generator().manual_seed(1)

    def part(count: int) -> Split:
        y = torch.arange(count) % 2
        level = torch.randn((count, 1, 1), generator=rng)
        own = shift * y[:, None, None] * torch.tensor([1.0, 1.0, 0.0, 0.0])
        return Split(own + level + 0.05 * torch.randn((count, 6, 4), generator=rng), y)

    return in_parts("npz", map(part, (120, 40, 40)), class_names=("low", "high"))


@pytest.mark.parametrize(
    ("splits", "tried"),
    [(bands(12.0), 1), (bands_apart(0.5), 2), (bands(0.8), 3)],
    ids=["far", "apart", "near"],
)
def test_levels_that_tell_classes_apart_do_not_move(
    splits: Splits, tried: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[dict[str, Any]] = []

    def counted(model: SequenceModel, splits: Splits, config: TrainingConfig, **how: Any) -> Outcome:
        fits.append({name: getattr(config, name) for name in LEVELS["all channels alike"]})
        return fit(model, splits, config, **how)

    monkeypatch.setattr(loop, "fit", counted)
    chosen = decide_levels(replace(config(None), channel_mask=1), splits)

    assert len(fits) == tried  # none is trained after one without errors
    each, alike, none = LEVELS.values()
    rule = (each, alike, none)[tried - 1]
    assert {name: getattr(chosen, name) for name in rule} == rule
    assert (chosen.channel_mask, chosen.level_offset) == ((1, 0.0), (0, 1.0), (0, 0.0))[tried - 1]
    assert fits[-1] == {name: getattr(chosen, name) for name in fits[-1]}


def test_chosen_levels_train_as_those_that_are_given(tmp_path: Path) -> None:
    options = RunOptions(splits=bands(0.8))
    chosen, given = (train(config(offset), tmp_path / str(offset), options) for offset in (None, 0.0))

    assert chosen.config == given.config
    for name, value in given.model.state_dict().items():
        assert torch.equal(value, chosen.model.state_dict()[name]), name
