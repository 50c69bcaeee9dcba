"""Training shifts the levels of bands as far as validation allows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from hadamrnn.data.splits import Split, Splits, in_parts
from hadamrnn.nn.model import SequenceModel
from hadamrnn.run import RunOptions, train
from hadamrnn.training import loop
from hadamrnn.training.config import TrainingConfig, make_config
from hadamrnn.training.loop import OFFSETS, Outcome, decide_offset, fit


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


@pytest.mark.parametrize(("shift", "chosen"), [(0.8, OFFSETS[1]), (12.0, OFFSETS[0])])
def test_levels_that_tell_classes_apart_move_less(
    shift: float, chosen: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits: list[float | None] = []

    def counted(model: SequenceModel, splits: Splits, config: TrainingConfig, **how: Any) -> Outcome:
        fits.append(config.channel_offset)
        return fit(model, splits, config, **how)

    monkeypatch.setattr(loop, "fit", counted)

    assert decide_offset(config(None), bands(shift)).channel_offset == chosen
    assert fits == list(OFFSETS[: 1 + OFFSETS.index(chosen)])  # none is trained after one without errors


def test_a_chosen_offset_trains_as_one_that_is_given(tmp_path: Path) -> None:
    options = RunOptions(splits=bands(0.8))
    chosen, given = (train(config(offset), tmp_path / str(offset), options) for offset in (None, OFFSETS[1]))

    assert chosen.config == given.config
    for name, value in given.model.state_dict().items():
        assert torch.equal(value, chosen.model.state_dict()[name]), name
