from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from hadamrnn.data.tasks import load_task
from hadamrnn.network import hadamard
from hadamrnn.nn.stack import HadamStack
from hadamrnn.training.config import TrainingConfig, config_values, make_config
from hadamrnn.training.evaluate import MetricsRow
from hadamrnn.training.loop import Watcher, fit
from hadamrnn.training.models import build
from hadamrnn.training.trainer import Diverged, Trainer, quantized_parameters, sign_parameters

if TYPE_CHECKING:
    from tests.training.conftest import Draw

SHORT = make_config(task="copy", steps=12, evaluate_every=5, batch_size=16, hidden_size=8, learning_rate=0.01)


def trainer_of(draw: Draw, config: TrainingConfig) -> Trainer:
    return Trainer(*draw(config), config)


def weights(trainer: Trainer) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}


def assert_same_bits(one: dict[str, Tensor], other: dict[str, Tensor]) -> None:
    assert one.keys() == other.keys()
    for name in one:
        assert torch.equal(one[name], other[name]), name


class Rows(Watcher):
    """A watcher that stores its rows."""

    def __init__(self) -> None:
        self.rows: list[MetricsRow] = []
        self.steps: list[int] = []

    def advance(self, step: int, loss: float) -> None:
        self.steps.append(step)

    def row(self, row: MetricsRow, best: bool) -> None:
        self.rows.append(row)


def test_digits_are_learnt_far_beyond_chance(draw: Draw) -> None:
    config = make_config(
        task="digits", epochs=4, batch_size=32, hidden_size=32, learning_rate=0.01, sign_freeze_epoch=0
    )
    outcome = fit(*draw(config), config)

    assert outcome.finished and outcome.best_metric is not None and outcome.best_metric > 0.5


def test_a_step_is_torchs_adam_on_the_models_loss(draw: Draw) -> None:
    """The plain reference beside the trainer: no decay, no clipping, one parameter group."""
    config = dataclasses.replace(SHORT, decay="none", adam_beta2=0.9)
    trainer = trainer_of(draw, config)
    model, splits = draw(config)
    adam = torch.optim.Adam(model.parameters(), lr=config.learning_rate, betas=(0.9, 0.9), foreach=False)

    for step in range(config.steps or 0):
        x, target, lengths = splits.train.batch(trainer._samples(step))
        assert target is not None
        loss = model.loss(x, target, lengths)
        adam.zero_grad()
        loss.backward()
        adam.step()
        assert trainer.step() == pytest.approx(loss.item(), rel=1e-4)
    for mine, plain in zip(trainer.model.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(mine, plain, rtol=1e-3, atol=1e-5)


def test_the_same_seed_gives_the_same_run_and_another_seed_another(draw: Draw) -> None:
    watchers = [Rows(), Rows(), Rows()]
    outcomes = []
    for seed, watcher in zip((3, 3, 4), watchers, strict=True):
        config = dataclasses.replace(SHORT, seed=seed)
        torch.rand(seed)  # earlier random draws do not matter
        outcomes.append(fit(*draw(config), config, watcher=watcher))

    one, again, other = (outcome.model.state_dict() for outcome in outcomes)
    assert_same_bits(one, again)
    assert [row.loss for row in watchers[0].rows] == [row.loss for row in watchers[1].rows]
    assert not torch.equal(one["readout.weight"], other["readout.weight"])


def test_training_leaves_the_callers_random_stream_alone(draw: Draw) -> None:
    model, splits = draw(SHORT)
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    fit(model, splits, SHORT)

    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sign_freeze_epoch": 1.5},
        {"weight_average": 0.9},
        {"num_layers": 2, "dropout": 0.5},
        {"balanced": False, "gradient_clip": 0.1, "dtype": "float64"},
        {"patience": 100, "decay": "none"},
    ],
)
@given(cut=st.integers(0, 12))
@settings(deadline=None, max_examples=6, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_restored_run_goes_on_to_the_last_bit(changes: dict[str, object], cut: int, draw: Draw) -> None:
    config = make_config(**{**config_values(SHORT), **changes})
    whole, begun, resumed = (trainer_of(draw, config) for _ in range(3))

    def advance(trainer: Trainer, until: int) -> None:
        while trainer.counters.step < until:
            trainer.step()
            if trainer.schedule.ends_row(trainer.counters.step):
                trainer.validate()

    advance(whole, 12)
    advance(begun, cut)
    groups = {group: {k: v.clone() for k, v in members.items()} for group, members in begun.state().items()}
    resumed.restore(groups, dataclasses.replace(begun.counters))
    advance(resumed, 12)

    assert resumed.counters == whole.counters
    for group, members in whole.state().items():
        assert_same_bits(members, resumed.state()[group])


def test_held_signs_never_move_and_ask_for_no_gradient(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, sign_freeze_epoch=0))
    (latent,) = sign_parameters(trainer.model)
    before = latent.clone()
    for _ in range(12):
        trainer.step()

    assert torch.equal(latent, before) and not latent.requires_grad and latent.grad is None


