"""A study is shared by processes and its settings are fixed; its storage is a journal or a database."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from optuna.trial import Trial, TrialState

from hadamrnn.errors import InputError
from hadamrnn.search import study as study_module
from hadamrnn.search.study import (
    SETTINGS,
    STALE_SECONDS,
    count_trials,
    fail_stale_trials,
    heartbeat,
    set_sampler,
)
from hadamrnn.search.trials import run_trials
from tests.search.searches import small_search, study_of


def test_the_first_parameters_are_used_once_and_again_only_if_their_trial_failed(tmp_path: Path) -> None:
    study = study_of(small_search(), tmp_path / "study")
    first = {"size": 7}

    def draw() -> Trial:
        trial = study.ask()
        set_sampler(study, 0, trial.number, first)
        trial.suggest_int("size", 0, 1_000_000)
        return trial

    failed = draw()
    study.tell(failed, state=TrialState.FAIL)
    again, beside = draw(), draw()  # the second one begins while the first one runs

    assert failed.params == again.params == first
    assert beside.params != first


def test_a_trial_whose_process_was_killed_is_given_up(tmp_path: Path) -> None:
    search = small_search()
    study = study_of(search, tmp_path / "study")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process in (gone.pid, os.getpid()):
        trial = study.ask()
        trial.set_user_attr("host", socket.gethostname())
        trial.set_user_attr("process", process)
    assert count_trials(study) == 2

    study = study_of(search, tmp_path / "study")

    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.RUNNING]
    assert count_trials(study) == 1


def test_a_trial_on_another_machine_is_given_up_without_a_heartbeat(tmp_path: Path) -> None:
    study = study_of(small_search(), tmp_path / "study")
    for age in (STALE_SECONDS + 1, STALE_SECONDS - 60):
        trial = study.ask()
        trial.set_user_attr("process", 1)
        trial.set_user_attr("host", "elsewhere")
        trial.set_user_attr("heartbeat", time.time() - age)

    fail_stale_trials(study)

    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.RUNNING]


def test_a_running_trial_has_a_heartbeat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_module, "HEARTBEAT_SECONDS", 0.01)
    study = study_of(small_search(), tmp_path / "study")
    began = time.time()

    with heartbeat(study.ask()):
        deadline = time.monotonic() + 10
        while "heartbeat" not in study.trials[0].user_attrs and time.monotonic() < deadline:
            time.sleep(0.01)

    assert began <= study.trials[0].user_attrs["heartbeat"] <= time.time()


def test_a_study_that_got_other_settings_meanwhile_runs_no_more_trials(tmp_path: Path) -> None:
    """Two workers that create it at the same moment may both store theirs."""
    search = small_search()
    study = study_of(search, tmp_path / "study")
    study.set_user_attr(SETTINGS, {**search.settings, "seed": 7})

    with pytest.raises(InputError, match="has seed 7, got 0"):
        run_trials(study, search, 1)
    assert not study.trials


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["study.journal", "sqlite:///{}/study.db"])
def test_two_processes_share_one_study(storage: str, tmp_path: Path) -> None:
    place = storage.format(tmp_path) if "://" in storage else str(tmp_path / storage)
    search = small_search()
    study = study_of(search, place)
    line = "-m hadamrnn search digits --max-bytes 200 --epochs 1 --threads 1 --trials 500 --worker"
    command = [sys.executable, *line.split(), "--out", str(tmp_path), "--storage", place]
    workers = [subprocess.Popen(command, stderr=subprocess.PIPE) for _ in range(2)]
    ids = {worker.pid for worker in workers}
    try:
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline:
            done = [trial for trial in study.trials if trial.state == TrialState.COMPLETE]
            if {trial.user_attrs["process"] for trial in done} == ids:
                break
            assert all(worker.poll() is None for worker in workers)
            time.sleep(0.3)
    finally:
        for worker in workers:
            worker.send_signal(signal.SIGTERM)
        errors = [worker.communicate(timeout=60)[1].decode() for worker in workers]

    assert [worker.returncode for worker in workers] == [143, 143], errors
    assert {trial.user_attrs["process"] for trial in done} == ids
    assert not [trial for trial in study.trials if trial.state == TrialState.RUNNING]
    drawn = [json.dumps(trial.params, sort_keys=True) for trial in study.trials]
    assert len(set(drawn)) == len(drawn)
