"""Trials: draw a network that fits, train it, quantize it, report it. Start at `run_trials`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.network import Network, network_values
from hadamrnn.quantization.chain import quantize
from hadamrnn.quantization.config import QuantizeConfig
from hadamrnn.quantization.network import IntegerNetwork
from hadamrnn.search.space import Budget, Space, count, draw_rates, estimate, payload_bytes
from hadamrnn.search.study import Study, Trial, TrialState, choose_sampler, counted, sign_trial
from hadamrnn.training.config import TrainingConfig, config_values
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.loop import fit
from hadamrnn.training.models import build, task_network
from hadamrnn.training.progress import MetricsRow, Watcher, show_metric

Say = Callable[[str], None]
Stop = Callable[[], bool]


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the best network of a task within a budget, by a preset's recipe."""

    splits: Splits
    preset: TrainingConfig
    budget: Budget

    @property
    def space(self) -> Space:
        return Space(task_network(self.preset, self.splits), self.budget)

    @property
    def maximize(self) -> bool:
        return self.splits.metric == "accuracy"

    @property
    def terms(self) -> dict[str, Any]:
        """What the trials of a study share, as JSON values."""
        values = config_values(self.preset)
        shared = ("task", "task_options", "preset", "seed", "epochs", "steps")
        return {**{name: values[name] for name in shared}, **asdict(self.budget)}

    def config(self, candidate: Network, rates: dict[str, Any]) -> TrainingConfig:
        return replace(self.preset, network=replace(candidate, activation_bits=None), **rates)


class Reporter(Watcher):
    """Reports a trial's validations to the study, by percent of its steps, and asks whether to prune it."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.pruned = False
        self.percent = 0

    def start(self, step: int, total_steps: int, epochs: float, metric: object) -> None:
        self._total = total_steps

    def row(self, row: MetricsRow, best: bool) -> None:
        percent = 100 * row.step // self._total
        assert row.validation_metric is not None  # a task has validation data
        if percent > self.percent:  # optuna takes one figure for each and warns of a second
            self.percent = percent
            self._trial.report(row.validation_metric, percent)
        self.pruned = row.step < self._total and self._trial.should_prune()


def run_trials(
    study: Study, search: Search, trials: int, stop: Stop = lambda: False, say: Say = print
) -> None:
    """Run trials until all workers together have made `trials`, or until `stop` returns True."""
    space = search.space
    signs = "held" if search.preset.sign_freeze_epoch == 0 else "learnt"
    rates = {"learning_rate": search.preset.learning_rate, "signs": signs}
    guess = {**space.indices(space.guess(search.preset)), **rates}
    while not stop() and counted(study) < trials:
        trial = study.ask()
        sign_trial(trial)
        choose_sampler(study, search.preset.seed, trial.number, guess)
        try:
            line = _make(study, trial, search, space, stop)
        except BaseException:
            study.tell(trial, state=TrialState.FAIL)
            raise
        say(f"trial {trial.number + 1:<4}{line}")


def _make(study: Study, trial: Trial, search: Search, space: Space, stop: Stop) -> str:
    """Run one trial and report it to the study; return a line about it."""
    began = time.monotonic()
    candidate = space.draw(trial)
    config = search.config(candidate, draw_rates(trial, search.preset))
    size = payload_bytes(candidate)
    most = search.budget.max_instructions
    found = None if most is None else count(candidate)  # only a budget needs the count
    instructions = found if isinstance(found, int) else estimate(candidate)
    trial.set_user_attr("config", config_values(config))
    trial.set_user_attr("network", network_values(candidate))
    trial.set_user_attr("bytes", size)
    trial.set_user_attr("instructions", instructions)
    line = f"{candidate}  {size:,} bytes"
    if most is not None and isinstance(found, int) and found > most:
        study.tell(trial, state=TrialState.PRUNED)
        return f"{line}  not trained: {instructions:,} instructions, counted"
    reporter = Reporter(trial)
    try:
        outcome = fit(
            build(config, search.splits),
            search.splits,
            config,
            watcher=reporter,
            stop=lambda: reporter.pruned or stop(),
        )
        if outcome.finished:
            integer, _ = quantize(outcome.model, search.splits, integer_config(candidate))
            value = evaluate(IntegerNetwork(integer), search.splits.validation, search.splits.metric)
    except InputError as error:  # it diverged, or no shift fits its states: a bad trial only
        study.tell(trial, state=TrialState.PRUNED)
        return f"{line}  {error}"
    seconds = time.monotonic() - began
    if not outcome.finished:
        study.tell(trial, state=TrialState.PRUNED if reporter.pruned else TrialState.FAIL)
        how = "pruned" if reporter.pruned else "stopped"
        return f"{line}  {how} after {reporter.percent} %  {seconds:.1f} s"
    study.tell(trial, value)
    best = " *" if study.best_trial.number == trial.number else ""
    return f"{line}  validation {show_metric(search.splits.metric, value)}{best}  {seconds:.1f} s"


def integer_config(network: Network) -> QuantizeConfig:
    """Return how to quantize a candidate."""
    assert network.activation_bits is not None
    return QuantizeConfig(activation_bits=network.activation_bits)