def test_signs_stop_at_their_freeze_point_while_the_rest_goes_on(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, sign_freeze_epoch=1.5))  # 4 steps per epoch
    (latent,) = sign_parameters(trainer.model)
    history = [latent.detach().clone()]
    readout = []
    for _ in range(12):
        trainer.step()
        history.append(latent.detach().clone())
        readout.append(trainer.model.readout.weight.detach().clone())

    moved = [not torch.equal(one, other) for one, other in pairwise(history)]
    assert moved == [True] * 6 + [False] * 6
    assert all(not torch.equal(one, other) for one, other in pairwise(readout))


def test_flips_are_the_sign_changes_from_step_to_step(draw: Draw) -> None:
    config = dataclasses.replace(SHORT, sign_learning_rate=0.3)
    trainer = trainer_of(draw, config)
    (latent,) = sign_parameters(trainer.model)
    expected = 0
    for _ in range(12):
        before = latent.detach() >= 0
        trainer.step()
        expected += int(((latent.detach() >= 0) != before).sum())

    assert trainer.counters.flips == expected > 0


def test_signs_with_their_own_rate_of_zero_stand_still(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, sign_learning_rate=0.0))
    (latent,) = sign_parameters(trainer.model)
    before = latent.detach().clone()
    trainer.step()

    assert torch.equal(latent, before)


def test_clipping_bounds_the_norm_of_the_gradient(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, gradient_clip=1e-3))
    trainer.step()
    gradients = [p.grad for p in trainer.model.parameters() if p.grad is not None]

    norm = torch.cat([gradient.flatten() for gradient in gradients]).norm()
    assert norm == pytest.approx(1e-3, rel=1e-3)


def test_clipped_weights_stay_within_a_few_root_mean_squares(draw: Draw) -> None:
    free, clipped = (trainer_of(draw, dataclasses.replace(SHORT, weight_clip=clip)) for clip in (None, 1.25))
    reach = []
    for trainer in (free, clipped):
        for _ in range(3):
            trainer.step()
        matrices = [weight.detach() for weight in quantized_parameters(trainer.model)]
        reach.append([float(w.abs().max() / w.square().mean().sqrt()) for w in matrices])

    assert all(value > 1.6 for value in reach[0])
    assert all(value < 1.4 for value in reach[1])  # clipping itself lowers the root mean square


def test_without_an_input_bias_padding_leaves_the_state_at_rest(draw: Draw) -> None:
    network = dataclasses.replace(hadamard(SHORT.network), input_bias=False)
    trainer = trainer_of(draw, dataclasses.replace(SHORT, network=network, weight_average=0.9))
    for _ in range(3):
        trainer.step()
    trainer.validate()
    recurrent = trainer.best_model().recurrent
    assert isinstance(recurrent, HadamStack)

    assert not recurrent.end_state(torch.zeros(2, 5, recurrent.input_size)).any()


def test_the_last_weights_are_kept_where_validation_is_to_choose_nothing(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, keep="last", learning_rate=1e-3))
    trainer.step()
    trainer.validate()
    with torch.no_grad():
        trainer.model.readout.weight.zero_()  # worse than any trained network
    _, kept = trainer.validate()

    assert kept and not trainer.best_model().readout.weight.any()


