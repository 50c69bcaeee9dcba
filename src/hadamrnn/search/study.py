"""Manage the study that workers share: its storage, settings, sampler and running processes.

A worker is a process on any machine with access to the study's storage, a journal file or a database. Start
at `open_study`.
"""

from __future__ import annotations

import os
import random
import re
import socket
import threading
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import optuna
from optuna.exceptions import ExperimentalWarning, StorageInternalError, UpdateFinishedTrialError
from optuna.storages import BaseStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.study import Study
from optuna.trial import FrozenTrial, Trial, TrialState
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from hadamrnn.errors import InputError

SETTINGS = "settings"
STARTUP_TRIALS = 5  # the first trials are never pruned
WARMUP_PERCENT = 20  # a trial may be pruned only after this part of its training
HEARTBEAT_SECONDS = 30
STALE_SECONDS = 300  # without a heartbeat; much more than two machines' clocks may differ
ATTEMPTS = 10  # attempts to create the tables while other workers do the same
JOURNAL_START = b'{"op_code"'
MASK = "***"
# Secrets in a URL: the value of an option that may be a password, and the text between user and last @.
PASSWORDS = (
    re.compile(r"([?&](?:password|passwd|pwd|token)=)([^&]+)"),
    re.compile(r"(://[^:/@]*:)(.+)(?=@)"),
)
POSTGRESQL = re.compile(r"^postgres(ql)?://")


def open_study(storage: str, name: str, settings: dict[str, Any], *, maximize: bool) -> Study:
    """Open or create the study with this name; refuse one whose settings differ from `settings`."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    opened = open_storage(storage)
    with storage_errors_in_one_line(storage):
        study = optuna.create_study(
            storage=opened,
            study_name=name,
            direction="maximize" if maximize else "minimize",
            load_if_exists=True,
            pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, WARMUP_PERCENT),
        )
        if SETTINGS not in study.user_attrs:
            study.set_user_attr(SETTINGS, settings)
        check_settings(study, settings)
        fail_stale_trials(study)
    return study


def check_settings(study: Study, settings: dict[str, Any]) -> None:
    """Raise unless the study has these settings.

    Two workers that create a study at the same moment may both store their settings, so check again later.
    """
    known = study.user_attrs[SETTINGS]
    if known != settings:
        name = next(key for key in {**settings, **known} if settings.get(key) != known.get(key))
        raise InputError(
            f"The study {study.study_name} has {name} {known.get(name)!r}, got {settings.get(name)!r}. "
            "Repeat its settings, or choose another --out or --study."
        )


def set_sampler(study: Study, seed: int, number: int, first: dict[str, Any]) -> None:
    """Make the parameters of trial `number` depend only on the seed, the number and the history.

    A stopped study then continues as if it had not stopped, and two workers never sample the same trial. The
    first trial uses the parameters `first`; if it fails, so does the next. These are not queued, because two
    workers that find an empty study would both queue them.
    """
    earlier = study.get_trials(deepcopy=False)[:number]
    none_ended = all(trial.state == TrialState.FAIL for trial in earlier)
    sampler = optuna.samplers.TPESampler(seed=seed * 1_000_003 + number, constant_liar=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ExperimentalWarning)
        study.sampler = optuna.samplers.PartialFixedSampler(first if none_ended else {}, sampler)


def completed(study: Study) -> list[FrozenTrial]:
    """Return the trials that were trained to their end and evaluated."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def count_trials(study: Study) -> int:
    """Return the number of running and finished trials, without failed and stopped ones.

    Workers that call this at the same moment may all start the last trial.
    """
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    return len(study.get_trials(deepcopy=False, states=states))


@contextmanager
def heartbeat(trial: Trial) -> Iterator[None]:
    """Record the process of a trial, and keep reporting that it is alive during this block."""
    trial.set_user_attr("host", socket.gethostname())  # first, because without it no process is checked
    trial.set_user_attr("process", os.getpid())
    ended = threading.Event()

    def beat() -> None:
        while not ended.wait(HEARTBEAT_SECONDS):
            with suppress(Exception):  # the main thread reports storage errors
                trial.set_user_attr("heartbeat", time.time())

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def fail_stale_trials(study: Study) -> None:
    """Mark the trials of dead workers, which have no process or no heartbeat, as failed."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        assert trial.datetime_start is not None
        known = trial.user_attrs
        silent = time.time() - known.get("heartbeat", trial.datetime_start.timestamp())
        here = "process" in known and known["host"] == socket.gethostname()
        if silent > STALE_SECONDS or (here and not _is_alive(known["process"])):
            with suppress(UpdateFinishedTrialError):  # another worker was faster
                study.tell(trial.number, state=TrialState.FAIL, skip_if_finished=True)


def _is_alive(process: int) -> bool:
    if os.name != "posix":
        return True  # this system has no harmless signal to test a process with
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def open_storage(place: str) -> BaseStorage:
    """Open the storage at `place`: a journal file, also on a shared file system, or the URL of a database."""
    try:
        return _open_database(place) if "://" in place else _open_journal(Path(place))
    except Exception as error:  # database drivers raise their own errors
        raise InputError(f"The storage {mask(place)} cannot be opened: {_reason(error, place)}.") from error


@contextmanager
def storage_errors_in_one_line(place: str) -> Iterator[None]:
    """Turn a database's errors inside this block into an `InputError`."""
    try:
        yield
    except (SQLAlchemyError, StorageInternalError) as error:
        reason = _reason(error.__cause__ or error, place)
        raise InputError(
            f"The storage {mask(place)} failed: {reason}. Repeat the command to continue."
        ) from error


def mask(place: str) -> str:
    """Return the location of a storage without its password.

    >>> mask("postgresql://me:a@b@host/db"), mask("mysql://host/db?user=me&password=s3")
    ('postgresql://me:***@host/db', 'mysql://host/db?user=me&password=***')
    """
    for pattern in PASSWORDS:
        place = pattern.sub(rf"\1{MASK}", place)
    return place


def _open_database(url: str) -> RDBStorage:
    # SQLAlchemy's default driver depends on its version.
    url, postgresql = POSTGRESQL.subn("postgresql+psycopg://", url)
    for attempt in range(1, ATTEMPTS + 1):
        try:
            # Without a pool no connection stays open, so none can go stale during a long trial.
            return RDBStorage(url, engine_kwargs={"poolclass": NullPool})
        except ImportError as error:
            extra = "pip install 'hadamrnn[postgresql]'" if postgresql else "install it"
            raise ImportError(f"its driver is missing ({error.__cause__ or error}): {extra}") from error
        except DBAPIError as error:
            # A failed connection has no statement. A failed statement means that another worker creates
            # the same tables.
            if error.statement is None or attempt == ATTEMPTS:
                raise
            time.sleep(random.uniform(0.05, 0.5))
    raise AssertionError("the last attempt returns or raises")


def _open_journal(path: Path) -> JournalStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise ValueError("it is not a file")
    with suppress(FileNotFoundError), path.open("rb") as file:
        # optuna assumes that a single unreadable line is half written, and appends to it.
        if file.read(len(JOURNAL_START)) not in (b"", JOURNAL_START):
            raise ValueError("it is not the journal of a study")
    return JournalStorage(JournalFileBackend(str(path)))


def _reason(error: BaseException, place: str) -> str:
    """Return the first line of an error, without the password in `place`."""
    first = (str(error).strip() or type(error).__name__).splitlines()[0]
    for _, secret in (found for pattern in PASSWORDS for found in pattern.findall(place)):
        first = first.replace(secret, MASK).replace(unquote(secret), MASK)
    return first[:200]
