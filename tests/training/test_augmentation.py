"""Augmentation of training inputs: each setting changes what it names, and nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from hadamrnn.data.splits import Split, Splits
from hadamrnn.errors import InputError
from hadamrnn.training.augmentation import OF_NUMBERS, augment, check_suited
from hadamrnn.training.config import make_config

RAMP = torch.arange(1.0, 21.0)[None, :, None].repeat(300, 1, 6)  # (batch, time, channels), never zero
OFFSET, SCALE = torch.linspace(-1.0, 1.0, 6), torch.linspace(0.5, 2.0, 6)


def sensors(device_channels: int = 3) -> Splits:
    """Return a task of six standardised channels."""
    none = Split(RAMP[:0], None)
    return Splits(
        "digits", none, none, none, 20, 6, 1, offset=OFFSET, scale=SCALE, device_channels=device_channels
    )


def augmented(x: Tensor, seed: int = 0, **settings: Any) -> Tensor:
    config = make_config(task="digits", epochs=1, **settings)
    return augment(x, config, sensors(), torch.Generator().manual_seed(seed))


def test_without_settings_inputs_stay_as_they_are() -> None:
    assert augmented(RAMP) is RAMP


@pytest.mark.parametrize("name", OF_NUMBERS)
def test_a_draw_is_a_function_of_the_generator_alone(name: str) -> None:
    first, again, other = (augmented(RAMP, seed, **{name: 2}) for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert first.shape == RAMP.shape and first.dtype == RAMP.dtype


def test_a_shifted_row_is_the_row_earlier_or_later_with_its_edge_repeated() -> None:
    shifted = augmented(RAMP, time_shift=3)[:, :, 0]
    shifts = 10.0 - shifted[:, 9]  # the tenth step is 10 - s
    assert set(shifts.tolist()) == {-3.0, -2.0, -1.0, 0.0, 1.0, 2.0, 3.0}
    expected = (torch.arange(1.0, 21.0) - shifts[:, None]).clamp(1, 20)
    assert torch.equal(shifted, expected)


def test_no_padding_moves_into_a_shifted_row() -> None:
    lengths = torch.arange(300) % 21
    config = make_config(task="digits", epochs=1, time_shift=3)
    padded = RAMP * (torch.arange(20) < lengths[:, None])[:, :, None]
    shifted = augment(padded, config, sensors(), torch.Generator().manual_seed(0), lengths)

    whole = augmented(RAMP, time_shift=3)
    for row, length in zip(range(300), lengths.tolist(), strict=True):
        assert torch.equal(shifted[row, :length], whole[row, :length].clamp(max=length))


@pytest.mark.parametrize(("name", "dim"), [("time_mask", 1), ("channel_mask", 2)])
def test_a_mask_hides_one_band_of_at_most_its_width(name: str, dim: int) -> None:
    hidden = augmented(RAMP, **{name: 3}) == 0
    bands = hidden.all(3 - dim)  # a band spans the other dimension
    assert torch.equal(bands.sum() * hidden.shape[3 - dim], hidden.sum())
    assert set(bands.sum(1).tolist()) == {0, 1, 2, 3}
    edges = bands.long().diff(dim=1, prepend=torch.zeros(len(bands), 1, dtype=torch.int64))
    assert (edges == 1).sum(1).max() == 1


def test_gain_and_offset_are_one_number_for_each_row_and_channel() -> None:
    gain = augmented(RAMP, channel_gain=0.2) / RAMP
    offset = augmented(RAMP, channel_offset=0.5) - RAMP
    for drawn in (gain, offset):
        torch.testing.assert_close(drawn, drawn[:, :1].expand_as(drawn), rtol=0, atol=1e-5)
    assert float(gain[:, 0].log().std()) == pytest.approx(0.2, rel=0.1)
    assert float(offset[:, 0].std()) == pytest.approx(0.5, rel=0.1)


def test_a_level_is_one_offset_for_each_row() -> None:
    level = augmented(RAMP, level_offset=0.5) - RAMP
    torch.testing.assert_close(level, level[:, :1, :1].expand_as(level), rtol=0, atol=1e-5)
    assert float(level[:, 0, 0].std()) == pytest.approx(0.5, rel=0.1)


def test_mixing_moves_each_row_towards_another_of_its_class_by_at_most_its_share() -> None:
    classes = torch.arange(300) % 3
    x = torch.randn(300, 5, 6, generator=torch.Generator().manual_seed(0)) + 100 * classes[:, None, None]
    config = make_config(task="digits", epochs=1, class_mixing=0.5)
    mixed = augment(x, config, sensors(), torch.Generator().manual_seed(1), classes=classes)

    assert torch.equal((mixed / 100).round().mean((1, 2)), classes.float())
    moved = mixed - x
    towards = x[None] - x[:, None]  # from each row to each other
    share = (moved[:, None] * towards).sum((2, 3)) / towards.square().sum((2, 3)).clamp(min=1e-6)
    rest = (moved[:, None] - share[..., None, None] * towards).abs().amax((2, 3))
    found = rest.masked_fill(torch.eye(300, dtype=torch.bool), 9).min(1)
    alone = moved.abs().amax((1, 2)) == 0
    assert float(found.values[~alone].max()) < 1e-4 and int(alone.sum()) < 10
    shares = share[torch.arange(300), found.indices][~alone]
    assert 0 <= float(shares.min()) and 0.45 < float(shares.max()) <= 0.5001
    assert torch.unique(found.indices[~alone]).numel() > 280  # a permutation within the classes


def test_mixing_is_refused_without_a_class_for_each_sample(copy_task: Splits) -> None:
    config = make_config(task="copy", epochs=1, class_mixing=1)
    with pytest.raises(InputError, match="class_mixing"):
        check_suited(config, copy_task)
    values = replace(sensors(), metric="mse")
    with pytest.raises(InputError, match="class_mixing"):
        check_suited(config, values)
    with pytest.raises(InputError, match="class_mixing"):
        check_suited(config, replace(sensors(), train=replace(sensors().train, lengths=torch.ones(0))))
    check_suited(config, sensors())


def test_hidden_input_is_dropout_for_numbers_and_padding_for_words() -> None:
    hidden = augmented(torch.ones(200, 50, 1), input_dropout=0.25)
    words = augmented(torch.full((200, 50), 7), input_dropout=0.25)

    assert hidden.unique().tolist() == pytest.approx([0.0, 4 / 3])
    assert float((hidden == 0).float().mean()) == pytest.approx(0.25, abs=0.02)
    assert set(words.unique().tolist()) == {0, 7}
    assert float((words == 0).float().mean()) == pytest.approx(0.25, abs=0.02)


@pytest.mark.parametrize("name", ("input_dropout", *OF_NUMBERS))
def test_one_hot_ids_cannot_be_augmented(name: str, copy_task: Splits) -> None:
    config = make_config(task="copy", epochs=1, **{name: 0.1 if name == "input_dropout" else 1})
    with pytest.raises(InputError, match=name):
        check_suited(config, copy_task)


def test_a_rotation_turns_all_vectors_of_a_device_alike_and_keeps_their_lengths() -> None:
    config = make_config(task="digits", epochs=1, rotation=40)
    raw = torch.randn(2000, 5, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    x = (raw - OFFSET.double()) / SCALE.double()

    def turned(device_channels: int) -> Tensor:
        y = augment(x, config, sensors(device_channels), torch.Generator().manual_seed(1))
        return (y * SCALE.double() + OFFSET.double()).reshape(2000, 5, 2, 3)

    vectors = raw.reshape(2000, 5, 2, 3)
    one, two = turned(6), turned(3)
    for after in (one, two):
        torch.testing.assert_close(after.norm(dim=-1), vectors.norm(dim=-1))
        products = (after[:, 0] * after[:, 1]).sum(-1)
        torch.testing.assert_close(products, (vectors[:, 0] * vectors[:, 1]).sum(-1))
    dots = [
        (vectors[:, :, 0] * vectors[:, :, 1]).sum(-1),
        *((y[:, :, 0] * y[:, :, 1]).sum(-1) for y in (one, two)),
    ]
    torch.testing.assert_close(dots[0], dots[1])
    assert not torch.allclose(dots[0], dots[2])


def test_the_angle_of_a_rotation_has_its_standard_deviation() -> None:
    config = make_config(task="digits", epochs=1, rotation=10)
    raw = torch.eye(3)[None, :, :].repeat(4000, 1, 2)
    y = augment((raw - OFFSET) / SCALE, config, sensors(6), torch.Generator().manual_seed(1))
    turns = (y * SCALE + OFFSET)[:, :, :3]
    cosine = (turns.diagonal(dim1=1, dim2=2).sum(-1) - 1) / 2

    assert float(cosine.clamp(-1, 1).acos().rad2deg().square().mean().sqrt()) == pytest.approx(10, rel=0.05)


def test_a_rotation_is_refused_where_channels_are_no_axes() -> None:
    config = make_config(task="digits", epochs=1, rotation=10)
    with pytest.raises(InputError, match="rotation"):
        check_suited(config, sensors(0))
