"""A study is shared by processes and keeps its terms; its storage is a journal or a database."""

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

from hadamrnn.search.study import Trial, TrialState, choose_sampler, counted
from tests.search.searches import small_search, study_of


def test_the_first_guess_is_drawn_once_and_again_only_if_it_failed(tmp_path: Path) -> None:
    study = study_of(small_search(), tmp_path / "study")
    guess = {"size": 7}

    def draw() -> Trial:
        trial = study.ask()
        choose_sampler(study, 0, trial.number, guess)
        trial.suggest_int("size", 0, 1_000_000)
        return trial

    failed = draw()
    study.tell(failed, state=TrialState.FAIL)
    again, beside = draw(), draw()  # the second one begins while the first one runs

    assert failed.params == again.params == guess
    assert beside.params != guess


def test_a_trial_whose_process_was_killed_is_given_up(tmp_path: Path) -> None:
    search = small_search()
    study = study_of(search, tmp_path / "study")
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    for process in (gone.pid, os.getpid()):
        trial = study.ask()
        trial.set_user_attr("host", socket.gethostname())
        trial.set_user_attr("process", process)
    assert counted(study) == 2

    study = study_of(search, tmp_path / "study")

    assert [trial.state for trial in study.trials] == [TrialState.FAIL, TrialState.RUNNING]
    assert counted(study) == 1


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
