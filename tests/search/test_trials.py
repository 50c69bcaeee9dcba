"""Trials stay within the budget, and a search that was stopped continues as if it had not been."""

from __future__ import annotations

from pathlib import Path

import pytest
from optuna.trial import TrialState

from hadamrnn.data.tasks import load_task
from hadamrnn.search import trials as trials_module
from hadamrnn.search.space import Budget
from hadamrnn.search.trials import Search, run_trials
from hadamrnn.training.config import resolve_config
from hadamrnn.training.loop import fit
from tests.search.searches import hush, small_search, study_of


@pytest.mark.slow
def test_a_search_that_was_stopped_goes_on_as_if_it_had_not_been(tmp_path: Path) -> None:
    search = small_search()
    whole, parts = (study_of(search, tmp_path / name) for name in ("whole", "parts"))
    run_trials(whole, search, 4, log=hush)
    run_trials(parts, search, 2, log=hush)
    run_trials(study_of(search, tmp_path / "parts"), search, 4, log=hush)

    assert [(t.params, t.values) for t in whole.trials] == [(t.params, t.values) for t in parts.trials]


def test_what_is_over_the_counted_budget_is_never_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    search = small_search(max_instructions=5000)
    monkeypatch.setattr(trials_module, "count", lambda network: 5001)
    monkeypatch.setattr(trials_module, "fit", lambda *args, **options: pytest.fail("trained"))
    study = study_of(search, tmp_path / "study")

    run_trials(study, search, 3, log=hush)

    assert [trial.state for trial in study.trials] == [TrialState.PRUNED] * 3


def test_the_best_trial_so_far_is_marked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = small_search()
    lines: list[str] = []
    values = iter((0.5, 0.9, 0.7))
    monkeypatch.setattr(trials_module, "evaluate", lambda *args: next(values))

    run_trials(study_of(search, tmp_path / "study"), search, 3, log=lines.append)

    shown = [line.partition("validation ")[2].rpartition("  ")[0] for line in lines]
    assert shown == ["accuracy 50.00 % *", "accuracy 90.00 % *", "accuracy 70.00 %"]


@pytest.mark.slow
def test_bad_trials_are_pruned_before_their_end(tmp_path: Path) -> None:
    search = small_search(epochs=5)
    study = study_of(search, tmp_path / "study")
    lines: list[str] = []
    for _ in range(6):  # no trial beats this history
        trial = study.ask()
        for percent in range(20, 101, 20):
            trial.report(1.0, percent)
        study.tell(trial, 1.0)

    run_trials(study, search, 7, log=lines.append)

    assert study.trials[-1].state == TrialState.PRUNED
    assert "pruned after" in lines[0] and "after 100 %" not in lines[0]


def test_a_trial_of_more_than_a_hundred_validations_reports_one_for_each_percent(tmp_path: Path) -> None:
    overrides = {"steps": 150, "evaluate_every": 1, "threads": 1}
    preset = resolve_config("digits", preset="quick", overrides=overrides)
    search = Search(load_task("digits"), preset, Budget(200))
    study = study_of(search, tmp_path / "study")

    run_trials(study, search, 1, log=hush)

    assert list(study.trials[0].intermediate_values) == list(range(1, 101))


def test_a_worker_whose_trial_was_given_up_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = small_search()
    study = study_of(search, tmp_path / "study")
    lines: list[str] = []

    def fit_too_slowly(*args: object, **options: object) -> object:
        if len(study.trials) == 1:
            study.tell(0, state=TrialState.FAIL)
        return fit(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(trials_module, "fit", fit_too_slowly)
    run_trials(study, search, 1, log=lines.append)

    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.COMPLETE]
    assert "given up" in lines[0]
