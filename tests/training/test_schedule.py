from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hadamrnn.data.splits import Split
from hadamrnn.errors import InputError
from hadamrnn.training.config import make_config, resolve_config
from hadamrnn.training.processes import Processes
from hadamrnn.training.schedule import Schedule, epoch_order
from hadamrnn.training.trainer import Trainer

if TYPE_CHECKING:
    from tests.training.conftest import Draw


def test_cosine_decay_starts_at_one_and_ends_near_zero() -> None:
    schedule = Schedule(make_config(task="digits", epochs=10, batch_size=10), samples=1000)
    factors = [schedule.rate_factor(step) for step in range(schedule.total_steps)]

    assert factors[0] == 1.0 and 0 < factors[-1] < 1e-5
    assert factors == sorted(factors, reverse=True)
    assert factors[schedule.total_steps // 2] == pytest.approx(0.5)


@given(st.integers(1, 5000), st.integers(1, 64), st.integers(1, 30), st.integers(1, 2000))
@settings(deadline=None)
def test_min_steps_adds_epochs_to_a_short_run_and_keeps_its_validations(
    samples: int, batch_size: int, epochs: int, least: int
) -> None:
    values = {"task": "digits", "epochs": epochs, "batch_size": batch_size}
    short, run = (Schedule(make_config(**values, min_steps=n), samples) for n in (None, least))

    assert run.total_steps >= max(least, short.total_steps)
    assert run.total_steps % short.total_steps == 0
    if short.total_steps >= least:
        assert run.total_steps == short.total_steps
    assert run.total_steps // run.row_steps == short.total_steps // short.row_steps


def test_own_epochs_are_not_stretched() -> None:
    assert resolve_config("npz").min_steps
    assert resolve_config("npz", overrides={"epochs": 3}).min_steps is None
    assert resolve_config("npz", overrides={"epochs": 3, "min_steps": 50}).min_steps == 50


def test_exponential_decay_multiplies_once_an_epoch() -> None:
    config = make_config(task="digits", epochs=3, batch_size=10, decay="exponential", decay_factor=0.5)
    schedule = Schedule(config, samples=29)

    assert [schedule.rate_factor(step) for step in range(6)] == [1, 1, 0.5, 0.5, 0.25, 0.25]


@given(st.integers(1, 200), st.integers(1, 64), st.integers(1, 4), st.integers(1, 5))
@settings(deadline=None)
def test_rows_cut_a_run_without_gaps(samples: int, batch_size: int, processes: int, epochs: int) -> None:
    if samples < processes:
        return
    config = make_config(task="digits", epochs=epochs, batch_size=batch_size, evaluate_every=7)
    schedule = Schedule(config, samples, processes)
    ends = [step for step in range(1, schedule.total_steps + 1) if schedule.ends_row(step)]

    assert [schedule.row_start(end) for end in ends] == [0, *ends[:-1]]
    assert ends[-1] == schedule.total_steps


@given(st.integers(0, 2**32 - 1), st.integers(0, 1000))
@settings(deadline=None, max_examples=25)
def test_the_order_is_a_permutation_that_seed_and_epoch_determine(seed: int, epoch: int) -> None:
    split = Split(torch.zeros(50, 2, 1), torch.zeros(50, dtype=torch.int64))
    order = epoch_order(split, seed, epoch, balanced=False)

    assert torch.equal(order.sort().values, torch.arange(50))
    assert torch.equal(order, epoch_order(split, seed, epoch, balanced=False))
    assert not torch.equal(order, epoch_order(split, seed, epoch + 1, balanced=False))


def test_balanced_draws_show_every_class_equally_often() -> None:
    labels = torch.tensor([0] * 9000 + [1] * 1000)
    order = epoch_order(Split(torch.zeros(10_000, 1, 1), labels), seed=0, epoch=0, balanced=True)

    share = labels[order].float().mean()
    assert abs(share - 0.5) < 0.02  # four standard deviations of 10,000 fair draws


def test_balanced_draws_need_class_labels() -> None:
    with pytest.raises(InputError, match="balanced"):
        epoch_order(Split(torch.zeros(4, 1, 1), torch.zeros(4, 1)), seed=0, epoch=0, balanced=True)


class Rank(Processes):
    """One of several processes, on its own."""

    def __init__(self, rank: int, count: int) -> None:
        self.rank, self.count = rank, count


def test_processes_share_the_batch_of_one_with_as_many_times_the_size(draw: Draw) -> None:
    shared = make_config(task="digits", steps=100, batch_size=8, hidden_size=4)
    alone = make_config(task="digits", steps=100, batch_size=24, hidden_size=4)
    ranks = [Trainer(*draw(shared), shared, Rank(rank, 3)) for rank in range(3)]
    single = Trainer(*draw(alone), alone, Processes())

    for step in (0, 1, 51, 52, 99):  # 52 begins the second epoch
        parts = torch.cat([trainer._samples(step) for trainer in ranks])
        assert torch.equal(parts, single._samples(step))
