"""A search shared through a PostgreSQL server that the tests start: workers race, die and continue."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from optuna.study import Study
from optuna.trial import TrialState

from tests.conftest import Command
from tests.search.postgresql import PASSWORD, running_server
from tests.search.searches import small_search, study_of

pytestmark = [pytest.mark.database, pytest.mark.slow]
SEARCH = ("search", "digits", "--max-bytes", "200", "--epochs", "1", "--threads", "1")
NAMES = count()


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    with running_server() as url:
        yield url


@pytest.fixture
def database(server: str) -> str:
    """Return the URL of an empty database."""
    import psycopg

    name = f"search{next(NAMES)}"
    with psycopg.connect(f"{server}/postgres", autocommit=True) as connection:
        connection.execute(f"create database {name}".encode())
    return f"{server}/{name}"


def start_worker(database: str, out: Path, trials: int) -> subprocess.Popen[str]:
    line = [*SEARCH, "--trials", trials, "--worker", "--storage", database, "--out", out]
    return subprocess.Popen(
        [sys.executable, "-m", "hadamrnn", *map(str, line)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    )  # fmt: skip


def wait_for_running(study: Study, process: int) -> int:
    """Return the number of the first trial that the process is running."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
            if trial.user_attrs.get("process") == process:
                return trial.number
        time.sleep(0.02)
    raise AssertionError("no trial was started")


def test_workers_that_start_together_on_an_empty_database_share_one_study(
    database: str, tmp_path: Path
) -> None:
    workers = [start_worker(database, tmp_path, 6) for _ in range(3)]
    ends = [worker.communicate(timeout=300) for worker in workers]

    assert [worker.returncode for worker in workers] == [0, 0, 0], ends
    study = study_of(small_search(), database)
    states = [trial.state for trial in study.trials]
    assert TrialState.RUNNING not in states and TrialState.FAIL not in states
    assert 6 <= len(states) <= 8  # workers that look at the same moment may each start the last one


def test_a_search_survives_a_killed_worker(database: str, tmp_path: Path) -> None:
    study = study_of(small_search(), database)
    workers = [start_worker(database, tmp_path, 8) for _ in range(2)]
    try:
        lost = wait_for_running(study, workers[0].pid)
        workers[0].kill()  # SIGKILL
        workers[0].communicate()
        _, errors = workers[1].communicate(timeout=300)
    finally:
        for worker in workers:
            worker.kill()
            worker.communicate()

    assert workers[1].returncode == 0, errors
    assert study.trials[lost].state == TrialState.FAIL
    ended = [trial.state for trial in study.trials if trial.number != lost]
    assert TrialState.RUNNING not in ended and len(ended) == 8


def test_a_search_is_finished_from_the_database(database: str, command: Command, tmp_path: Path) -> None:
    answer = command(*SEARCH, "--trials", 1, "--storage", database, "--out", tmp_path, "--quiet")

    assert answer.status == 0, answer.err
    assert (tmp_path / "search.json").is_file()


@pytest.mark.parametrize("wrong", ["password", "server", "database"])
def test_a_database_that_cannot_be_reached_is_one_line_without_its_password(
    wrong: str, database: str, command: Command, tmp_path: Path
) -> None:
    url = {
        "password": database.replace("s3cr", "0ther-s3cr"),
        "server": database.replace("@127.0.0.1:", "@127.0.0.1:1", 1)[: database.rindex(":") + 1] + "1/x",
        "database": database + "-missing",
    }[wrong]

    answer = command(*SEARCH, "--storage", url, "--out", tmp_path)

    assert (answer.status, answer.out, answer.err.count("\n")) == (2, "", 1)
    assert "***" in answer.err and "s3cr" not in answer.err and PASSWORD not in answer.err
