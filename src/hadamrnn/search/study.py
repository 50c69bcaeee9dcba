"""The study: what several processes and machines share. Needs optuna, which the extra `search` brings."""

from __future__ import annotations

import os
import re
import socket
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from hadamrnn.errors import InputError

try:
    import optuna
    from optuna.distributions import BaseDistribution
    from optuna.storages import BaseStorage, JournalStorage, RDBStorage
    from optuna.storages.journal import JournalFileBackend
    from optuna.trial import FrozenTrial as FrozenTrial
    from optuna.trial import Trial as Trial
    from optuna.trial import TrialState as TrialState
except ModuleNotFoundError as error:
    raise InputError(f"A search needs {error.name}: pip install 'hadamrnn[search]'.") from error

Study = optuna.study.Study
TERMS = "terms"  # the settings that all workers on a study share
STARTUP_TRIALS = 5  # that are never pruned
WARMUP_PERCENT = 20  # of a training, before a trial may be pruned
JOURNAL = b'{"op_code"'  # the beginning of a journal
MASK = "***"
# In a URL: the value of an option named like a password, and the text between the user and the last @.
PASSWORDS = (
    re.compile(r"([?&](?:password|passwd|pwd|token)=)([^&]+)"),
    re.compile(r"(://[^:/@]*:)(.+)(?=@)"),
)


def open_study(storage: str, name: str, terms: dict[str, Any], *, maximize: bool) -> Study:
    """Return the study of that name, new or existing; its terms must be the same.

    Args:
        storage: a journal file, also on a shared file system, or a URL such as sqlite:///study.db.
    """
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(
        storage=_open_storage(storage),
        study_name=name,
        direction="maximize" if maximize else "minimize",
        load_if_exists=True,
        pruner=optuna.pruners.MedianPruner(STARTUP_TRIALS, WARMUP_PERCENT),
    )
    known = study.user_attrs.get(TERMS)
    if known is None:
        study.set_user_attr(TERMS, terms)
    elif known != terms:
        term = next(key for key in {**terms, **known} if terms.get(key) != known.get(key))
        raise InputError(
            f"The study {name} in {masked(storage)} has {term} {known.get(term)!r}, got {terms.get(term)!r}. "
            "Repeat its settings, or choose another --out or --study."
        )
    _bury(study)
    return study


def choose_sampler(study: Study, seed: int, number: int, guess: dict[str, Any]) -> None:
    """Make the draws of trial `number` depend only on the seed, the number and the history.

    So a stopped study continues as if it had not stopped, and two processes never draw the same trial. The
    first trial is `guess`, and so is the next one if it failed. Queueing the guess would be a race: two
    processes that find an empty study would both queue it.
    """
    earlier = study.get_trials(deepcopy=False)[:number]
    first = all(trial.state == TrialState.FAIL for trial in earlier)
    study.sampler = Sampler(seed * 1_000_003 + number, guess if first else {})


class Sampler(optuna.samplers.TPESampler):
    """Draws the parameters that are not given."""

    def __init__(self, seed: int, given: dict[str, Any]) -> None:
        super().__init__(seed=seed, constant_liar=True)
        self._given = given

    def sample_independent(
        self, study: Study, trial: FrozenTrial, param_name: str, param_distribution: BaseDistribution
    ) -> Any:
        if param_name in self._given:
            return self._given[param_name]
        return super().sample_independent(study, trial, param_name, param_distribution)


def sign_trial(trial: Trial) -> None:
    """Record which process works on a trial."""
    trial.set_user_attr("host", socket.gethostname())
    trial.set_user_attr("process", os.getpid())


def finished(study: Study) -> list[FrozenTrial]:
    """Return the trials with a figure."""
    return study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))


def counted(study: Study) -> int:
    """Return how many trials ended or are running; failed and stopped ones do not count.

    Workers that ask at the same moment may each start the last one.
    """
    states = (TrialState.COMPLETE, TrialState.PRUNED, TrialState.RUNNING)
    return len(study.get_trials(deepcopy=False, states=states))


def _bury(study: Study) -> None:
    """Mark the trials of killed processes on this machine as failed."""
    for trial in study.get_trials(deepcopy=False, states=(TrialState.RUNNING,)):
        here = trial.user_attrs.get("host") == socket.gethostname()
        if here and not _alive(int(trial.user_attrs.get("process", 0))):
            study.tell(trial.number, state=TrialState.FAIL)


def _alive(process: int) -> bool:
    if os.name != "posix":
        return True  # there is no harmless signal to test with
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


def _open_storage(place: str) -> BaseStorage:
    try:
        return RDBStorage(place) if "://" in place else _open_journal(Path(place))
    except Exception as error:  # database drivers raise errors of their own
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        for _, secret in (found for pattern in PASSWORDS for found in pattern.findall(place)):
            first = first.replace(secret, MASK).replace(unquote(secret), MASK)
        raise InputError(f"The storage {masked(place)} cannot be opened: {first[:200]}.") from error


def _open_journal(path: Path) -> JournalStorage:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.exists() and not path.is_file():
        raise InputError("it is not a file")
    with suppress(FileNotFoundError), path.open("rb") as file:
        # optuna takes a single line that it cannot read for one half written, and appends to it.
        if file.read(len(JOURNAL)) not in (b"", JOURNAL):
            raise InputError("it is not the journal of a study")
    return JournalStorage(JournalFileBackend(str(path)))


def masked(place: str) -> str:
    """Return a storage without its password, to show it.

    >>> masked("postgresql://me:a@b@host/db"), masked("mysql://host/db?user=me&password=s3")
    ('postgresql://me:***@host/db', 'mysql://host/db?user=me&password=***')
    """
    for pattern in PASSWORDS:
        place = pattern.sub(rf"\1{MASK}", place)
    return place
