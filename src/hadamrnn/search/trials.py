"""Trials: choose a candidate, train it, quantize it, report its metric. Start at `run_trials`."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

from optuna.exceptions import UpdateFinishedTrialError
from optuna.study import Study
from optuna.trial import Trial, TrialState

from hadamrnn.data.splits import Splits
from hadamrnn.errors import InputError
from hadamrnn.fixedpoint.instructions import estimate
from hadamrnn.network import Network, hadamard, network_values
from hadamrnn.quantization import QuantizeConfig
from hadamrnn.quantization.chain import IntegerNetwork, quantize
from hadamrnn.search.space import Budget, SearchSpace, count, payload_bytes, suggest_rates
from hadamrnn.search.study import check_settings, count_trials, fail_stale_trials, heartbeat, set_sampler
from hadamrnn.training.config import TrainingConfig, config_values
from hadamrnn.training.evaluate import evaluate
from hadamrnn.training.loop import fit
from hadamrnn.training.models import build, task_network
from hadamrnn.training.progress import MetricsRow, Watcher, show_metric

Log = Callable[[str], None]
Stop = Callable[[], bool]
GIVEN_UP = "given up by another worker: no heartbeat for too long"


@dataclass(frozen=True, eq=False)
class Search:
    """A search for the best network of a task within a budget, trained by a preset's recipe."""

    splits: Splits
    preset: TrainingConfig
    budget: Budget

    @property
    def space(self) -> SearchSpace:
        return SearchSpace(hadamard(task_network(self.preset, self.splits)), self.budget)

    @property
    def maximize(self) -> bool:
        return self.splits.metric == "accuracy"

    @property
    def settings(self) -> dict[str, Any]:
        """Return the settings that all trials of a study share, as JSON values."""
        values = config_values(self.preset)
        shared = ("task", "task_options", "preset", "seed", "epochs", "steps")
        return {**{name: values[name] for name in shared}, **asdict(self.budget)}


class Reporter(Watcher):
    """Report a trial's validations to the study by percent of its steps, and ask whether to prune it."""

    def __init__(self, trial: Trial) -> None:
        self._trial = trial
        self.pruned = False
        self.percent = 0

    def start(self, step: int, total_steps: int, epochs: float, metric: object) -> None:
        self._total = total_steps

    def row(self, row: MetricsRow, best: bool) -> None:
        percent = 100 * row.step // self._total
        assert row.validation_metric is not None  # a task has validation data
        if percent > self.percent:  # optuna accepts one figure for each and warns of a second
            self.percent = percent
            self._trial.report(row.validation_metric, percent)
        self.pruned = row.step < self._total and self._trial.should_prune()


def run_trials(
    study: Study, search: Search, trials: int, stop: Stop = lambda: False, log: Log = print
) -> None:
    """Run trials until all workers together have made `trials`, or until `stop` returns True."""
    space = search.space
    first = space.preset_parameters(search.preset)
    while not stop():
        fail_stale_trials(study)
        if count_trials(study) >= trials:
            return
        check_settings(study, search.settings)
        trial = study.ask()
        with heartbeat(trial):
            set_sampler(study, search.preset.seed, trial.number, first)
            try:
                line = _run_trial(study, trial, search, space, stop)
            except UpdateFinishedTrialError:
                line = GIVEN_UP
            except BaseException:
                study.tell(trial, state=TrialState.FAIL, skip_if_finished=True)
                raise
        log(f"trial {trial.number + 1:<4}{line}")


def _run_trial(study: Study, trial: Trial, search: Search, space: SearchSpace, stop: Stop) -> str:
    """Run one trial, report it to the study and return a line about it."""
    began = time.monotonic()
    tell = partial(study.tell, trial, skip_if_finished=True)
    candidate = space.suggest(trial)
    rates = suggest_rates(trial, search.preset)
    config = replace(search.preset, network=replace(candidate, activation_bits=None), **rates)
    most = search.budget.max_instructions
    counted = None if most is None else count(candidate)  # only a budget needs the count
    instructions = counted if isinstance(counted, int) else estimate(candidate)
    size = payload_bytes(candidate)
    trial.set_user_attr("config", config_values(config))
    trial.set_user_attr("network", network_values(candidate))
    trial.set_user_attr("bytes", size)
    trial.set_user_attr("instructions", instructions)
    line = f"{candidate}  {size:,} bytes"
    if most is not None and isinstance(counted, int) and counted > most:
        tell(state=TrialState.PRUNED)
        return f"{line}  not trained: {counted:,} instructions, counted"
    reporter = Reporter(trial)
    splits = search.splits
    try:
        model = build(config, splits)
        outcome = fit(model, splits, config, watcher=reporter, stop=lambda: reporter.pruned or stop())
        if outcome.finished:
            integer, _ = quantize(outcome.model, splits, quantize_config(candidate))
            value = evaluate(IntegerNetwork(integer), splits.validation, splits.metric)
    except InputError as error:  # it diverged, or no shift fits its states: a bad trial only
        tell(state=TrialState.PRUNED)
        return f"{line}  {error}"
    seconds = time.monotonic() - began
    if not outcome.finished:
        tell(state=TrialState.PRUNED if reporter.pruned else TrialState.FAIL)
        end = "pruned" if reporter.pruned else "stopped"
        return f"{line}  {end} after {reporter.percent} %  {seconds:.1f} s"
    if tell(value).state != TrialState.COMPLETE:
        return GIVEN_UP
    best = " *" if study.best_trial.number == trial.number else ""
    return f"{line}  validation {show_metric(splits.metric, value)}{best}  {seconds:.1f} s"


def quantize_config(network: Network) -> QuantizeConfig:
    """Return how to quantize a candidate."""
    assert network.activation_bits is not None
    return QuantizeConfig(activation_bits=network.activation_bits)