def test_weight_decay_shrinks_weights_and_leaves_signs_alone(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, weight_decay=10.0, sign_learning_rate=0.0))
    signs, before = (
        [latent.clone() for latent in trainer._signs],
        float(trainer.model.readout.weight.norm().detach()),
    )
    for _ in range(5):
        trainer.step()

    assert float(trainer.model.readout.weight.norm().detach()) < 0.97 * before
    assert all(torch.equal(now, then) for now, then in zip(trainer._signs, signs, strict=True))


def test_the_average_is_an_exponential_average_of_the_weights(draw: Draw) -> None:
    trainer = trainer_of(draw, dataclasses.replace(SHORT, weight_average=0.75))
    trainer.step()
    average = weights(trainer)  # begins with the weights of the first step
    for _ in range(11):
        trainer.step()
        now = weights(trainer)
        average = {name: 0.75 * average[name] + 0.25 * now[name] for name in now}
    trainer.validate()

    for name, tensor in trainer.best_model().state_dict().items():
        torch.testing.assert_close(tensor, average[name])


def test_the_outcome_is_the_best_row(draw: Draw) -> None:
    watcher = Rows()
    config = dataclasses.replace(SHORT, steps=60, learning_rate=0.05)
    outcome = fit(*draw(config), config, watcher=watcher)

    best = min(watcher.rows, key=lambda row: row.validation_metric or 0.0)
    assert (outcome.best_step, outcome.best_metric) == (best.step, best.validation_metric)
    assert [row.step for row in watcher.rows] == list(range(5, 61, 5))
    assert watcher.steps == list(range(1, 61))


@pytest.mark.parametrize(("decay", "last"), [("none", 15), ("cosine", 90)])
def test_a_run_without_progress_ends_unless_its_rate_has_still_to_fall(
    decay: Literal["none", "cosine"], last: int, draw: Draw
) -> None:
    """No row improves by 1e9, so only the first one is progress; a cosine of 100 steps falls at step 80."""
    watcher = Rows()
    config = dataclasses.replace(SHORT, steps=100, patience=2, tolerance=1e9, decay=decay)
    outcome = fit(*draw(config), config, watcher=watcher)

    assert outcome.finished
    assert outcome.step == last == watcher.rows[-1].step
    assert outcome.best_step >= (80 if decay == "cosine" else 5)


def test_without_validation_data_the_last_weights_stand(draw: Draw) -> None:
    model, splits = draw(SHORT)
    empty = dataclasses.replace(splits.validation, x=splits.validation.x[:0], y=None)
    outcome = fit(model, dataclasses.replace(splits, validation=empty), SHORT)

    assert outcome.best_metric is None
    assert_same_bits(dict(outcome.model.state_dict()), dict(model.state_dict()))


def test_a_loss_that_is_not_finite_stops_the_run_and_keeps_the_best(draw: Draw) -> None:
    config = dataclasses.replace(SHORT, steps=100)
    model, splits = draw(config)

    class Poison(Rows):
        def row(self, row: MetricsRow, best: bool) -> None:
            super().row(row, best)
            if len(self.rows) == 2:
                with torch.no_grad():
                    model.readout.weight.fill_(float("nan"))

    watcher = Poison()
    with pytest.raises(Diverged, match=r"diverged: the loss is nan at step 10.*best model, of step (5|10)"):
        fit(model, splits, config, watcher=watcher)
    assert len(watcher.rows) == 2


def test_a_run_that_diverges_before_its_first_validation_says_so(draw: Draw) -> None:
    model, splits = draw(SHORT)
    with torch.no_grad():
        model.readout.weight.fill_(float("inf"))

    with pytest.raises(Diverged, match="no validation yet"):
        fit(model, splits, SHORT)


def test_weights_that_are_not_finite_are_never_validated(draw: Draw) -> None:
    trainer = trainer_of(draw, SHORT)
    trainer.step()
    with torch.no_grad():
        trainer.model.readout.weight[0, 0] = float("nan")

    with pytest.raises(Diverged, match=r"weight .* at step 1"):
        trainer.validate()


def test_a_training_set_smaller_than_a_batch_is_one_batch() -> None:
    splits = load_task("copy", delay=1, sentence_length=1, train_size=3, validation_size=2, test_size=1)
    config = make_config(task="copy", epochs=2, batch_size=64, hidden_size=4)
    outcome = fit(build(config, splits), splits, config)

    assert outcome.step == 2
